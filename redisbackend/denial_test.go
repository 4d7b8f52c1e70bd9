package redisbackend_test

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// One address tries one user after the other, on hundreds of connections at once.
// No two requests are equal. When the first is denied so are the others, by the same
// answer; the requests of somebody else, which came last, are decided.
func TestACrowdOfOneKeyIsDeniedTogetherThoughItsRequestsDiffer(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := newBare(client)
	perAddress, perUser := limits.FixedWindow(limits.PerDay(3)), limits.SlidingWindow(limits.PerDay(100))
	login := func(address, user string) []backends.Charge {
		return []backends.Charge{charge("address", address, perAddress, 1), charge("user", user, perUser, 1)}
	}
	const crowd = 400
	var groups [][]backends.Charge
	for i := range crowd {
		groups = append(groups, login("a", fmt.Sprint("user ", i)))
	}
	for i := range 3 {
		groups = append(groups, login("b", fmt.Sprint("user ", i)))
	}
	decisions, errs, wait := queue(t, t.Context(), b, g, groups)
	before := g.scripts.Load()
	g.open()
	wait()
	allowed, notAsked := 0, 0
	for i, d := range decisions {
		ok(t, errs[i])
		address, user := d[0], d[1]
		switch {
		case i >= crowd:
			if !address.Allowed || !user.Allowed || address.Source != limits.SourcePrimary || user.Remaining > 99 {
				t.Errorf("somebody else, request %d: %+v", i-crowd, d)
			}
		case address.Allowed:
			allowed++
		default:
			if address.Remaining != 0 || address.RetryAfter <= 0 || address.RetryAfter != address.EffectiveWindow ||
				address.At == 0 || !user.Allowed {
				t.Fatalf("request %d: %+v", i, d)
			}
			if user.Source == limits.SourceNotAsked {
				notAsked++
			}
		}
	}
	if scripts := g.scripts.Load() - before; allowed != 3 || notAsked < crowd/2 || scripts > 300 {
		t.Errorf(
			"%d admitted, %d denied without being asked about, %d scripts; want 3, most, and fewer than there are requests",
			allowed, notAsked, scripts,
		)
	}
	out := make([]limits.Decision, 1)
	ok(t, b.Take(t.Context(), []backends.Charge{charge("user", "user 399", perUser, 0)}, out))
	if out[0].Remaining != 100 {
		t.Errorf("a user who was not asked about has %d left, want 100", out[0].Remaining)
	}
}
