package lab

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// clientKey is the key of all requests.
const clientKey = "client"

// rule is a rule of a panel with its current state.
type rule struct {
	name  string
	scope string
	limit limits.Limit

	memory *memory.Memory
	start  int64         // start of the clock
	free   time.Duration // time in which a queue drains the units that go on at once

	turnAt int64 // end of the window or ban that a decision began; 0: none
}

// turnAfter returns the end of the window that is open at a time, if all keys share the same
// windows.
func (r *rule) turnAfter(at int64) (end int64, ok bool) {
	_, turn, ok := r.limit.Window(time.UnixMicro(r.start + at))
	return turn.UnixMicro() - r.start, ok
}

// Gauge is the current state of a rule of a panel.
type Gauge struct {
	Remaining, Most int64
	Level           float64       // Remaining of Most, 0 to 1, including fractions of a unit
	Next            time.Duration // time to one more unit; 0: full; limits.Never: unknown
	Delay           time.Duration // wait of a request of one unit in the queue
	Reset           time.Duration
}

// gauge returns the state of r now.
func (r *rule) gauge() Gauge {
	d := r.peek(1)
	g := Gauge{Remaining: d.Remaining, Most: r.limit.Burst(), Level: share(d.Remaining, r.limit),
		Delay: max(0, d.Delay-r.free), Reset: d.ResetAfter}
	switch a := r.limit.Algorithm(); {
	case g.Remaining >= g.Most:
	case a.Holds():
		g.Next = limits.Never
	case algorithm.Of(a).Bans: // allows any cost until it bans
		if g.Next = d.RetryAfter; d.Allowed {
			g.Next = d.ResetAfter
		}
	case a.CountsValues() && g.Remaining > 0:
		// the next value leaves when a new one would fit into a full limit
		full := *r
		full.limit = r.limit.WithUnits(g.Most - g.Remaining)
		g.Next = full.peek(1).RetryAfter
	default:
		g.Next = r.peek(g.Remaining + 1).RetryAfter
	}
	if r.limit.Algorithm().HasBurst() {
		unit := float64(r.limit.Rate().Period) / float64(r.limit.Rate().Units)
		if part := 1 - float64(g.Next)/unit; g.Remaining < g.Most && part > 0 {
			g.Level += part / float64(g.Most)
		}
	}
	return g
}

// peek returns the decision on a charge without taking units.
func (r *rule) peek(cost int64) limits.Decision {
	out := make([]limits.Decision, 1)
	charge := backends.Charge{Scope: r.scope, Key: clientKey, Limit: r.limit, Cost: cost}
	if err := r.memory.Peek(context.Background(), []backends.Charge{charge}, out); err != nil {
		return limits.Decision{}
	}
	return out[0]
}

// share returns remaining as a share of the most that limit allows, 0 to 1.
func share(remaining int64, limit limits.Limit) float64 {
	return float64(remaining) / float64(max(1, limit.Burst()))
}
