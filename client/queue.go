package client

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// queue holds the requests of one bucket that wait, first come, first served. Only the first
// has to watch the bucket: a call that leaves the queue, and every answer, wakes the first.
type queue struct{ list.List[*waiter] }

// waiter is a call that waits.
type waiter struct {
	node             list.Node[*waiter]
	wake             chan struct{} // of capacity 1
	timer            *time.Timer
	bucket           *bucket
	since            instant // when it began to wait, less what it had waited before
	giveUp, deadline instant // when MaxWait ends, and when that or the context does
	bound            string
	path             string
	lined            bool // is in the line of its account
	moves            bool // its bucket is another now
	err              error
}

// wakeFirst makes the first in the queue look at the bucket again.
func (q *queue) wakeFirst() {
	if q.First != nil {
		q.First.Of.lookAgain()
	}
}

// move makes the requests of a path look for their bucket again; "": all requests.
func (q *queue) move(path string) {
	for n := q.First; n != nil; n = n.Next {
		if w := n.Of; path == "" || w.path == path {
			w.moves = true
			w.lookAgain()
		}
	}
}

// prefer has a request go first whose path is no suspect, if one waits.
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

// verdict is what becomes of a call that asks to be sent.
type verdict uint8

const (
	held verdict = iota
	admitted
	refused
)

// admit waits until c may be sent, and starts it. It returns a *WaitError, or the cause of
// the context's end. No method of ctx runs under the lock: one that panics would keep it locked.
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
	if b.queue.Size > 0 || b.account != nil && len(b.account.shared.line) > 0 && !c.id.free {
		return false
	}
	if at, _ := p.ready(b, c, now); at > now {
		return false
	}
	c.waits = false
	p.start(b, c, now)
	return true
}

// enqueue puts c into the queue of its bucket.
func (p *pacer) enqueue(ctx context.Context, c *call) *waiter {
	left := max(p.maxWait-c.waited, 0)
	most, bound := mostWait(ctx, left)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	w := &waiter{
		wake: make(chan struct{}, 1), timer: time.NewTimer(0), path: c.path, since: now - c.waited,
		giveUp: now + left, deadline: now + most, bound: bound,
	}
	w.node.Of = w
	w.join(p.resolve(c), c)
	return w
}

// leave takes w out of all queues.
func (p *pacer) leave(c *call, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.part()
	c.waited = p.now() - w.since
	w.timer.Stop()
}

// look decides on c at this moment, and starts it if it may be sent. ended is the cause of the end
// of its context, if that is over. If c is held, the next look is due at an instant.
func (p *pacer) look(ended error, c *call, w *waiter) (verdict, instant) {
	if w.err = ended; ended != nil {
		return refused, 0
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
	if b.account != nil && !b.account.shared.inFront(w, first && !c.id.free && (at <= now || source == sourceAccount)) {
		first, source = false, sourceAccount
	}
	if first && at <= now && b.told.empty() && b.paths.suspect(w.path) && b.queue.prefer(b.paths) {
		first = false // a request for another path says more
	}
	verdict, until := w.next(now, at, first, source == sourceFirstAnswer)
	switch {
	case verdict == admitted:
		w.part()
		c.waits = true
		p.start(b, c, now)
	case verdict == refused:
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

// next decides on a call whose bucket is ready at an instant, or earlier. It is pure. What is held looks
// again at the instant that is returned, or when it is woken; what is refused would have to wait until then.
func (w *waiter) next(now, at instant, first, early bool) (verdict, instant) {
	switch {
	case first && at <= now:
		return admitted, now
	case now >= w.giveUp, at > w.deadline && at != unknown && !early:
		return refused, at
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

// join puts w into the queue of b. A call that was denied goes before those that have not been
// sent.
func (w *waiter) join(b *bucket, c *call) {
	w.bucket, w.moves = b, false
	if c.again {
		b.queue.AddFirst(&w.node)
	} else {
		b.queue.Add(&w.node)
	}
}

// part takes w out of its queue and line, whose first ones look again.
func (w *waiter) part() {
	if w.bucket == nil {
		return
	}
	if w.lined {
		w.bucket.account.shared.line.leave(w)
	}
	w.bucket.queue.Remove(&w.node)
	w.bucket.queue.wakeFirst()
	w.bucket = nil
}

// mostWait returns how long a call may wait that has some of MaxWait left, and what bounds that.
func mostWait(ctx context.Context, left time.Duration) (most time.Duration, bound string) {
	if deadline, ok := ctx.Deadline(); ok {
		if most = time.Until(deadline); most < left {
			return most, boundContext
		}
	}
	return left, boundMaxWait
}

// pause waits for d, if that is allowed.
func (p *pacer) pause(ctx context.Context, c *call, d time.Duration, source string) error {
	if d <= 0 {
		return nil
	}
	most, bound := mostWait(ctx, p.maxWait-c.waited)
	if d > most {
		return &WaitError{Bucket: c.bucket.name, Wait: d, Source: source, Bound: bound}
	}
	began := p.now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	c.source = source
	if c.waited += p.now() - began; ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
