package client

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
)

// pacer decides when calls start, and learns from their answers. [Transport] sends HTTP requests
// with it, and the clients of packages grpcmw and connectmw send remote procedure calls.
//
// An attempt of a call has three steps: wait returns when it may start, observe takes its answer,
// and end ends it. An attempt without an answer skips observe. cancel takes back an attempt that
// was not sent.
//
// No function of the program runs under the lock, a method of a context included: one that panics
// would keep the pacer locked.
type pacer struct {
	o       Options
	limiter *core.Limiter[string] // keeps Options.Limit; nil: no cap
	made    time.Time
	seed    maphash.Seed

	mu    sync.Mutex
	table table // guarded by mu
}

func newPacer(o Options) (*pacer, error) {
	o, limiter, err := o.compile()
	if err != nil {
		return nil, err
	}
	return &pacer{
		o: o, limiter: limiter, made: time.Now(), seed: maphash.MakeSeed(), table: newTable(),
	}, nil
}

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
	stage    stage
	status   int // of the last answer
	finish   func(status int)
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
			if e, ok := err.(*WaitError); ok {
				why := "the wait is " + tooLong(e.Bound)
				p.tell(c, Event{Kind: GaveUp, Wait: e.Wait, Source: e.Source, Why: why})
			}
			return err
		}
	}
	if c.waited > before {
		source := cmp.Or(c.source, sourceQueue)
		p.tell(c, Event{Kind: Held, Wait: c.waited - before, Source: source})
	}
	return nil
}

// observe learns from the answer to c, and reports whether c is to be sent again. If not, the
// caller calls end.
func (p *pacer) observe(ctx context.Context, c *call, a *answer) (again bool) {
	leeway := p.leewayOf(ctx, c)
	p.mu.Lock()
	now := p.now()
	about, wait, source := p.learn(c, a, now)
	var events []Event
	if a.limited {
		about.pause.begin(now, source, c.bucket.name)
		kind, why := Repeated, p.whyNotAgain(c, a.status, now, wait, leeway)
		if again = why == ""; !again {
			kind = GaveUp
		}
		events = []Event{
			{Kind: Limited, Status: a.status, Wait: wait, Source: source},
			{Kind: kind, Status: a.status, Wait: wait, Source: source, Why: why},
		}
	} else if p.o.Observe != nil {
		events = p.pauses(c, about, now)
	}
	c.status, c.stage = a.status, answered
	if again || p.o.MaxInFlight == 0 && c.finish == nil { // the end changes nothing
		c.bucket.flight.busy--
		c.stage = idle
	}
	c.bucket.queue.wakeFirst()
	p.mu.Unlock()
	if again {
		c.endLimit()
	}
	for _, e := range events {
		p.tell(c, e)
	}
	if again {
		c.again = true
		c.attempt++
	}
	return again
}

// cancel takes back the start of c, which was not sent.
func (p *pacer) cancel(c *call) {
	p.mu.Lock()
	c.bucket.cancel(c.ticket, &c.id)
	c.stage = idle
	c.bucket.queue.wakeFirst()
	p.mu.Unlock()
	c.endLimit()
}

// end ends an attempt, with an answer or without.
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
	c.endLimit()
}

// endLimit ends the units that c holds of Options.Limit.
func (c *call) endLimit() {
	if finish := c.finish; finish != nil {
		c.finish = nil
		finish(c.status)
	}
}

func (p *pacer) tell(c *call, e Event) {
	if p.o.Observe == nil {
		return
	}
	e.Request, e.Attempt = c.asked(), c.attempt
	if c.bucket != nil && e.Bucket == "" {
		e.Bucket = c.bucket.name
	}
	p.o.Observe(e)
}

func (p *pacer) now() instant { return time.Since(p.made) }
