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

	// gatherFor is how long takings whose callers have left are gathered, before one call returns them.
	gatherFor = 10 * time.Millisecond
)

// giveBacks returns units of requests that were denied or failed after they had taken them. To
// each server it makes one call at a time, with all that wait. A call is made at most once: if
// it fails, the units stay taken, which can only deny too early.
type giveBacks struct {
	settle func(context.Context, []*settling)

	mu       sync.Mutex
	waiting  map[*lane][]*giveBack // by server; a goroutine returns those of each
	count    int                   // of waiting
	gathered map[*lane]*batch      // what callers took who have left
	running  int                   // goroutines
	ended    sync.Cond             // one of them has
}

// giveBack is what one request gives back on one server.
type giveBack struct {
	ctx  context.Context
	all  []*settling
	done chan struct{} // closed once all is returned, or will not be
}

func newGiveBacks(settle func(context.Context, []*settling)) *giveBacks {
	q := &giveBacks{settle: settle, waiting: make(map[*lane][]*giveBack), gathered: make(map[*lane]*batch)}
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
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.addLocked(ctx, l, all)
}

func (q *giveBacks) addLocked(ctx context.Context, l *lane, all []*settling) *giveBack {
	g := &giveBack{context.WithoutCancel(ctx), all, make(chan struct{})}
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

// gather queues what callers took on the server of l who have left. All that comes within gatherFor
// is returned by one call. What does not fit into it stays taken: clients that hang up all the time
// would else cost others as much as they cost themselves.
func (q *giveBacks) gather(ctx context.Context, l *lane, all []*settling) {
	if len(all) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.gathered[l]; b != nil {
		b.addAll(all)
		return
	}
	b := new(batch)
	b.addAll(all)
	q.gathered[l] = b
	q.startLocked(func() {
		for waits := true; waits; {
			time.Sleep(gatherFor)
			q.mu.Lock()
			if _, waits = q.waiting[l]; !waits {
				delete(q.gathered, l)
				q.addLocked(ctx, l, b.all)
			}
			q.mu.Unlock()
		}
	})
}

// next returns as many as one call may settle, nil if nothing waits.
func (q *giveBacks) next(l *lane) ([]*giveBack, []*settling) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.waiting[l]
	if len(waiting) == 0 {
		delete(q.waiting, l)
		return nil, nil
	}
	var b batch
	n := 0
	for n < len(waiting) && b.addAll(waiting[n].all) {
		n++
	}
	q.waiting[l] = waiting[n:]
	q.count -= n
	return waiting[:n], b.all
}

// batch is what one call returns. What was taken of a key at one instant, perhaps by a crowd, is
// returned as one taking; but not to an anchored window, which keeps the last taking that opened it
// for others.
type batch struct {
	all    []*settling
	of     map[taking]*settling
	weight int
}

type taking struct {
	name  string
	limit limits.Limit
	at    int64
}

// addAll adds all, unless b is full. It replaces those that b has already.
func (b *batch) addAll(all []*settling) bool {
	if b.weight >= maxWeight {
		return false
	}
	if b.of == nil {
		b.of = make(map[taking]*settling)
	}
	for i, s := range all {
		t := taking{s.name, s.ending.Limit, s.ending.Ticket}
		if first := b.of[t]; first != nil && t.limit.Algorithm() != limits.AlgorithmAnchoredWindow {
			first.ending.Taken += s.ending.Taken
			all[i] = first
			continue
		}
		b.of[t] = s
		b.all = append(b.all, s)
		b.weight += s.weight()
	}
	return true
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
			q.gather(ctx, l, returnsOf(a.accounts, a.results(nil)))
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
