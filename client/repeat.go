package client

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"
)

// budget bounds how many requests of a bucket are repeated: in each minute a tenth of
// those that were sent for the first time, and ten.
type budget struct {
	minute         instant // when it began
	sent, repeated int64
}

func (b *budget) at(now instant) {
	if now-b.minute >= time.Minute {
		*b = budget{minute: now}
	}
}

func (b *budget) repeat(now instant) bool {
	b.at(now)
	if b.repeated >= b.sent/10+10 {
		return false
	}
	b.repeated++
	return true
}

// refusal returns why a denied request is not sent again, or "" if it is.
func (p *pacer) refusal(c *call, status int, now instant, wait time.Duration, l leeway) string {
	switch {
	case c.attempt >= p.attempts:
		return "it has been sent as often as Attempts allows"
	case (status == http.StatusServiceUnavailable || slices.Contains(p.denials, status)) && !c.isHarmless():
		return "its status does not say that nothing was done: an Idempotency-Key would allow to repeat it"
	case !c.rewinds:
		return "its body cannot be sent again: set GetBody"
	case wait > l.most:
		return "the wait is " + longerThan(l.bound)
	case c.together && c.attempt == 1:
		return "" // one of those that were denied together has been counted
	case !c.bucket.budget.repeat(now):
		return "too many requests of its bucket are repeated"
	}
	return ""
}

// leeway is how long a call may wait, and what bounds that.
type leeway struct {
	most  time.Duration // negative if the context has ended
	bound string
}

// leeway returns that of c. It is called before the lock is taken.
func (p *pacer) leeway(ctx context.Context, c *call) leeway {
	if ctx.Err() != nil {
		return leeway{-1, boundContext}
	}
	most, bound := mostWait(ctx, p.maxWait-c.waited)
	return leeway{most, bound}
}

// rewinds reports whether the body can be sent again.
func rewinds(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

func (c *call) isHarmless() bool {
	return c.harmless || c.describe == nil && harmless(c.request)
}

// harmless reports whether r may be carried out twice, by the standard that net/http
// applies when a connection fails.
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

// discard reads what is left of a body, so that its connection can be used again, unless
// that is much or takes long.
func discard(body io.ReadCloser) {
	if body == nil {
		return
	}
	timer := time.AfterFunc(discardingTime, func() { body.Close() })
	io.CopyN(io.Discard, body, maxDiscard+1)
	timer.Stop()
	body.Close()
}
