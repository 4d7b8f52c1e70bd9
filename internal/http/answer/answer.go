// Package answer writes the answers of limiters and shedders, which replace those of the handler.
package answer

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// ReplaceContent prepares h for an answer that replaces the handler's and that no cache may store
// (RFC 6585, section 4).
func ReplaceContent(h http.Header) {
	DeleteContent(h)
	SetUncached(h)
}

const noStore = "no-store"

// SetUncached sets the field by which no cache stores the answer.
func SetUncached(h http.Header) { h["Cache-Control"] = []string{noStore} }

// DeleteContent deletes the fields in h that describe the handler's answer, and those that count more
// for one cache than Cache-Control (RFC 9213, section 2.2).
func DeleteContent(h http.Header) {
	for _, name := range contentFields {
		delete(h, name)
	}
}

// contentFields are fields that an outer handler may have set for its own answer. gin sets Allow
// before any handler runs.
var contentFields = [...]string{"Allow", "Content-Encoding", "Content-Length", "Etag", "Expires",
	"Last-Modified", "X-Accel-Expires", "Cdn-Cache-Control", "Cloudflare-Cdn-Cache-Control",
	"Surrogate-Control"}

// Undecided is a writer that is told why the rules could not decide a request, before the answer is
// written.
type Undecided interface {
	http.ResponseWriter
	Undecided(err error)
}

// TellUndecided tells w, or what it wraps, why the rules could not decide: err is the error of the
// outcome.
func TellUndecided(w http.ResponseWriter, err error) {
	for {
		switch inner := w.(type) {
		case Undecided:
			inner.Undecided(err)
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return
		}
	}
}

// Content types of answers.
const (
	Problem = "application/problem+json" // RFC 9457
	JSON    = "application/json"
	Text    = "text/plain; charset=utf-8"
)

// Bodies is a pool of buffers for answers.
var Bodies = sync.Pool{New: func() any { return new([]byte) }}

// AtCapacity answers 503 as plain text or a problem document, as the client prefers, and a call of
// gRPC with UNAVAILABLE. The caller has set Retry-After, which has the wait.
func AtCapacity(w http.ResponseWriter, r *http.Request) {
	body := Bodies.Get().(*[]byte)
	b := (*body)[:0]
	if IsGRPC(r) {
		b = AppendWait(AppendAtCapacity(b), w.Header())
		WriteGRPC(w, r, GRPC{
			Status: http.StatusServiceUnavailable, Message: b, Wait: Seconds(RetryAfter(w.Header())),
		})
	} else if PrefersText(r.Header["Accept"]) {
		b = append(AppendWait(AppendAtCapacity(b), w.Header()), '\n')
		Write(w, r, http.StatusServiceUnavailable, Text, b)
	} else {
		var room [maxSentence]byte
		b = AppendProblem(b, Document{
			Status: http.StatusServiceUnavailable, Retry: RetryAfter(w.Header()),
			Detail: AppendWait(AppendAtCapacity(room[:0]), w.Header()),
		})
		b = append(b, "}\n"...)
		Write(w, r, http.StatusServiceUnavailable, Problem, b)
	}
	*body = b
	Bodies.Put(body)
}

// AppendAtCapacity appends the sentence of a full service, without its end.
func AppendAtCapacity(b []byte) []byte { return append(b, "The service is at capacity"...) }

// AppendWait ends a sentence with the wait that Retry-After has in h.
func AppendWait(b []byte, h http.Header) []byte { return AppendRetry(b, RetryAfter(h)) }

// RetryAfter returns the value of Retry-After in h, or "".
func RetryAfter(h http.Header) string {
	if v := h["Retry-After"]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Seconds returns the wait of a value of Retry-After, or 0 if it is no number of seconds.
func Seconds(retry string) time.Duration {
	seconds, err := strconv.ParseUint(retry, 10, 31) // headers.Options.Custom may write any text
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// AppendRetry ends a sentence with a wait if retry is a number of seconds. Above two hours it
// writes hours and minutes, from two days on days and hours, rounded up.
func AppendRetry(b []byte, retry string) []byte {
	switch {
	case !isSeconds(retry): // headers.Options.Custom may write any text
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

// Units in seconds.
const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// appendCounts appends a wait of n units and, if rest is not 0, of rest smaller units.
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

// Write writes an answer with body.
func Write(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	send(w, h, r, status, body)
}

// WriteUncached is Write for an answer that no cache may store. It allocates once for both fields.
func WriteUncached(w http.ResponseWriter, r *http.Request, status int, contentType string,
	body []byte) {
	h, lines := w.Header(), []string{contentType, noStore}
	h["Content-Type"], h["Cache-Control"] = lines[:1:1], lines[1:]
	send(w, h, r, status, body)
}

func send(w http.ResponseWriter, h http.Header, r *http.Request, status int, body []byte) {
	// the fields of a GET without the content (RFC 9110, section 9.3.2)
	if r.Method == http.MethodHead {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		w.WriteHeader(status)
		return
	}
	w.WriteHeader(status)
	w.Write(body) // an error means that the client has left
}
