package gate

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/limits"
)

// PlainText is nethttp.PlainText.
func PlainText(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	if v := o.Verdict(); v != core.Denied && v != core.Unavailable {
		return
	}
	if answer.IsGRPC(r) {
		writeGRPC(w, r, &o, answer.Seconds(told(w.Header(), &o)))
	} else {
		answer.Write(w, r, o.Status(), answer.Text, plainText(w, r, &o, o.Status()))
	}
}

// writeGRPC answers a call of gRPC that may be repeated after wait.
func writeGRPC(w http.ResponseWriter, r *http.Request, o *core.Outcome, wait time.Duration) {
	h, status := w.Header(), o.Status()
	var room [128]byte
	answer.WriteGRPC(w, r, answer.GRPC{
		Status: status, Wait: wait,
		Message: appendCause(appendDetail(room[:0], told(h, o), o, status), r, told(h, o), o),
		TooLong: headers.TooLong(h),
	})
}

// plainText returns the explanation of writeProblem as plain text.
func plainText(w http.ResponseWriter, r *http.Request, o *core.Outcome, status int) []byte {
	said := told(w.Header(), o)
	return append(appendCause(appendDetail(nil, said, o, status), r, said, o), '\n')
}

// appendDetail appends an explanation of the answer, with a wait that told has returned.
func appendDetail(b []byte, retry string, o *core.Outcome, status int) []byte {
	switch {
	case o.Verdict() != core.Denied:
		b = append(b, "The service cannot decide on this request right now"...)
	case retry == "" && o.RetryAfter() == limits.Never:
		return append(b, "This request costs more than its limit ever allows: retrying will not help."...)
	case status == http.StatusServiceUnavailable:
		b = answer.AppendAtCapacity(b)
	default:
		b = append(b, "Too many requests"...)
	}
	return answer.AppendRetry(b, retry)
}

// appendCause appends to a detail why r costs so many tokens, if they are why no wait helps.
func appendCause(b []byte, r *http.Request, retry string, o *core.Outcome) []byte {
	if o.Verdict() != core.Denied || retry != "" || o.RetryAfter() != limits.Never || !costsTokens(o) {
		return b
	}
	if cause := causeOf(r.Context()); cause != "" {
		b = append(append(b, ' '), cause...)
	}
	return b
}

// costsTokens reports whether a rule of tokens, or of their price, never allows the request of o.
func costsTokens(o *core.Outcome) bool {
	for i := range o.Len() {
		d := o.At(i)
		if d.Allowed || d.Mode() != core.Enforce || d.RetryAfter != limits.Never {
			continue
		}
		switch d.Unit() {
		case core.Tokens, core.InputTokens, core.OutputTokens, core.Money:
			return true
		}
	}
	return false
}

// told returns the wait that the text of an answer tells, in seconds: that of Retry-After in h, or
// that of o if the header options have left Retry-After out for its length.
func told(h http.Header, o *core.Outcome) string {
	retry := answer.RetryAfter(h)
	if retry == "" && headers.TooLong(h) {
		if wait := o.Turn(); wait != limits.Never {
			return strconv.FormatInt(int64((wait-1)/time.Second)+1, 10)
		}
	}
	return retry
}

// appendViolated appends the extension member of the IETF draft, with the names of the rules that
// denied and that clients may know. names has those of all rules, as JSON.
func appendViolated(b []byte, o *core.Outcome, names []string) []byte {
	named := false
	for i := range o.Len() {
		d := o.At(i)
		if !isViolated(d) {
			continue
		}
		if named {
			b = append(b, ',')
		} else {
			b = append(b, `,"violated-policies":[`...)
			named = true
		}
		b = append(b, names[d.Index()]...)
	}
	if named {
		b = append(b, ']')
	}
	return b
}

// isViolated reports whether d is a denial by a rule that clients may know.
func isViolated(d *core.RuleDecision) bool {
	return !d.Allowed && d.Mode() == core.Enforce && d.Source.Counted() && !d.Hidden()
}

// violated returns the names of rules as JSON, or nil if documents have no names.
func violated[R any](rules []core.Rule[R], options headers.Options) []string {
	if options.Show == headers.Omit {
		return nil
	}
	names := make([]string, len(rules))
	for i := range rules {
		names[i] = quote(rules[i].Name)
	}
	return names
}

// quote returns a name as JSON. It is printable ASCII, so only two of its characters need an
// escape.
func quote(name string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(name) + `"`
}

// Explain returns an explanation of the answer to a request that was denied or could not be decided,
// and the wait that it tells, or 0. h has the fields.
func Explain(h http.Header, o *core.Outcome) (detail string, wait time.Duration) {
	retry := told(h, o)
	return string(appendDetail(nil, retry, o, o.Status())), answer.Seconds(retry)
}
