package client

import (
	"context"
	"time"
)

// queue holds the requests of one bucket that wait, first come, first served. Only the first
// has to watch the bucket: whoever leaves the queue, and every answer, wakes the first.
type queue struct {
	head, tail *waiter
	len        int
}

type waiter struct {
	prev, next *waiter
	wake       chan struct{} // of capacity 1
}

func (q *queue) push(w *waiter, first bool) {
	switch {
	case q.len == 0:
		q.head, q.tail = w, w
	case first:
		w.next, q.head.prev, q.head = q.head, w, w
	default:
		w.prev, q.tail.next, q.tail = q.tail, w, w
	}
	q.len++
}

func (q *queue) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.tail = w.prev
	}
	w.prev, w.next = nil, nil
	q.len--
}

// wakeFirst makes the first in the queue look at the bucket again.
func (q *queue) wakeFirst() {
	if q.head != nil {
		select {
		case q.head.wake <- struct{}{}:
		default:
		}
	}
}

// wakeAll makes all look, since the bucket has moved.
func (q *queue) wakeAll() {
	for w := q.head; w != nil; w = w.next {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// admit waits until c may be sent, and starts it. It returns a *WaitError, or the cause of
// the context's end. What waits is another function, since its defers would cost those that
// need not wait a tenth of their time.
func (t *Transport) admit(ctx context.Context, c *call) error {
	t.mu.Lock()
	b := t.resolve(c)
	now := t.now()
	if b.queue.len == 0 {
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
	deadline := giveUp
	if d, ok := ctx.Deadline(); ok {
		deadline = min(deadline, began+time.Until(d))
	}
	w := &waiter{wake: make(chan struct{}, 1)}
	b.queue.push(w, c.again)
	defer func() { c.waited += t.now() - began }()
	var timer *time.Timer
	for {
		now := t.now()
		at, source := t.ready(b, c, now)
		first := b.queue.head == w
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
				source = sourceMaxWait
			}
			if at == unknown {
				at = now
			}
			return &WaitError{Bucket: b.name, Wait: max(at-now, 0), Source: source}
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
			b = t.resolve(c)
			b.queue.push(w, c.again)
		}
	}
}
