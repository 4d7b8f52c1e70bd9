package gate

import (
	"net/http"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/answer"
	"github.com/weir-go/weir/limits"
)

// quotaExceeded begins a problem document of the type of
// draft-ietf-httpapi-ratelimit-headers-11, section 5.
const quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"`

// writeProblem answers with a problem document (RFC 9457). The document names the rules
// that denied, but for those that are hidden, if names is true and the status is 429.
func writeProblem(w http.ResponseWriter, r *http.Request, o *core.Outcome, names bool, hidden []string) {
	body := answer.Bodies.Get().(*[]byte)
	b := (*body)[:0]
	if o.Status() == http.StatusTooManyRequests {
		b = append(b, quotaExceeded...)
	} else {
		b = append(b, answer.ReducedCapacity...)
		names = false // the client has violated no policy
	}
	b = appendDetail(b, w.Header(), o)
	b = append(b, '"')
	if names {
		b = appendViolated(b, o, hidden)
	}
	b = append(b, '}', '\n')
	answer.Write(w, r, o.Status(), answer.Problem, b)
	*body = b
	answer.Bodies.Put(body)
}

// PlainText is nethttp.PlainText.
func PlainText(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	if v := o.Verdict(); v == core.Denied || v == core.Unavailable {
		writeText(w, r, &o)
	}
}

// writeText answers in plain text with the same explanation as writeProblem.
func writeText(w http.ResponseWriter, r *http.Request, o *core.Outcome) {
	b := appendDetail(nil, w.Header(), o)
	answer.Write(w, r, o.Status(), answer.Text, append(b, '\n'))
}

// appendDetail appends an explanation of the answer, with the wait in Retry-After.
func appendDetail(b []byte, h http.Header, o *core.Outcome) []byte {
	retry := h["Retry-After"]
	switch {
	case o.Verdict() != core.Denied:
		b = append(b, "The service cannot decide on this request right now"...)
	case (len(retry) == 0 || retry[0] == "") && o.RetryAfter() == limits.Never:
		return append(b, "This request costs more than its limit ever allows: retrying will not help."...)
	case o.Status() == http.StatusServiceUnavailable:
		b = answer.AppendAtCapacity(b)
	default:
		b = append(b, "Too many requests"...)
	}
	return answer.AppendWait(b, h)
}

// appendViolated appends the names of the rules that denied, in the extension member of
// the IETF draft. A name is printable ASCII, so only two of its characters need an
// escape.
func appendViolated(b []byte, o *core.Outcome, hidden []string) []byte {
	named := false
	for i := range o.Len() {
		d := o.At(i)
		if d.Allowed || d.Mode() != core.Enforce || !d.Source.Counted() || slices.Contains(hidden, d.Rule()) {
			continue
		}
		if named {
			b = append(b, ',')
		} else {
			b = append(b, `,"violated-policies":[`...)
			named = true
		}
		b = append(b, '"')
		for j := range len(d.Rule()) {
			if c := d.Rule()[j]; c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, d.Rule()[j])
		}
		b = append(b, '"')
	}
	if named {
		b = append(b, ']')
	}
	return b
}
