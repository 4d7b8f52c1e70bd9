package redisbackend

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// giveBackBudget is how long a give-back may take. It runs after the answer,
	// whose own deadline is near.
	giveBackBudget = time.Second

	// maxGiveBacks is how many give-backs are under way at once.
	maxGiveBacks = 64

	// maxPendingGiveBacks is how many wait for that. Beyond them units stay taken.
	maxPendingGiveBacks = 1 << 14

	// maxAwaited is how many calls that outlive their request are waited for.
	maxAwaited = 1 << 14
)

// giveBack is what one taking is given back by.
type giveBack struct {
	ctx    context.Context
	client processor
	key    string
	args   []any
}

// giveBacks are those that wait, and the goroutines that make them.
type giveBacks struct {
	mu      sync.Mutex
	pending []giveBack
	makers  int
	running int           // makers, and goroutines that wait for a late reply
	ended   chan struct{} // closed once none runs; nil: nobody waits for that

	awaited atomic.Int64
}

// idle returns a channel that is closed once nothing is to be given back. More may
// be by then: unlike a WaitGroup it can be asked at any time.
func (q *giveBacks) idle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	ended := q.ended
	if ended == nil {
		ended = make(chan struct{})
	}
	if q.running == 0 {
		close(ended)
	} else {
		q.ended = ended
	}
	return ended
}

// startLocked runs f on a goroutine of its own.
func (q *giveBacks) startLocked(f func()) {
	q.running++
	go func() {
		defer func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.running--; q.running == 0 && q.ended != nil {
				close(q.ended)
				q.ended = nil
			}
		}()
		f()
	}()
}

// add has what a group took given back, after the answer.
func (q *giveBacks) add(ctx context.Context, g *group, decisions []settled, instant int64) {
	ctx = context.WithoutCancel(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range g.taken {
		p, ok := giveBackFor(g.client, &g.taken[i], &decisions[i], instant)
		if !ok || len(q.pending) >= maxPendingGiveBacks {
			continue
		}
		p.ctx = ctx
		q.pending = append(q.pending, p)
		if q.makers < maxGiveBacks {
			q.makers++
			q.startLocked(q.make)
		}
	}
}

// make makes give-backs until none waits. A hook of the client that ends the
// goroutine ends one give-back.
func (q *giveBacks) make() {
	done := false
	defer func() {
		if !done {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.startLocked(q.make)
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
		q.makers--
		return p, false
	}
	p = q.pending[0]
	q.pending[0] = giveBack{}
	q.pending = q.pending[1:]
	return p, true
}

// run gives back. A failure leaves the units taken, early denials until they have
// drained, and there is nobody left to tell.
func (p *giveBack) run() {
	ctx, cancel := context.WithTimeout(p.ctx, giveBackBudget)
	defer cancel()
	defer func() { _ = recover() }() // of a hook of the client
	_ = p.send(ctx).Err()
}

func (p *giveBack) send(ctx context.Context) *redis.Cmd {
	return giveBackScript.runOnce(ctx, p.client, p.key, p.args...)
}

// giveBackAll gives back, after the answer, what the groups of a request took that
// is not allowed: those that say so, and those that have yet to, when they do.
func (b *Backend) giveBackAll(ctx context.Context, groups []group, all []settled, instant int64) {
	for i := range groups {
		g := &groups[i]
		switch {
		case g.awaited:
			b.giveBackLate(ctx, g, instant)
		case g.allowed(all):
			decisions := make([]settled, len(g.accounts))
			for j, at := range g.accounts {
				decisions[j] = all[at]
			}
			b.giveBacks.add(ctx, g, decisions, instant)
		}
	}
}

// giveBackLate waits for a reply to a group that its request did not wait for.
func (b *Backend) giveBackLate(ctx context.Context, g *group, instant int64) {
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
		case <-g.ask.done:
		case <-timer.C:
			return
		}
		if g.ask.err != nil {
			return
		}
		decisions := read(g.ask.now, g.ask.numbers, g.taken, modeShare, nil)
		for i := range decisions {
			if !decisions[i].enforced.Allowed {
				return
			}
		}
		q.add(ctx, g, decisions, instant)
	})
}

// giveBackFor returns what gives back the taking of an account that s tells of, if
// anything was taken.
func giveBackFor(client processor, a *account, s *settled, instant int64) (p giveBack, ok bool) {
	units, left := a.Enforced, s.enforced.ResetAfter
	if a.HasShadow && s.shadow.Allowed {
		units, left = units+a.Shadow, s.shadow.ResetAfter
	}
	left -= time.Duration(s.takenAt-s.enforced.At) * time.Microsecond
	args := []any{a.limit.text, units, s.takenAt, left.Microseconds()}
	if instant != 0 {
		args = append(args, instant)
	}
	return giveBack{client: client, key: a.name, args: args}, units > 0
}
