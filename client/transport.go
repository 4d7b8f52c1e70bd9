package client

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Transport is an [http.RoundTripper] that keeps to the limits of servers. [New] makes one;
// the zero value is of no use. It is safe for concurrent use. It has nothing to
// close, and no goroutine but to read a 403 of GitHub. It keeps what it knows of 1,024 buckets, and of those that are in use,
// and forgets first those that are free first.
type Transport struct {
	base        http.RoundTripper
	bucketName  func(*http.Request) string
	maxInFlight int
	maxWait     time.Duration
	attempts    int
	pace        Pace
	dialect     Dialect
	observe     func(Event)
	account     limits.Rate
	denials     []int
	limiter     *core.Limiter[string] // nil: no cap
	made        time.Time
	seed        maphash.Seed

	mu    sync.Mutex
	table table // guarded by mu
}

// New returns a Transport. It panics if an option is illegal; the message names every one
// that is.
func New(o Options) *Transport {
	if err := o.validate(); err != nil {
		panic(err)
	}
	t := &Transport{
		base: o.Base, bucketName: o.Bucket,
		maxInFlight: o.MaxInFlight, maxWait: o.MaxWait, attempts: o.Attempts,
		pace: o.Pace, dialect: o.Dialect, observe: o.Observe,
		account: o.Account, denials: slices.Clone(o.Denials),
		made: time.Now(), seed: maphash.MakeSeed(),
		table: newTable(),
	}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.maxWait == 0 {
		t.maxWait = defaultMaxWait
	}
	t.maxWait = min(t.maxWait, mostMaxWait)
	if t.attempts == 0 {
		t.attempts = defaultAttempts
	}
	if t.dialect == Discord && t.account == (limits.Rate{}) {
		t.account = limits.PerSecond(discordAccount)
	}
	if o.Limit != (limits.Limit{}) {
		t.limiter, _ = newLimiter(o.Limit, o.Backend) // which validate has tried
	}
	return t
}

// RoundTrip implements [http.RoundTripper]. A request whose body cannot be rewound is sent
// once. The answer to a denied request that is not repeated is returned as it came.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := call{request: r, attempt: 1}
	defer t.abandon(&c)
	t.identify(&c)
	for {
		if err := t.send(&c); err != nil {
			if !c.sent && r.Body != nil {
				r.Body.Close()
			}
			return nil, t.fail(&c, err)
		}
		response, err := t.base.RoundTrip(c.outgoing)
		c.response = response
		if !t.settle(&c, response, err) {
			c.response = nil
			return response, err
		}
		if response != nil { // a refused connection is no attempt
			discard(response.Body)
			c.attempt++
		}
		c.response = nil
		c.again, c.sent = true, true
	}
}

// CloseIdleConnections closes those of Options.Base, if it can. [http.Client] calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// call is one RoundTrip.
type call struct {
	request, outgoing *http.Request
	bucket            *bucket
	id                identity
	ticket            ticket
	attempt           int
	again             bool // goes before those that have not been sent
	sent              bool // its body has been used
	together          bool // was denied with others, and sent before any was
	waited            time.Duration
	source            string // of the last wait
	stage             stage
	response          *http.Response // in hand
	end               func(status int)
	about             *bucket // that the answer has changed
	events            []Event // for Observe, of that answer
}

// stage is what a call has counted and has to take back.
type stage uint8

const (
	idle     stage = iota // nothing
	asking                // has started, and asks Options.Limit
	started               // is under way
	answered              // its answer is noted, and its end is not
)

// send waits for the turn of the next attempt. On success c.outgoing may be sent.
func (t *Transport) send(c *call) error {
	ctx, before := c.request.Context(), c.waited
	for {
		if err := t.admit(ctx, c); err != nil {
			return err
		}
		if t.limiter == nil {
			break
		}
		if ok, err := t.take(ctx, c); err != nil {
			return err
		} else if ok {
			break
		}
		c.again = true
	}
	if c.waited > before {
		t.tell(c, Event{Kind: Held, Wait: c.waited - before, Source: cmp.Or(c.source, sourceQueue)})
	}
	c.outgoing = c.request
	if !c.sent {
		return nil
	}
	c.outgoing = c.request.Clone(ctx)
	if c.request.GetBody == nil {
		return nil
	}
	body, err := c.request.GetBody()
	if err != nil {
		t.cancel(c)
		return err
	}
	c.outgoing.Body = body
	return nil
}

