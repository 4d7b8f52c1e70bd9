package client

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// queue holds the waiting calls of one bucket, first come, first served. Only the first watches the
// bucket. Every answer wakes it, and so does a call that leaves the queue.
type queue struct{ list.List[*waiter] }

// waiter is a call that waits.
type waiter struct {
	node     list.Node[*waiter]
	wake     chan struct{} // has room for one
	timer    *time.Timer
	bucket   *bucket
	since    instant // when it began to wait, minus its earlier waits
	giveUp   instant // end of MaxWait
	deadline instant // the same, or the end of the context if that is earlier
	bound    string  // which of them deadline is, as in WaitError
	path     string
	lined    bool // is in the line of its account: see line
	moves    bool // has to look up its bucket again
	err      error
}

// wakeFirst makes the first call look at the bucket again.
func (q *queue) wakeFirst() {
	if q.First != nil {
		q.First.Of.lookAgain()
	}
}

// move makes the calls for a path look up their bucket again; all calls if path is "".
func (q *queue) move(path string) {
	for n := q.First; n != nil; n = n.Next {
		if w := n.Of; path == "" || w.path == path {
			w.moves = true
			w.lookAgain()
		}
	}
}

// prefer moves the first call whose path is not a suspect to the front: see paths. It reports
// whether there is one.
func (q *queue) prefer(paths *paths) bool {
	for n := q.First; n != nil; n = n.Next {
		if !paths.suspect(n.Of.path) {
			q.Remove(n)
			q.AddFirst(n)
			q.wakeFirst()
			return true
		}
	}
	return false
}

func (w *waiter) lookAgain() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// verdict is the result of a look.
type verdict uint8

const (
	held     verdict = iota
	admitted         // and started
	hopeless         // the wait is too long, or the context has ended
)

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
	b, now := p.resolve(c), p.now()
	if b.queue.Size > 0 || b.account != nil && len(b.account.common.line) > 0 && !c.id.exempt {
		return false
	}
	if at, _ := p.ready(b, c, now); at > now {
		return false
	}
	c.heldBack = false
	p.start(b, c, now)
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
	w.join(p.resolve(c), c)
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
	if w.moves {
		w.part()
		w.join(p.resolve(c), c)
	}
	b, now := w.bucket, p.now()
	at, source := p.ready(b, c, now)
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
		p.start(b, c, now)
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

// next decides about a call whose bucket is ready at an instant. If guessed, it may be ready
// earlier, so no call is hopeless for that instant. next is pure. A held call looks again at the
// instant that next returns, or when it is woken. A hopeless one would have to wait until then.
//
//	now 10, MaxWait ends at 40, the deadline of the context is 25
//	first, ready at 10:     admitted
//	first, ready at 20:     held until 20
//	not first, ready at 20: held until 40; the first wakes it
//	ready at 30:            hopeless, the context ends before
func (w *waiter) next(now, at instant, first, guessed bool) (verdict, instant) {
	switch {
	case first && at <= now:
		return admitted, now
	case now >= w.giveUp, at > w.deadline && at != unknown && !guessed:
		return hopeless, at
	case first:
		return held, min(at, w.giveUp)
	}
	return held, w.giveUp
}

// sleep waits for a time, until w is woken, or for the end of ctx.
func (w *waiter) sleep(ctx context.Context, d time.Duration) {
	w.timer.Reset(d)
	select {
	case <-w.wake:
	case <-w.timer.C:
	case <-ctx.Done():
	}
}

// join puts w into the queue of b. A denied call goes before those that have not been sent.
func (w *waiter) join(b *bucket, c *call) {
	w.bucket, w.moves = b, false
	if c.again {
		b.queue.AddFirst(&w.node)
	} else {
		b.queue.Add(&w.node)
	}
}

// part removes w from its queue and its line, unless it has left them. Their first calls look
// again.
func (w *waiter) part() {
	if w.bucket == nil {
		return
	}
	if w.lined {
		w.bucket.account.common.line.leave(w)
	}
	w.bucket.queue.Remove(&w.node)
	w.bucket.queue.wakeFirst()
	w.bucket = nil
}

// leeway is how long a call may still wait, and the bound of that, as in WaitError.
type leeway struct {
	most  time.Duration // negative if the context has ended
	bound string
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

// delay waits for d. If d is longer than the leeway of c, it returns a *WaitError at once. If ctx
// ends, it returns the cause.
func (p *pacer) delay(ctx context.Context, c *call, d time.Duration, source string) error {
	if d <= 0 {
		return nil
	}
	if l := p.leewayOf(ctx, c); d > l.most && l.most >= 0 {
		return &WaitError{Bucket: c.bucket.name, Wait: d, Source: source, Bound: l.bound}
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
