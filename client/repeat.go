package client

import (
	"io"
	"net/http"
	"slices"
	"time"
)

// budget limits the repetitions in a bucket: in each minute a tenth of the requests that were sent
// for the first time, and ten.
//
//	100 sent in a minute: 20 may be repeated
type budget struct {
	minute         instant // when it began
	sent, repeated int64
}

// send counts a request that is sent for the first time.
func (b *budget) send(now instant) {
	b.advance(now)
	b.sent++
}

// repeat counts a repetition, or reports that there are too many.
func (b *budget) repeat(now instant) bool {
	b.advance(now)
	if b.repeated >= b.sent/10+10 {
		return false
	}
	b.repeated++
	return true
}

func (b *budget) advance(now instant) {
	if now-b.minute >= time.Minute {
		*b = budget{minute: now}
	}
}

// whyNotAgain returns why a denied request is not sent again, or "" if it is.
func (p *pacer) whyNotAgain(c *call, status int, now instant, wait time.Duration, l leeway) string {
	switch {
	case c.attempt >= p.o.Attempts:
		return "it has been sent as often as Attempts allows"
	case p.mayBeDone(status) && !c.harmless:
		return "its status may mean that it was carried out: set an Idempotency-Key"
	case !c.rewinds:
		return "its body cannot be sent again: set GetBody"
	case wait > l.most:
		return "the wait is " + tooLong(l.bound)
	case c.together && c.attempt == 1:
		return "" // another one of those that were denied together has been counted
	case !c.bucket.budget.repeat(now):
		return "too many requests of its bucket are repeated"
	}
	return ""
}

// mayBeDone reports whether a denial of that status leaves open if the request was carried out.
func (p *pacer) mayBeDone(status int) bool {
	return status == http.StatusServiceUnavailable || slices.Contains(p.o.Denials, status)
}

// rewinds reports whether the body can be sent again.
func rewinds(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// harmless reports whether r may be carried out twice. net/http decides in the same way when a
// connection fails.
func harmless(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return hasIdempotencyKey(r.Header)
}

func hasIdempotencyKey(h http.Header) bool {
	_, key := h["Idempotency-Key"]
	_, xKey := h["X-Idempotency-Key"]
	return key || xKey
}

const (
	maxDiscard     = 64 << 10
	discardingTime = 100 * time.Millisecond
)

// discard reads the rest of a body, so that its connection can be used again. It closes the body
// early if the rest is long or slow.
func discard(body io.ReadCloser) {
	if body == nil {
		return
	}
	timer := time.AfterFunc(discardingTime, func() { body.Close() })
	io.CopyN(io.Discard, body, maxDiscard+1)
	timer.Stop()
	body.Close()
}
