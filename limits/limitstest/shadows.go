package limitstest

import (
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// shadowCases are about charges that are counted but not enforced.
var shadowCases = []testCase{
	{
		name: "a shadow charge never stands in the way",
		why: "a shadow that does not fit is denied and takes nothing, and the others are taken as " +
			"without it (DESIGN 5, several charges; backends.Charge)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			enforced := backends.Charge{Scope: "enforced", Limit: plain(limits.PerMinute(10)),
				Cost: 3}
			shadow := backends.Charge{Scope: "shadow", Limit: plain(limits.PerMinute(4)),
				Cost: 3, Shadow: true}
			never := backends.Charge{Scope: "never", Limit: plain(limits.PerMinute(2)), Cost: 3,
				Shadow: true}
			group := []backends.Charge{never, enforced, shadow}
			w.expect("the first 3", group, denied(2, limits.Never, 0), allowed(7, 60*sec, 60*sec),
				allowed(1, 60*sec, 60*sec))
			w.expect("the next 3", group, denied(2, limits.Never, 0), allowed(4, 60*sec, 60*sec),
				denied(1, 60*sec, 60*sec))
			w.expect("3 more", group, denied(2, limits.Never, 0), allowed(1, 60*sec, 60*sec),
				denied(1, 60*sec, 60*sec))
		},
	},
	{
		name: "a shadow charge takes nothing when the others are denied",
		why: "a request that is denied costs nothing anywhere, in shadow neither (DESIGN " +
			"5, several charges)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			enforced := backends.Charge{Scope: "enforced", Limit: plain(limits.PerMinute(4)),
				Cost: 3}
			shadow := backends.Charge{Scope: "shadow", Limit: limits.LeakyQueue(limits.PerMinute(60), 10),
				Cost: 3, Shadow: true}
			group := []backends.Charge{shadow, enforced}
			w.expect("the first 3", group, queued(0, 7, 3*sec, 7*sec), allowed(1, 60*sec, 60*sec))
			w.expect("the next 3", group, allowed(7, 3*sec, 7*sec), denied(1, 60*sec, 60*sec))
			w.expect("a look", []backends.Charge{{Scope: "shadow", Limit: shadow.Limit}},
				allowed(7, 3*sec, 7*sec))
		},
	},
	{
		name: "shadow charges alone are each on their own",
		why: "without an enforced charge there is nothing to deny the group: each shadow is taken if " +
			"it fits (DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			few := backends.Charge{Scope: "few", Limit: plain(limits.PerMinute(1)), Cost: 1,
				Shadow: true}
			many := backends.Charge{Scope: "many", Limit: plain(limits.PerMinute(9)), Cost: 1,
				Shadow: true}
			w.expect("the first", []backends.Charge{few, many}, allowed(0, 60*sec, 60*sec),
				allowed(8, 60*sec, 60*sec))
			w.expect("the next", []backends.Charge{many, few}, allowed(7, 60*sec, 60*sec),
				denied(0, 60*sec, 60*sec))
		},
	},
	{
		name: "a shadow charge comes after an enforced one of the same key",
		why: "the enforced charges of a key are summed and decided first, then its shadows on top of " +
			"what they take (DESIGN 5, several charges; backends.Charge: never in the way of the others)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			c := backends.Charge{Scope: "s", Limit: plain(limits.PerMinute(10))}
			enforced := func(cost int64) backends.Charge { c.Cost, c.Shadow = cost, false; return c }
			shadow := func(cost int64) backends.Charge { c.Cost, c.Shadow = cost, true; return c }
			w.expect("room for both", []backends.Charge{shadow(2), enforced(3)}, allowed(5, 60*sec, 60*sec),
				allowed(7, 60*sec, 60*sec))
			w.expect("room for one", []backends.Charge{shadow(3), enforced(2), enforced(1)},
				denied(2, 60*sec, 60*sec), allowed(2, 60*sec, 60*sec), allowed(2, 60*sec, 60*sec))
			w.expect("room for the shadow", []backends.Charge{shadow(2), enforced(3)},
				allowed(2, 60*sec, 60*sec), denied(2, 60*sec, 60*sec))
			w.expect("room for one of two shadows", []backends.Charge{shadow(2), shadow(1)},
				denied(2, 60*sec, 60*sec), denied(2, 60*sec, 60*sec))
			w.expect("a look", []backends.Charge{enforced(0)}, allowed(2, 60*sec, 60*sec))
		},
	},
}
