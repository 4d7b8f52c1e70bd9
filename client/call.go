package client

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// call is one call, with all its attempts.
type call struct {
	id       identity
	cost     spend                // in tokens
	request  *http.Request        // for functions of options
	describe func() *http.Request // makes request when it is needed; nil: request is set
	header   http.Header
	path     string
	rewinds  bool           // can be sent again
	harmless bool           // may be carried out twice
	response *http.Response // received, and not yet returned
	bucket   *bucket
	ticket   ticket
	attempt  int  // 1 is the first
	again    bool // goes before calls that have not been sent
	together bool // was denied with others, and sent before the first of these denials
	heldBack bool // had to wait for this attempt
	waited   time.Duration
	source   string // of the last wait
	redirect struct {
		wait   time.Duration // that the redirect to this request asks for; 0: none, or waited for
		source string
	}
	stage  stage
	status int // of the last answer
	finish func(status int)
}

// stage is what a call has counted, and has to take back.
type stage uint8

const (
	idle     stage = iota // nothing
	asking                // in flight, and asks Options.Limit
	started               // in flight
	answered              // its answer is noted, and its end is not
)

// asked returns the request for functions of options.
func (c *call) asked() *http.Request {
	if c.request == nil {
		c.request = c.describe()
	}
	return c.request
}

// afterRedirect notes how long the redirect to the request of c asks to wait, if a redirect led to it:
// the least time before the redirected request, by RFC 9110, section 10.2.3.
func (c *call) afterRedirect(redirect *http.Response) {
	if redirect != nil {
		wait, source, _ := quota.WaitOf(redirect.Header)
		c.redirect.wait, c.redirect.source = min(wait, quota.Longest), source
	}
}

// endLimit ends the units that c holds of Options.Limit.
func (c *call) endLimit() {
	if finish := c.finish; finish != nil {
		c.finish = nil
		finish(c.status)
	}
}

// leeway is how long a call may still wait, and the bound of that, as in WaitError.
type leeway struct {
	most  time.Duration // negative if the context has ended
	bound string
}

// whyNotAgain returns why a denied request is not sent again, or "" if it is.
func (c *call) whyNotAgain(
	o *Options, a *answer, now instant, wait time.Duration, l leeway) string {
	switch status := a.status; {
	case a.final != "":
		return a.final
	case c.attempt >= o.Attempts:
		return "it has been sent as often as Attempts allows"
	case mayBeDone(o, status) && !c.harmless:
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

// afterRefusal reports whether c, whose connection was refused, is sent again after a wait.
func (c *call) afterRefusal(o *Options, wait time.Duration, l leeway) bool {
	return wait > 0 && o.Attempts > 1 && c.rewinds && wait <= l.most
}

// mayBeDone reports whether a denial of a status leaves open if the request was carried out.
func mayBeDone(o *Options, status int) bool {
	return status == http.StatusServiceUnavailable || slices.Contains(o.Denials, status)
}

// rewinds reports whether the body can be sent again.
func rewinds(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// harmless reports whether r may be carried out twice: a safe method, or a key that makes it
// idempotent. PUT and DELETE are not repeated, though RFC 9110 calls them idempotent: another client
// may have written meanwhile. net/http decides in the same way when a connection fails.
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