// cancel takes back the start of c, which is not sent.
func (t *Transport) cancel(c *call) {
	t.mu.Lock()
	c.bucket.cancel(c.ticket)
	c.stage = idle
	c.bucket.queue.wakeFirst()
	t.mu.Unlock()
	c.finish(0)
}

// abandon ends a call that has no answer: an error is all that there is, or Options.Base or
// another function of the program has panicked.
func (t *Transport) abandon(c *call) {
	if c.response != nil && c.response.Body != nil {
		c.response.Body.Close()
	}
	if c.stage == idle {
		return
	}
	t.mu.Lock()
	if c.stage == asking {
		c.bucket.cap.asking--
	}
	if c.stage != answered {
		c.bucket.answer(c.ticket)
	}
	c.bucket.busy--
	c.stage = idle
	c.bucket.queue.wakeFirst()
	t.mu.Unlock()
	c.finish(0)
}

// settle notes an answer, or its absence, and reports whether c is to be sent again.
func (t *Transport) settle(c *call, response *http.Response, err error) (again bool) {
	if err != nil || response == nil {
		c.response = nil
		if t.dialect == Standard && isRefused(err) {
			return t.refused(c)
		}
		t.abandon(c)
		return false
	}
	told := t.read(c.request.Context(), response)
	t.mu.Lock()
	now := t.now()
	wait, source := t.note(c, now, &told)
	if t.observe != nil {
		t.noteEvents(c, now, &told, source)
	}
	why := ""
	if told.limited {
		why = t.refusal(c, response.StatusCode, now, wait)
	}
	again = told.limited && why == ""
	counted := t.maxInFlight > 0 || c.end != nil
	if c.stage = answered; again || !counted {
		c.bucket.busy--
		c.stage = idle
	}
	c.bucket.queue.wakeFirst()
	t.mu.Unlock()
	if again {
		c.finish(response.StatusCode)
	}
	if told.limited {
		e := Event{Kind: Limited, Status: response.StatusCode, Wait: wait, Source: source}
		t.tell(c, e)
		if e.Kind = Repeated; !again {
			e.Kind, e.Why = GaveUp, why
		}
		t.tell(c, e)
	}
	for _, e := range c.events {
		t.tell(c, e)
	}
	c.events = nil
	if counted && !again {
		response.Body = t.counted(c, response)
	}
	return again
}

func (c *call) finish(status int) {
	if c.end != nil {
		c.end(status)
		c.end = nil
	}
}

// fail tells of a request that ends without an answer, and returns its error.
func (t *Transport) fail(c *call, err error) error {
	if e, ok := err.(*WaitError); ok {
		t.tell(c, Event{Kind: GaveUp, Wait: e.Wait, Source: e.Source, Why: "the wait is " + longerThan(e.Bound)})
	}
	return err
}

func (t *Transport) tell(c *call, e Event) {
	if t.observe == nil {
		return
	}
	e.Request, e.Attempt = c.request, c.attempt
	if c.bucket != nil && e.Bucket == "" {
		e.Bucket = c.bucket.name
	}
	t.observe(e)
}

func (t *Transport) now() instant { return time.Since(t.made) }

// mostWait returns how long a request may wait that has some of MaxWait left, and what bounds that.
func mostWait(ctx context.Context, left time.Duration) (most time.Duration, bound string) {
	if deadline, ok := ctx.Deadline(); ok {
		if most = time.Until(deadline); most < left {
			return most, boundContext
		}
	}
	return left, boundMaxWait
}

// pause waits for d, if that is allowed.
func (t *Transport) pause(ctx context.Context, c *call, d time.Duration, source string) error {
	if d <= 0 {
		return nil
	}
	most, bound := mostWait(ctx, t.maxWait-c.waited)
	if d > most {
		return &WaitError{Bucket: c.bucket.name, Wait: d, Source: source, Bound: bound}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	c.source = source
	began := t.now()
	defer func() { c.waited += t.now() - began }()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
