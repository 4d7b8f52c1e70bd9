package redisbackend

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
)

const (
	// giveBackBudget is how long a give-back may take. It runs after the answer,
	// whose own deadline is near.
	giveBackBudget = time.Second

	// maxGiveBacks is how many give-backs are under way at once.
	maxGiveBacks = 64

	// maxPendingGiveBacks is how many may wait to be sent. Units beyond it stay taken.
	maxPendingGiveBacks = 1 << 14

	// maxAwaited is how many calls are awaited after their request has been answered.
	maxAwaited = 1 << 14
)

// giveBack gives one taking back.
type giveBack struct {
	ctx    context.Context
	client processor
	key    string
	args   []any
}

// giveBacks are the give-backs that wait, and the goroutines that send them.
type giveBacks struct {
	mu         sync.Mutex
	pending    []giveBack
	senders    int
	running    int           // senders, and goroutines that wait for a late reply
	idleSignal chan struct{} // closed once none runs; nil: nobody waits for it

	awaited atomic.Int64
}

// idle returns a channel that is closed once no give-back is left. Unlike a WaitGroup it
// may be called at any time, also while give-backs are added.
func (q *giveBacks) idle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	signal := q.idleSignal
	if signal == nil {
		signal = make(chan struct{})
	}
	if q.running == 0 {
		close(signal)
	} else {
		q.idleSignal = signal
	}
	return signal
}

// startLocked runs f on a goroutine of its own, which idle waits for.
func (q *giveBacks) startLocked(f func()) {
	q.running++
	go func() {
		defer func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.running--; q.running == 0 && q.idleSignal != nil {
				close(q.idleSignal)
				q.idleSignal = nil
			}
		}()
		f()
	}()
}

// add queues give-backs of what accounts took. They are sent after the answer.
func (q *giveBacks) add(ctx context.Context, client processor, taken []account, decisions []result, instant int64) {
	ctx = context.WithoutCancel(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range taken {
		p, ok := giveBackFor(client, &taken[i], &decisions[i], instant)
		if !ok || len(q.pending) >= maxPendingGiveBacks {
			continue
		}
		p.ctx = ctx
		q.pending = append(q.pending, p)
		if q.senders < maxGiveBacks {
			q.senders++
			q.startLocked(q.sendAll)
		}
	}
}

// sendAll sends give-backs until none waits. If a hook of the client ends the goroutine,
// another one sends the rest.
func (q *giveBacks) sendAll() {
	done := false
	defer func() {
		if !done {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.startLocked(q.sendAll)
		}
	}()
	for {
		p, ok := q.next()
		if !ok {
			break
		}
		p.run()
	}
	done = true
}

func (q *giveBacks) next() (p giveBack, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		q.pending = nil
		q.senders--
		return p, false
	}
	p = q.pending[0]
	q.pending[0] = giveBack{}
	q.pending = q.pending[1:]
	return p, true
}

// run sends the give-back. If it fails the units stay taken, which can only deny early.
// The request has been answered, so nobody learns of the failure.
func (p *giveBack) run() {
	ctx, cancel := context.WithTimeout(p.ctx, giveBackBudget)
	defer cancel()
	defer func() { _ = recover() }() // a hook of the client may panic
	_ = p.send(ctx).Err()
}

func (p *giveBack) send(ctx context.Context) *redis.Cmd {
	return settleScript.runOnce(ctx, p.client, p.key, p.args...)
}

// giveBackAll gives back what the groups of a denied request took. A group whose reply is
// still under way follows when the reply comes.
func (b *Backend) giveBackAll(ctx context.Context, groups []group, all []result, instant int64) {
	for i := range groups {
		g := &groups[i]
		switch {
		case g.awaited:
			b.giveBackLate(ctx, g.client, &g.ask, g.taken, instant)
		case g.allowed(all):
			if g.ask.holds != nil {
				b.holds.releaseLater(g.ask.spans, false)
			}
			decisions := make([]result, len(g.accounts))
			for j, at := range g.accounts {
				decisions[j] = all[at]
			}
			b.giveBacks.add(ctx, g.client, g.taken, decisions, instant)
		}
	}
}

// giveBackLate gives back what a question takes, when the reply comes that nobody waits for.
func (b *Backend) giveBackLate(ctx context.Context, client processor, a *ask, taken []account, instant int64) {
	q := &b.giveBacks
	if q.awaited.Add(1) > maxAwaited {
		q.awaited.Add(-1)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.startLocked(func() {
		defer q.awaited.Add(-1)
		timer := time.NewTimer(2 * callTimeout) // a call behind another
		defer timer.Stop()
		select {
		case <-a.done:
		case <-timer.C:
			return
		}
		if a.err != nil || a.deniedBy > 0 {
			return
		}
		decisions := read(a.now, a.numbers, taken, a.mode, nil)
		for i := range decisions {
			if taken[i].isDenied(&decisions[i]) {
				return
			}
		}
		q.add(ctx, client, taken, decisions, instant)
	})
}

// giveBackFor returns the give-back of what an account took, which s describes. It
// reports whether there is one: units of concurrency limits are released instead.
func giveBackFor(client processor, a *account, s *result, instant int64) (p giveBack, ok bool) {
	e := limits.Ending{Limit: a.limit.limit, Taken: a.Enforced, Ticket: s.takenAt}
	left := s.enforced.ResetAfter
	if a.HasShadow && s.shadow.Allowed {
		e.Taken, left = e.Taken+a.Shadow, s.shadow.ResetAfter
	}
	if e.Limit.Algorithm() == limits.AlgorithmLeakyQueue {
		e.Ticket = s.enforced.At + left.Microseconds()
	}
	if e.Limit.Algorithm() == limits.AlgorithmBan { // the script counts no further
		e.Taken = min(e.Taken, math.MaxUint32-(e.Limit.Burst()-s.before.Remaining))
	}
	return giveBack{client: client, key: a.name, args: settleArguments(nil, "g ", a.limit, &e, instant)}, e.Taken > 0 && !a.isConcurrent()
}
