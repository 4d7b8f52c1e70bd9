package client

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/list"
)

// queue holds the requests of one bucket that wait, first come, first served. Only the first
// has to watch the bucket: whoever leaves the queue, and every answer, wakes the first.
type queue struct{ list.List[*waiter] }

type waiter struct {
	node  list.Node[*waiter]
	wake  chan struct{} // of capacity 1
	since instant       // when it began to wait, less what it had waited before
	lined bool          // is in the line of its account
}

func newWaiter(since instant) *waiter {
	w := &waiter{wake: make(chan struct{}, 1), since: since}
	w.node.Of = w
	return w
}

func (q *queue) push(w *waiter, first bool) {
	if first {
		q.AddFirst(&w.node)
	} else {
		q.Add(&w.node)
	}
}

func (q *queue) remove(w *waiter) { q.Remove(&w.node) }

func (q *queue) isFirst(w *waiter) bool { return q.First == &w.node }

// wakeFirst makes the first in the queue look at the bucket again.
func (q *queue) wakeFirst() {
	if q.First != nil {
		q.First.Of.lookAgain()
	}
}

// wakeAll makes all look, since the bucket has moved.
func (q *queue) wakeAll() {
	for n := q.First; n != nil; n = n.Next {
		n.Of.lookAgain()
	}
}

func (w *waiter) lookAgain() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// admit waits until c may be sent, and starts it. It returns a *WaitError, or the cause of
// the context's end. What waits is another function, since its defers would cost those that
// need not wait a tenth of their time.
func (t *Transport) admit(ctx context.Context, c *call) error {
	t.mu.Lock()
	b := t.resolve(c)
	now := t.now()
	if b.queue.Size == 0 && (b.account == nil || len(b.account.line) == 0 || c.id.free) {
		if at, _ := t.ready(b, c, now); at <= now {
			t.start(b, c, now)
			t.mu.Unlock()
			return nil
		}
	}
	t.mu.Unlock()
	return t.await(ctx, c)
}

// await does what admit says, for a request that may have to wait.
func (t *Transport) await(ctx context.Context, c *call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.resolve(c)
	began := t.now()
	giveUp := began + max(t.maxWait-c.waited, 0)
	most, bound := mostWait(ctx, giveUp-began)
	deadline := began + most
	w := newWaiter(began - c.waited)
	b.queue.push(w, c.again)
	defer func() {
		if w.lined {
			b.account.line.leave(w)
		}
		c.waited += t.now() - began
	}()
	var timer *time.Timer
	for {
		now := t.now()
		at, source := t.ready(b, c, now)
		first := b.queue.isFirst(w)
		if b.account != nil && !b.account.inFront(w, first && !c.id.free && (at <= now || source == sourceAccount)) {
			first, source = false, sourceAccount
		}
		if first && at <= now {
			b.queue.remove(w)
			t.start(b, c, now)
			b.queue.wakeFirst()
			return nil
		}
		if at > deadline && at != unknown || now >= giveUp {
			b.queue.remove(w)
			b.queue.wakeFirst()
			if source == "" {
				source = sourceQueue
			}
			if at == unknown {
				at = now
			}
			return &WaitError{Bucket: b.name, Wait: max(at-now, 0), Source: source, Bound: bound}
		}
		next := giveUp
		if first {
			next = min(next, at)
		}
		if source != "" {
			c.source = source
		}
		if timer == nil {
			timer = time.NewTimer(next - now)
			defer timer.Stop()
		} else {
			timer.Reset(next - now)
		}
		t.mu.Unlock()
		select {
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		t.mu.Lock()
		if ctx.Err() != nil {
			b.queue.remove(w)
			b.queue.wakeFirst()
			return context.Cause(ctx)
		}
		if b.moved != nil {
			b.queue.remove(w)
			if w.lined {
				b.account.line.leave(w)
			}
			b = t.resolve(c)
			b.queue.push(w, c.again)
		}
	}
}
