package nethttp

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/weir-go/weir/core"
)

// Problem types of draft-ietf-httpapi-ratelimit-headers-11, section 5.
const (
	quotaExceeded   = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"`
	reducedCapacity = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"`
)

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// writeProblem answers with a problem document (RFC 9457). The document names the rules
// that denied if names is true.
func writeProblem(w http.ResponseWriter, r *http.Request, o *core.Outcome, names bool) {
	body := bodies.Get().(*[]byte)
	b := (*body)[:0]
	if o.Verdict() == core.Denied {
		b = append(b, quotaExceeded...)
	} else {
		b = append(b, reducedCapacity...)
	}
	b = appendDetail(b, w.Header(), o)
	b = append(b, '"')
	if names {
		b = appendViolated(b, o)
	}
	b = append(b, '}', '\n')
	write(w, r, o, "application/problem+json", b)
	*body = b
	bodies.Put(body)
}

// PlainText answers a request that is denied or could not be decided with status 429 or
// 503 and one line of plain text, whatever the client prefers. The line is such as "Too
// many requests: retry in 30 seconds." and names no rule. PlainText is for
// [Config].Denied:
//
//	nethttp.Config{Rules: rules, Denied: nethttp.PlainText}
//
// It takes the wait from the header field Retry-After, if that is set. If o is allowed
// or abandoned, PlainText does nothing.
func PlainText(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	if v := o.Verdict(); v == core.Denied || v == core.Unavailable {
		writeText(w, r, &o)
	}
}

// writeText answers in plain text with the same explanation as writeProblem.
func writeText(w http.ResponseWriter, r *http.Request, o *core.Outcome) {
	b := appendDetail(nil, w.Header(), o)
	write(w, r, o, "text/plain; charset=utf-8", append(b, '\n'))
}

func write(w http.ResponseWriter, r *http.Request, o *core.Outcome, contentType string, body []byte) {
	status := o.Status()
	w.Header()["Content-Type"] = []string{contentType}
	if r.Method == http.MethodHead { // the fields of a GET without the content (RFC 9110, section 9.3.2)
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
		w.WriteHeader(status)
		return
	}
	w.WriteHeader(status)
	w.Write(body) // an error means that the client has left
}

// appendDetail appends an explanation of the answer, with the wait in Retry-After.
func appendDetail(b []byte, h http.Header, o *core.Outcome) []byte {
	retry := ""
	if v := h["Retry-After"]; len(v) > 0 {
		retry = v[0]
	}
	switch {
	case o.Verdict() != core.Denied:
		b = append(b, "The service cannot decide on this request right now"...)
	case retry == "" && o.RetryAfter() == core.Never:
		return append(b, "This request costs more than its limit ever allows: retrying will not help."...)
	default:
		b = append(b, "Too many requests"...)
	}
	switch {
	case !isSeconds(retry): // headers.Options.Custom may have written any text
		return append(b, '.')
	case retry == "1":
		return append(b, ": retry in 1 second."...)
	}
	b = append(b, ": retry in "...)
	b = append(b, retry...)
	return append(b, " seconds."...)
}

func isSeconds(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// appendViolated appends the names of the rules that denied, in the extension member of
// the IETF draft. A name is printable ASCII, so only two of its characters need an
// escape.
func appendViolated(b []byte, o *core.Outcome) []byte {
	named := false
	for i := range o.Len() {
		d := o.At(i)
		if d.Allowed || !d.Source.Counted() {
			continue
		}
		if named {
			b = append(b, ',')
		} else {
			b = append(b, `,"violated-policies":[`...)
			named = true
		}
		b = append(b, '"')
		for j := range len(d.Rule) {
			if c := d.Rule[j]; c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, d.Rule[j])
		}
		b = append(b, '"')
	}
	if named {
		b = append(b, ']')
	}
	return b
}
