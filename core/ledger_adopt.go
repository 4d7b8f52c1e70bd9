package core

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/call"
	"github.com/weir-go/weir/limits"
)

// Units that a fallback has allowed are held in this process only. The backend is told of
// them when it works again: by the next request that it decides, or, since such a
// request may never come, by a timer.

// adoptPause is how long after a request began without the backend, and then how often,
// the backend is asked whether it works again.
const adoptPause = time.Second

// onlyInFallback reports whether the backend does not know of units that q holds.
func (q *request) onlyInFallback() bool {
	for i := range q.taken {
		if t := &q.taken[i]; t.heldByFallback && !t.held {
			return true
		}
	}
	return false
}

// adopt tells the backend, which works again, of the units that the fallback alone holds.
func (l *ledger) adopt() {
	if l.onlyInFallback.Load() == 0 || l.primary.holder == nil {
		return
	}
	for i := range l.lists {
		list := &l.lists[i]
		list.mu.Lock()
		var requests []*request
		for q := list.oldest; q != nil; q = q.younger {
			requests = append(requests, q)
		}
		list.mu.Unlock()
		for _, q := range requests {
			l.adoptOne(q)
		}
	}
}

func (l *ledger) adoptOne(q *request) {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if q.state == ended || !q.onlyInFallback() {
		return
	}
	for i := range q.taken {
		if t := &q.taken[i]; t.heldByFallback && !t.held {
			t.ticket, t.held = l.primary.holder.Hold(t.rule.scope, t.key, t.rule.limit.Value(), t.cost), true
		}
	}
	l.onlyInFallback.Add(-1)
}

// adoptLater starts the timer, if it does not run. It stops when the fallback alone holds
// nothing.
func (l *ledger) adoptLater() {
	if l.primary.holder != nil && l.adopting.CompareAndSwap(false, true) {
		time.AfterFunc(adoptPause, l.adoptIfAnswered)
	}
}

// adoptIfAnswered calls adopt if the backend works again.
func (l *ledger) adoptIfAnswered() {
	defer func() { // even if the backend ends the goroutine
		l.adopting.Store(false)
		if l.onlyInFallback.Load() > 0 {
			l.adoptLater()
		}
	}()
	if l.backendAnswers() {
		l.adopt()
	}
}

// backendAnswers asks the backend about a key that the fallback alone holds units of. A
// breaker counts that as a probe.
func (l *ledger) backendAnswers() bool {
	ch, ok := l.heldAlone()
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return call.Peek(ctx, l.primary.backend, []limits.Charge{ch}, make([]limits.Decision, 1)) == nil
}

// heldAlone returns a charge of nothing to a key that the fallback alone holds units of.
func (l *ledger) heldAlone() (ch limits.Charge, ok bool) {
	for i := range l.lists {
		list := &l.lists[i]
		list.mu.Lock()
		for q := list.oldest; q != nil && !ok; q = q.younger {
			ch, ok = q.heldAloneLocked()
		}
		list.mu.Unlock()
		if ok {
			break
		}
	}
	return ch, ok
}

func (q *request) heldAloneLocked() (ch limits.Charge, ok bool) {
	for i := range q.taken {
		if t := &q.taken[i]; t.heldByFallback && !t.held {
			return limits.Charge{Scope: t.rule.scope, Key: t.key, Limit: t.limit.Value()}, true
		}
	}
	return ch, false
}
