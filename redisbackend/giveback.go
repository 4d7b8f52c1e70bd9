package redisbackend

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
)

// A taking is given back if another server denied its request, the request failed, or its caller
// left before the answer. For example a Cluster keeps the keys "user" and "team" of a request on
// two servers:
//
//	user   allows the request and takes 1 unit: 41 of 100 are in use
//	team   denies the request
//	user   gets a give-back: 40 are in use
//
// Until the give-back arrives, another request may be denied too early. A give-back is sent at
// most once. If it is lost, its units stay taken until they expire.

// giveBackBudget is how long Close waits for give-backs.
const giveBackBudget = time.Second

const (
	// maxGiveBacks is how many give-backs may be under way. Further ones are not sent: their units
	// stay taken.
	maxGiveBacks = 1 << 14

	// maxUnawaited is the same for takings whose callers have left. A lower bound keeps clients
	// that hang up all the time from slowing down others.
	maxUnawaited = line.MaxWeight / 2
)

// giveBacks counts the give-backs under way.
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

// begin counts one more give-back. It returns false if there are already so many.
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

// wait waits until no give-back is under way, or ctx ends.
func (g *giveBacks) wait(ctx context.Context) {
	waitUntil(ctx, &g.ended, func() bool { return g.count == 0 })
}

// giveBack sends back what groups took. It does not wait for the answers.
func (b *Bare) giveBack(ctx context.Context, groups []*group) {
	for _, g := range groups {
		b.giveBackAll(ctx, b.refundsOf(g.accounts, g.results), maxGiveBacks)
		b.holds.releaseLater(g.take.ids, false)
	}
}

// giveBackUnawaited sends back what t took after its caller has left.
func (b *Bare) giveBackUnawaited(t *takeJob) {
	if t.Err != nil || t.mode.peeks || !t.allowed {
		return
	}
	b.giveBackAll(t.Ctx, b.refundsOf(t.accounts, t.results), maxUnawaited)
	b.holds.releaseLater(t.ids, false)
}

// giveBackAll sends give-backs while fewer than most are under way.
func (b *Bare) giveBackAll(ctx context.Context, tasks []*settleTask, most int) {
	for _, s := range tasks {
		if !b.giveBacks.begin(most) {
			return
		}
		e := s.errand(ctx)
		e.Done = b.giveBacks.end
		if err := b.lines.Send(e); err != nil {
			b.giveBacks.end()
		}
	}
}

// refundsOf returns the settlements that give back what accounts took, apart from units of
// concurrency limits. The instant of a taking is that of its reply. If the clock has stepped back,
// the taking counts from a later instant, and less is returned.
func (b *Bare) refundsOf(accounts []account, results []result) (tasks []*settleTask) {
	for i := range accounts {
		a, r := &accounts[i], &results[i]
		e := &backends.Ending{
			Limit: a.Limit, Taken: a.Enforced, Value: a.digest, Ticket: r.enforced.At,
		}
		reset := r.enforced.ResetAfter
		if a.HasShadow && r.shadow.Allowed {
			e.Taken, reset = e.Taken+a.Shadow, r.shadow.ResetAfter
		}
		if a.limit.Queues { // a queue knows takings by when their units have drained
			e.Ticket += reset.Microseconds()
		}
		e.Taken = min(e.Taken, 1<<53) // only bans take more, and their counts are full by then
		if e.Taken > 0 && !a.limit.Held {
			out := new(limits.Settlement)
			tasks = append(tasks, &settleTask{
				backend: b, kind: "g ", ending: e, out: out, name: a.name, limit: a.limit,
			})
		}
	}
	return tasks
}
