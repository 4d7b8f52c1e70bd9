package limitstest

import (
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// timeCases are about a backend whose time stands still when its clock goes back.
var timeCases = []testCase{{
	name: "time goes on from the latest instant when the clock steps back",
	why: "for as long as the clock is behind, every decision is at the latest instant that " +
		"the backend has seen: nothing is admitted twice, and no wait is longer (DESIGN 5, a " +
		"clock that steps back)",
	keepsTime: true,
	run: func(t testing.TB, h Harness) {
		for _, l := range h.limits.rates(limits.PerMinute(10)) {
			w := h.world(t)
			c := backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 10}
			w.take(c)
			c.Cost = 1
			before := w.take(c)[0]
			for _, back := range []time.Duration{1 * us, 30 * sec, 24 * hour} {
				w.clock.advance(-back)
				if d := w.take(c)[0]; d != before {
					t.Error(about(l, "%s back: %s, want %s as before", wait(back), showDecision(d),
						showDecision(before)))
				}
				w.clock.advance(back)
			}
			if before.Allowed || !isRate(l) {
				continue
			}
			w.clock.advance(before.RetryAfter - 1*us)
			if w.take(c)[0].Allowed {
				t.Error(about(l, "allowed 1µs too early after the clock has stepped back and ahead again"))
			}
			w.clock.advance(1 * us)
			if !w.take(c)[0].Allowed {
				t.Error(about(l, "denied after its wait once the clock has stepped back and ahead again"))
			}
		}
	},
}}
