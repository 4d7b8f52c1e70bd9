package redisbackend

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Units go back to a key if its request was denied on another server, failed, or if its caller has left
// before the answer. A give-back is sent at most once: if it fails, the units stay taken, which can only
// deny too early.

// giveBackBudget is how long Close waits for give-backs.
const giveBackBudget = time.Second

const (
	// maxGiveBacks is how many keys may wait for the return of their units. Units beyond that stay taken.
	maxGiveBacks = 1 << 14

	// maxUnawaited is how many of them may wait while the caller of another taking has left. Clients that
	// hang up all the time would else cost others as much as they cost themselves.
	maxUnawaited = maxWeight / 2
)

// giveBacks counts the give-backs under way, and the takings whose callers have left before the answer.
type giveBacks struct {
	mu    sync.Mutex
	count int
	ended sync.Cond
}

func newGiveBacks() *giveBacks {
	g := new(giveBacks)
	g.ended.L = &g.mu
	return g
}

// begin counts one more, unless there are so many already.
func (g *giveBacks) begin(most int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count >= most {
		return false
	}
	g.count++
	return true
}

func (g *giveBacks) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count--; g.count == 0 {
		g.ended.Broadcast()
	}
}

// wait waits until nothing is to be given back, or ctx ends.
func (g *giveBacks) wait(ctx context.Context) {
	waitUntil(ctx, &g.ended, func() bool { return g.count == 0 })
}

// giveBack returns what groups took. It does not wait for that.
func (b *Bare) giveBack(ctx context.Context, groups []*group) {
	for _, g := range groups {
		b.giveBackAll(ctx, b.refundsOf(g.accounts, g.results), maxGiveBacks)
		b.holds.releaseLater(g.take.ids, false)
	}
}

// giveBackUnawaited returns what a took, whose caller has left.
func (b *Bare) giveBackUnawaited(t *takeJob) {
	if t.err != nil || t.mode.peeks || !t.allowed {
		return
	}
	b.giveBackAll(t.ctx, b.refundsOf(t.accounts, t.results), maxUnawaited)
	b.holds.releaseLater(t.ids, false)
}

// giveBackAll sends what is to be given back, unless so much waits already.
func (b *Bare) giveBackAll(ctx context.Context, all []*settleTask, most int) {
	for _, s := range all {
		if !b.giveBacks.begin(most) {
			return
		}
		e := s.errand(ctx)
		e.done = b.giveBacks.end
		if err := b.send(e); err != nil {
			b.giveBacks.end()
		}
	}
}

// returnsOf returns the settlements that give back what accounts took, except for units of
// concurrency limits. The instant of the taking is that of the reply. If the clock has stepped
// back the taking is later, and less is returned.
func (b *Bare) refundsOf(accounts []account, results []result) (all []*settleTask) {
	for i := range accounts {
		a, r := &accounts[i], &results[i]
		e := &backends.Ending{Limit: a.Limit, Taken: a.Enforced, Ticket: r.enforced.At}
		reset := r.enforced.ResetAfter
		if a.HasShadow && r.shadow.Allowed {
			e.Taken, reset = e.Taken+a.Shadow, r.shadow.ResetAfter
		}
		if a.limit.Queues { // known by when its units have drained
			e.Ticket += reset.Microseconds()
		}
		e.Taken = min(e.Taken, 1<<53) // more only bans have, and their count is full
		if e.Taken > 0 && !a.limit.Held {
			out := new(limits.Settlement)
			all = append(all, &settleTask{backend: b, kind: "g ", ending: e, out: out, name: a.name, limit: a.limit})
		}
	}
	return all
}
