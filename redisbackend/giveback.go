package redisbackend

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
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

// giveBacks sends back what was taken for nothing, and counts what is under way.
type giveBacks struct {
	servers *servers
	holds   *holds

	mu    sync.Mutex
	count int
	ended sync.Cond
}

func newGiveBacks(h *holds) *giveBacks {
	g := &giveBacks{servers: h.servers, holds: h}
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

// send sends back what a taking took, apart from units of concurrency limits, while fewer than most
// give-backs are under way. It does not wait for the answers.
func (g *giveBacks) send(ctx context.Context, t *wire.Taking, most int) {
	for _, ending := range t.GiveBacks() {
		if !g.begin(most) {
			return
		}
		e := g.servers.settling(ctx, &ending)
		e.Done = g.end
		if err := g.servers.lines.Send(e); err != nil {
			g.end()
		}
	}
}
