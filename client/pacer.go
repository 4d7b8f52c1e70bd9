package client

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
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
	namer   namer
	reader  reader
	made    time.Time

	mu    sync.Mutex
	table table // guarded by mu
}

func newPacer(o Options) (*pacer, error) {
	o, limiter, err := o.compile()
	if err != nil {
		return nil, err
	}
	p := &pacer{
		o: o, limiter: limiter, made: time.Now(),
		namer:  namer{o.Bucket, o.Dialect, maphash.MakeSeed()},
		reader: reader{o.Dialect, o.Denials},
	}
	p.table = newTable(&p.o, &p.namer)
	return p, nil
}

func (p *pacer) now() instant { return time.Since(p.made) }

// costOf returns the cost of r by Options.Tokens.
func (p *pacer) costOf(r *http.Request) spend {
	input, output := p.o.Tokens(r)
	input, output = min(max(input, 0), quota.MaxCount), min(max(output, 0), quota.MaxCount)
	return spend{allTokens: input + output, inputTokens: input, outputTokens: output}
}

// wait waits until c may be sent. It returns a *WaitError, or the cause of the end of ctx.
func (p *pacer) wait(ctx context.Context, c *call) error {
	before := c.waited
	for taken := false; !taken; {
		wait := c.redirect.wait
		c.redirect.wait = 0
		err := p.delay(ctx, c, wait, c.redirect.source)
		if err == nil {
			err = p.admit(ctx, c)
		}
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

// admit waits until c may be sent, and starts it. It returns a *WaitError, or the cause of the end
// of ctx.
func (p *pacer) admit(ctx context.Context, c *call) error {
	if p.startsAtOnce(c) {
		return nil
	}
	w := p.enqueue(ctx, c)
	defer p.leave(c, w)
	for {
		verdict, until := p.look(context.Cause(ctx), c, w)
		if verdict != held {
			return w.err
		}
		w.sleep(ctx, until-p.now())
	}
}

// startsAtOnce starts c if it need not wait.
func (p *pacer) startsAtOnce(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	b := p.table.resolve(c, now)
	if b.queue.Size > 0 || b.account != nil && len(b.account.common.line) > 0 && !c.id.exempt {
		return false
	}
	n := b.next(&p.o, &c.id, &c.cost, now)
	if n.at > now {
		return false
	}
	c.heldBack = false
	p.start(b, c, n, now)
	return true
}

// enqueue puts c into the queue of its bucket.
func (p *pacer) enqueue(ctx context.Context, c *call) *waiter {
	leeway := p.leewayOf(ctx, c)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	w := &waiter{
		wake: make(chan struct{}, 1), timer: time.NewTimer(0), path: c.path, since: now - c.waited,
		giveUp: now + p.left(c), deadline: now + leeway.most, bound: leeway.bound,
	}
	w.node.Of = w
	w.join(p.table.resolve(c, now), c.again)
	return w
}

// leave removes w from all queues.
func (p *pacer) leave(c *call, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.part()
	c.waited = p.now() - w.since
	w.timer.Stop()
}

// look decides about c, and starts it if it may be sent. ended is the cause of the end of its
// context, or nil. If c is held, the next look is due at until.
func (p *pacer) look(ended error, c *call, w *waiter) (verdict verdict, until instant) {
	if w.err = ended; ended != nil {
		return hopeless, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if w.moves {
		w.part()
		w.join(p.table.resolve(c, now), c.again)
	}
	b := w.bucket
	n := b.next(&p.o, &c.id, &c.cost, now)
	at, source := n.at, n.source
	first := b.queue.First == &w.node
	if b.account != nil { // calls that only the account holds back take turns in its line
		joins := first && !c.id.exempt && (at <= now || source == sourceAccount)
		if !b.account.common.lineUp(w, joins) {
			first, source = false, sourceAccount
		}
	}
	// Nothing is left: one call goes first, and the others wait for its answer. If the path of w is
	// a suspect, a call for another path goes first, since its answer says more about the bucket.
	if first && at <= now && b.told.empty() && b.paths.suspect(w.path) && b.queue.prefer(b.paths) {
		first = false
	}
	verdict, until = w.next(now, at, first, source == sourceFirstAnswer)
	switch {
	case verdict == admitted:
		w.part()
		c.heldBack = true
		p.start(b, c, n, now)
	case verdict == hopeless:
		e := &WaitError{Bucket: b.name, Source: cmp.Or(source, sourceQueue), Bound: w.bound}
		if until != unknown {
			e.Wait = max(until-now, 0)
		}
		w.err = e
	case source != "":
		c.source = source
	}
	return verdict, until
}

// start notes that c is sent, which b has let start, and that it asks Options.Limit first.
func (p *pacer) start(b *bucket, c *call, n opinion, now instant) {
	if !c.again { // neither repeated nor turned back by the cap
		b.budget.send(now)
	}
	c.ticket, c.stage = b.start(n, &c.id, &c.cost, now, c.heldBack), started
	if p.limiter != nil {
		b.cap.asking++
		c.stage = asking
	}
}

// take takes a unit of the cap for c, which is asking. It returns false if no unit is left: then c
// has to be admitted again.
func (p *pacer) take(ctx context.Context, c *call) (bool, error) {
	var outcome core.Outcome
	ends := p.limiter.DecideInto(ctx, c.bucket.name, &outcome)
	ok := outcome.Allowed()

	p.mu.Lock()
	c.stage = started
	c.bucket.cap.observe(&outcome, p.now())
	if !ok {
		c.bucket.cancel(c.ticket, &c.id)
		c.stage = idle
	}
	c.bucket.queue.wakeFirst()
	p.mu.Unlock()

	if ok && ends { // before Observe is called, which may panic
		c.finish = func(status int) { outcome.End(core.Result{Status: status}) }
	}
	if err := outcome.Err(); err != nil && ctx.Err() == nil {
		p.tell(c, Event{Kind: Alone, Why: err.Error()})
	}
	if !ok {
		return false, context.Cause(ctx)
	}
	if err := p.delay(ctx, c, outcome.Delay(), sourceLimit); err != nil {
		p.cancel(c)
		return false, err
	}
	return true, nil
}

// delay waits for d. If d is longer than the leeway of c, it returns a *WaitError at once. If ctx
// ends, it returns the cause.
func (p *pacer) delay(ctx context.Context, c *call, d time.Duration, source string) error {
	if d <= 0 {
		return nil
	}
	if l := p.leewayOf(ctx, c); d > l.most && l.most >= 0 {
		e := &WaitError{Wait: d, Source: source, Bound: l.bound}
		if c.bucket != nil {
			e.Bucket = c.bucket.name
		}
		return e
	}
	began := p.now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	c.source = source
	c.waited += p.now() - began
	return context.Cause(ctx)
}

// leewayOf returns the leeway of c.
func (p *pacer) leewayOf(ctx context.Context, c *call) leeway {
	if ctx.Err() != nil {
		return leeway{-1, boundContext}
	}
	left := p.left(c)
	if deadline, ok := ctx.Deadline(); ok {
		if most := time.Until(deadline); most < left {
			return leeway{most, boundContext}
		}
	}
	return leeway{left, boundMaxWait}
}

// left returns the rest of MaxWait. It is 0 if c has waited longer: a call that looks late is
// admitted if it is first and its bucket is ready.
func (p *pacer) left(c *call) time.Duration { return max(p.o.MaxWait-c.waited, 0) }

// observe learns from the answer to c, and reports whether c is to be sent again. If not, the
// caller calls end.
func (p *pacer) observe(ctx context.Context, c *call, a *answer) (again bool) {
	var leeway leeway
	if a.limited {
		leeway = p.leewayOf(ctx, c)
	}
	p.mu.Lock()
	now := p.now()
	about, wait, source := p.learn(c, a, now)
	var events []Event
	if a.limited {
		if wait > 0 {
			about.pause.begin(now, source, c.bucket.name)
		}
		kind, why := Repeated, c.whyNotAgain(&p.o, a, now, wait, leeway)
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

// learn learns from the answer to c, and returns the bucket that the answer is about. If it denies,
// learn also returns the wait and what asks for it.
func (p *pacer) learn(c *call, a *answer, now instant) (
	about *bucket, wait time.Duration, source string) {
	c.bucket.answer(c.ticket)
	b, tk := p.table.ofPath(c, a, now)
	strays := 0
	tk.outdated = b.flight.outdated(tk.seq)
	if !tk.outdated {
		b.restart = restart{}
	}
	if b.told.doubt.judge(tk, now, a) {
		b.told.known = false
	}
	account := b.account
	if account != nil {
		if a.invalid {
			account.common.invalid.start(now)
		}
		if !a.limited && tk.at > account.flight.deniedAt {
			account.backoff.strikes = 0
		}
		b, tk, strays = p.table.ofName(c, a, now)
		tk.outdated = b.flight.outdated(tk.seq)
	}
	if !a.limited {
		b.opening.took = now - tk.at
	}
	about = b
	if a.limited && a.global && account != nil {
		b.allow(tk, now)
		if about = account; tk.at > account.flight.deniedAt {
			account.common.sendings.deny()
		}
	}
	c.together = about.flight.deniedAt > 0 && tk.at <= about.flight.deniedAt
	wait, source = about.observe(&p.o, now, tk, a, strays)
	return about, wait, source
}

// pauses returns the events of pauses that an allowed answer to c has begun or ended. A pause that
// begins with a denial has the event Limited.
func (p *pacer) pauses(c *call, about *bucket, now instant) (events []Event) {
	b, at := about, c.ticket.at
	if b.account != nil {
		events = b.account.pause.end(events, at)
	}
	if events = b.pause.end(events, at); b.pause.on {
		return events
	}
	t := &b.told
	wait, nothingLeft := t.claimed(t.renew, &b.flight)
	if nothingLeft && t.doubt.believed(t.renew, now, wait, nothingLeft, &p.o) > now {
		b.pause.begin(now, t.source, c.bucket.name)
		events = append(events, Event{
			Kind: Paused, Bucket: c.bucket.name, Wait: t.renew - now, Source: t.source,
		})
	}
	return events
}

// refused ends an attempt whose connection was refused, if err says so. It reports whether c is to
// be sent again.
func (p *pacer) refused(ctx context.Context, c *call, err error) (again bool) {
	if p.o.Dialect != Standard || !isRefused(err) {
		return false
	}
	leeway := p.leewayOf(ctx, c)
	p.mu.Lock()
	b, now := c.bucket, p.now()
	b.answer(c.ticket)
	b.flight.busy--
	c.stage = idle
	wait := b.refuse(c.ticket, now)
	again = c.afterRefusal(&p.o, wait, leeway)
	b.queue.wakeFirst()
	p.mu.Unlock()
	c.status = 0
	c.endLimit()
	if again {
		p.tell(c, Event{Kind: Repeated, Wait: wait, Source: sourceRefused})
		c.again = true
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

// end ends an attempt that is not idle, with an answer or without.
func (p *pacer) end(c *call) {
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

// tell tells Options.Observe an event of c.
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
