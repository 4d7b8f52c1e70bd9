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

// pacer decides when calls start, and learns from their answers. [Transport] sends HTTP requests by
// it, and the clients of package grpcmw and connectmw send remote procedure calls.
//
// Each attempt of a call has three steps: wait returns when it may start, observe notes its answer,
// and end notes that it is over. An attempt without an answer ends without observe, and one that
// was not sent by cancel.
type pacer struct {
	bucketName  func(*http.Request) string
	maxInFlight int
	maxWait     time.Duration
	attempts    int
	pace        Pace
	dialect     Dialect
	observer    func(Event)
	account     limits.Rate
	denials     []int
	limiter     *core.Limiter[string] // nil: no cap
	made        time.Time
	seed        maphash.Seed

	mu    sync.Mutex
	table table // guarded by mu
}

func newPacer(o Options) (*pacer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &pacer{
		bucketName: o.Bucket, maxInFlight: o.MaxInFlight, maxWait: min(o.MaxWait, mostMaxWait), attempts: o.Attempts,
		pace: o.Pace, dialect: o.Dialect, observer: o.Observe, account: o.Account, denials: slices.Clone(o.Denials),
		made: time.Now(), seed: maphash.MakeSeed(), table: newTable(),
	}
	if p.maxWait == 0 {
		p.maxWait = defaultMaxWait
	}
	if p.attempts == 0 {
		p.attempts = defaultAttempts
	}
	if p.dialect == Discord && p.account == (limits.Rate{}) {
		p.account = limits.PerSecond(discordAccount)
	}
	if o.Limit != (limits.Limit{}) {
		p.limiter, _ = newLimiter(o.Limit, o.Backend) // which validate has tried
	}
	return p, nil
}

// call is one call, with all its attempts.
type call struct {
	id       identity
	request  *http.Request        // as functions of options see it
	describe func() *http.Request // makes request where that is needed; nil: request is set
	header   http.Header
	path     string
	rewinds  bool           // can be sent again
	harmless bool           // may be carried out twice; of an HTTP request, request says so
	response *http.Response // in hand
	bucket   *bucket
	ticket   ticket
	attempt  int  // 1 is the first
	again    bool // goes before those that have not been sent
	together bool // was denied with others, and sent before any was
	waited   time.Duration
	source   string // of the last wait
	waits    bool   // it has waited for this attempt
	stage    stage
	status   int // of the last answer
	finish   func(status int)
}

// stage is what a call has counted and has to take back.
type stage uint8

const (
	idle     stage = iota // nothing
	asking                // has started, and asks Options.Limit
	started               // is under way
	answered              // its answer is noted, and its end is not
)

// asked returns the request that functions of options see.
func (c *call) asked() *http.Request {
	if c.request == nil {
		c.request = c.describe()
	}
	return c.request
}

// wait waits until c may be sent. It returns a *WaitError, or the cause of the end of ctx.
func (p *pacer) wait(ctx context.Context, c *call) error {
	before := c.waited
	for taken := false; !taken; {
		err := p.admit(ctx, c)
		if taken = true; err == nil && p.limiter != nil {
			taken, err = p.take(ctx, c)
			c.again = c.again || !taken
		}
		if err != nil {
			if held, ok := err.(*WaitError); ok {
				why := "the wait is " + longerThan(held.Bound)
				p.tell(c, Event{Kind: GaveUp, Wait: held.Wait, Source: held.Source, Why: why})
			}
			return err
		}
	}
	if c.waited > before {
		p.tell(c, Event{Kind: Held, Wait: c.waited - before, Source: cmp.Or(c.source, sourceQueue)})
	}
	return nil
}

// observe notes the answer to c, and reports whether c is to be sent again. If it is not, end is
// due.
func (p *pacer) observe(ctx context.Context, c *call, a *answer) (again bool) {
	leeway := p.leeway(ctx, c)
	p.mu.Lock()
	e, others := p.note(c, a, p.now(), leeway)
	again = a.limited && e.Why == ""
	c.status, c.stage = a.status, answered
	if again || p.maxInFlight == 0 && c.finish == nil { // nothing waits for the end
		c.bucket.flight.busy--
		c.stage = idle
	}
	c.bucket.queue.wakeFirst()
	p.mu.Unlock()
	if again {
		c.over()
	}
	if a.limited {
		p.tell(c, Event{Kind: Limited, Status: e.Status, Wait: e.Wait, Source: e.Source})
		p.tell(c, e)
	}
	for _, e := range others {
		p.tell(c, e)
	}
	if again {
		c.again = true
		c.attempt++
	}
	return again
}

// note does what observe says, up to the events of a denial and of pauses.
func (p *pacer) note(c *call, a *answer, now instant, l leeway) (e Event, others []Event) {
	about := p.learn(c, a, now, &e)
	if p.observer != nil {
		others = p.pauses(c, about, a, now, e.Source)
	}
	if a.limited {
		e.Kind, e.Status = Repeated, a.status
		if e.Why = p.refusal(c, a.status, now, e.Wait, l); e.Why != "" {
			e.Kind = GaveUp
		}
	}
	return e, others
}

// cancel takes back the start of c, which is not sent.
func (p *pacer) cancel(c *call) {
	p.mu.Lock()
	c.bucket.cancel(c.ticket, &c.id)
	c.stage = idle
	c.bucket.queue.wakeFirst()
	p.mu.Unlock()
	c.over()
}

// end notes that c is over, with an answer or without.
func (p *pacer) end(c *call) {
	if c.stage == idle {
		return
	}
	p.mu.Lock()
	if c.stage == asking {
		c.bucket.cap.asking--
	}
	if c.stage != answered {
		c.bucket.answer(c.ticket)
		c.status = 0
	}
	c.bucket.flight.busy--
	c.stage = idle
	c.bucket.queue.wakeFirst()
	p.mu.Unlock()
	c.over()
}

// over ends what Options.Limit counts.
func (c *call) over() {
	if finish := c.finish; finish != nil {
		c.finish = nil
		finish(c.status)
	}
}

func (p *pacer) tell(c *call, e Event) {
	if p.observer == nil {
		return
	}
	e.Request, e.Attempt = c.asked(), c.attempt
	if c.bucket != nil && e.Bucket == "" {
		e.Bucket = c.bucket.name
	}
	p.observer(e)
}

func (p *pacer) now() instant { return time.Since(p.made) }
