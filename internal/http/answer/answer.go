// Package answer writes what limiters and shedders answer instead of the handler.
package answer

import (
	"net/http"
	"strconv"
	"sync"
)

// ReplaceContent prepares h for an answer that replaces the handler's. No cache may
// store it (RFC 6585, section 4).
func ReplaceContent(h http.Header) {
	DeleteContent(h)
	SetUncached(h)
}

const noStore = "no-store"

// SetUncached says in h that no cache may store the answer.
func SetUncached(h http.Header) { h["Cache-Control"] = []string{noStore} }

// DeleteContent deletes the fields of the answer that h is for.
func DeleteContent(h http.Header) {
	for _, name := range contentFields {
		delete(h, name)
	}
}

// contentFields are fields that an outer handler may have set for the answer that a
// denial replaces. gin sets Allow before any handler runs.
var contentFields = [...]string{"Allow", "Content-Encoding", "Content-Length", "Etag", "Expires", "Last-Modified"}

// Content types of answers.
const (
	Problem = "application/problem+json" // RFC 9457
	Text    = "text/plain; charset=utf-8"
)

// ReducedCapacity begins a problem document of the type of
// draft-ietf-httpapi-ratelimit-headers-11, section 5. Its detail follows.
const ReducedCapacity = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"`

// Bodies has buffers, so that an answer allocates none.
var Bodies = sync.Pool{New: func() any { return new([]byte) }}

// AtCapacity answers 503 in the form that the client prefers. The wait is that of the header
// field Retry-After, which is set already.
func AtCapacity(w http.ResponseWriter, r *http.Request) {
	body := Bodies.Get().(*[]byte)
	b := (*body)[:0]
	if PrefersText(r.Header["Accept"]) {
		b = append(AppendWait(AppendAtCapacity(b), w.Header()), '\n')
		Write(w, r, http.StatusServiceUnavailable, Text, b)
	} else {
		b = append(b, ReducedCapacity...)
		b = append(AppendWait(AppendAtCapacity(b), w.Header()), "\"}\n"...)
		Write(w, r, http.StatusServiceUnavailable, Problem, b)
	}
	*body = b
	Bodies.Put(body)
}

// AppendAtCapacity appends the reason of a service that is full, without the wait.
func AppendAtCapacity(b []byte) []byte { return append(b, "The service is at capacity"...) }

// AppendWait ends a sentence with the wait in Retry-After.
func AppendWait(b []byte, h http.Header) []byte { return AppendRetry(b, RetryAfter(h)) }

// RetryAfter returns the value of Retry-After, "" if h has none.
func RetryAfter(h http.Header) string {
	if v := h["Retry-After"]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// AppendRetry ends a sentence with a wait, if that is a number of seconds. Of more than two hours
// it says hours and minutes, of two days and more days and hours, rounded up.
func AppendRetry(b []byte, retry string) []byte {
	switch {
	case !isSeconds(retry): // headers.Options.Custom may have written any text
		return append(b, '.')
	case retry == "1":
		return append(b, ": retry in 1 second."...)
	}
	b = append(b, ": retry in "...)
	switch seconds, err := strconv.ParseInt(retry, 10, 64); {
	case err != nil || seconds <= 2*hour:
		b = append(b, retry...)
		b = append(b, " seconds"...)
	case seconds <= 2*day-minute:
		minutes := (seconds + minute - 1) / minute
		b = appendCounts(b, minutes/60, "hour", minutes%60, "minute")
	default:
		hours := (seconds-1)/hour + 1
		b = appendCounts(b, hours/24, "day", hours%24, "hour")
	}
	return append(b, '.')
}

// In seconds.
const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// appendCounts appends a wait of some of a unit, and of a smaller one if it has any.
func appendCounts(b []byte, n int64, unit string, rest int64, smaller string) []byte {
	b = appendCount(b, n, unit)
	if rest > 0 {
		b = appendCount(append(b, " and "...), rest, smaller)
	}
	return b
}

func appendCount(b []byte, n int64, unit string) []byte {
	b = append(append(strconv.AppendInt(b, n, 10), ' '), unit...)
	if n != 1 {
		b = append(b, 's')
	}
	return b
}

func isSeconds(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// Write answers with body.
func Write(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	send(w, h, r, status, body)
}

// WriteUncached is Write for an answer that no cache may store. Two fields share an allocation.
func WriteUncached(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	h, lines := w.Header(), []string{contentType, noStore}
	h["Content-Type"], h["Cache-Control"] = lines[:1:1], lines[1:]
	send(w, h, r, status, body)
}

func send(w http.ResponseWriter, h http.Header, r *http.Request, status int, body []byte) {
	if r.Method == http.MethodHead { // the fields of a GET without the content (RFC 9110, section 9.3.2)
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		w.WriteHeader(status)
		return
	}
	w.WriteHeader(status)
	w.Write(body) // an error means that the client has left
}
