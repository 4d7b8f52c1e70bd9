package redisbackend

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
)

const (
	// giveBackBudget is how long a call that gives units back may take. It does not end with
	// the requests that took them.
	giveBackBudget = time.Second

	// maxGiveBacks is how many requests wait for the return of their units, and how many late
	// replies are awaited. Units beyond that stay taken.
	maxGiveBacks = 1 << 14
)

// giveBacks returns units of requests that were denied or failed after they had taken them. To
// each server it makes one call at a time, with all that wait. A call is made at most once: if
// it fails, the units stay taken, which can only deny too early.
type giveBacks struct {
	settle func(context.Context, []*settling)

	mu      sync.Mutex
	waiting map[*lane][]*giveBack // by server; a goroutine returns those of each
	count   int                   // of waiting
	running int                   // goroutines
	ended   sync.Cond             // one of them has
}

// giveBack is what one request gives back on one server.
type giveBack struct {
	ctx  context.Context
	all  []*settling
	done chan struct{} // closed once all is returned, or will not be
}

func newGiveBacks(settle func(context.Context, []*settling)) *giveBacks {
	q := &giveBacks{settle: settle, waiting: make(map[*lane][]*giveBack)}
	q.ended.L = &q.mu
	return q
}

// idle returns a channel that is closed once there is nothing to give back.
func (q *giveBacks) idle() <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		q.mu.Lock()
		defer q.mu.Unlock()
		for q.running > 0 {
			q.ended.Wait()
		}
	}()
	return idle
}

// startLocked runs f on a goroutine that idle waits for.
func (q *giveBacks) startLocked(f func()) {
	q.running++
	go func() {
		defer func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.running--
			q.ended.Broadcast()
		}()
		f()
	}()
}

// add queues what is to be given back on the server of l.
func (q *giveBacks) add(ctx context.Context, l *lane, all []*settling) *giveBack {
	g := &giveBack{context.WithoutCancel(ctx), all, make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(all) == 0 || q.count >= maxGiveBacks {
		close(g.done)
		return g
	}
	waiting, sends := q.waiting[l]
	q.waiting[l] = append(waiting, g)
	q.count++
	if !sends {
		q.startLocked(func() { q.send(l) })
	}
	return g
}

// send gives back what waits for a server. Another goroutine goes on with what has come
// meanwhile: a hook of the client may end this one.
func (q *giveBacks) send(l *lane) {
	batch, all := q.next(l)
	if batch == nil {
		return
	}
	ctx, cancel := context.WithTimeout(batch[0].ctx, giveBackBudget)
	defer func() {
		_ = recover() // a hook may also panic
		cancel()
		for _, g := range batch {
			close(g.done)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.startLocked(func() { q.send(l) })
	}()
	q.settle(ctx, all)
}

// next returns as many as one call may settle, nil if nothing waits. What was taken of a key at
// one instant, perhaps by a crowd, is returned as one taking; but not to an anchored window, which
// keeps the last taking that opened it for others.
func (q *giveBacks) next(l *lane) (batch []*giveBack, all []*settling) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.waiting[l]
	if len(waiting) == 0 {
		delete(q.waiting, l)
		return nil, nil
	}
	type taking struct {
		name  string
		limit limits.Limit
		at    int64
	}
	of := make(map[taking]*settling)
	n, weight := 0, 0
	for n < len(waiting) && weight < maxWeight {
		for i, s := range waiting[n].all {
			t := taking{s.name, s.ending.Limit, s.ending.Ticket}
			if first := of[t]; first != nil && t.limit.Algorithm() != limits.AlgorithmAnchoredWindow {
				first.ending.Taken += s.ending.Taken
				waiting[n].all[i] = first
				continue
			}
			of[t] = s
			all = append(all, s)
			weight += s.weight()
		}
		n++
	}
	q.waiting[l] = waiting[n:]
	q.count -= n
	return waiting[:n], all
}

// isReturned reports whether all is returned.
func (g *giveBack) isReturned() bool {
	for _, s := range g.all {
		if s.out.Err != nil {
			return false
		}
	}
	return true
}

// giveBack returns what g took, and waits for that until ctx ends, for giveBackBudget at most. It
// reports whether it is returned.
func (b *Backend) giveBack(ctx context.Context, g *group) bool {
	ctx, cancel := context.WithTimeout(ctx, giveBackBudget)
	defer cancel()
	units := b.giveBacks.add(ctx, g.lane, returnsOf(g.accounts, g.results))
	var held []limits.Ending
	for i := range g.accounts {
		if a := &g.accounts[i]; a.isConcurrent() && a.held() > 0 {
			held = append(held, limits.Ending{Scope: a.Scope, Key: a.Key, Limit: a.Limit, Taken: a.held(), Ticket: a.ticket})
		}
	}
	if len(held) > 0 {
		_ = b.Settle(ctx, held, make([]limits.Settlement, len(held))) // what it cannot release now is released later
	}
	select {
	case <-units.done:
		return units.isReturned()
	case <-ctx.Done():
		return false
	}
}

// giveBackLater returns what groups took, and does not wait for that.
func (b *Backend) giveBackLater(ctx context.Context, groups []*group) {
	for _, g := range groups {
		b.giveBacks.add(ctx, g.lane, returnsOf(g.accounts, g.results))
		b.holds.releaseLater(g.ask.spans, false)
	}
}

// giveBackLate returns what a takes, once the reply comes that nobody waits for. Units of
// concurrency limits are released without it.
func (b *Backend) giveBackLate(ctx context.Context, l *lane, a *ask) {
	q := b.giveBacks
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running >= maxGiveBacks {
		return
	}
	q.startLocked(func() {
		timer := time.NewTimer(2 * callTimeout) // a call behind another
		defer timer.Stop()
		select {
		case <-a.done:
		case <-timer.C:
			return
		}
		if a.err == nil && a.deniedBy == 0 && !isDenied(a.accounts, a.numbers) {
			q.add(ctx, l, returnsOf(a.accounts, a.results(nil)))
		}
	})
}

// returnsOf returns the endings that give back what accounts took, but for units of
// concurrency limits. The instant of the taking is that of the reply. If the clock has stepped
// back the taking is later, and less is returned.
func returnsOf(accounts []account, results []result) (all []*settling) {
	for i := range accounts {
		a, s := &accounts[i], &results[i]
		e := &limits.Ending{Limit: a.Limit, Taken: a.Enforced, Ticket: s.enforced.At}
		reset := s.enforced.ResetAfter
		if a.HasShadow && s.shadow.Allowed {
			e.Taken, reset = e.Taken+a.Shadow, s.shadow.ResetAfter
		}
		if e.Limit.Algorithm() == limits.AlgorithmLeakyQueue { // known by when its units have drained
			e.Ticket += reset.Microseconds()
		}
		e.Taken = min(e.Taken, 1<<53) // more only bans have, and their count is full
		if e.Taken > 0 && !a.isConcurrent() {
			all = append(all, &settling{kind: "g ", ending: e, out: new(limits.Settlement), name: a.name, limit: a.limit})
		}
	}
	return all
}
