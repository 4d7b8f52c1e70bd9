package limitstest

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// refundCases are about requests that cost less than estimated (DESIGN 12).
var refundCases = []testCase{
	endCase("unused units return to where they were taken",
		"a taking of 6 that cost 2 leaves what a taking of 2 would have left, under every algorithm, "+
			"however late within its window it ends",
		func(w endWorld) {
			for _, l := range w.limits.all(limits.PerMinute(10)) {
				if l.Algorithm().Holds() || l.Algorithm().CountsValues() {
					continue
				}
				for _, shadow := range []bool{false, true} {
					key := fmt.Sprint(l.Algorithm(), shadow)
					a := w.beginAs(backends.Charge{Scope: "s", Key: key, Limit: l, Cost: 6, Shadow: shadow,
						Lasts: mins})
					w.settles(a, 2, limits.Settlement{Returned: 4})
					b := w.begin(key+" 2", l, 2)
					if got, want := w.look(a.charge), w.look(b.charge); !same(a.charge, got, want) {
						w.Error(about(l, "6 taken, 4 returned: %s, want %s", showDecision(got), showDecision(want)))
					}
					w.settles(b, 2, limits.Settlement{})
				}
				late := w.begin("late", l, 6)
				w.clock.advance(5 * sec)
				w.settles(late, 0, limits.Settlement{Returned: 6})
				if left := w.look(late.charge).Remaining; left != 10 {
					w.Error(about(l, "6 taken and returned: %d of 10 remain", left))
				}
				w.clock.advance(3*hour - 5*sec)
			}
		}),
	endCase("nothing is returned to a later window",
		"6 units of a window that is over are not given to the next, whether it is in use or not yet; "+
			"those of a sliding window fade less (DESIGN 12)",
		func(w endWorld) {
			for _, l := range w.limits.rates(limits.PerMinute(10)) {
				if isBucket(l) {
					continue
				}
				a := w.begin("k", l, 6)
				w.clock.advance(mins)
				b := w.begin("k", l, 4)
				w.end(a, 0)
				if left := w.look(b.charge).Remaining; left != 6 {
					w.Error(about(l, "6 of the window before were returned: %d remain, want 6", left))
				}
				w.settles(b, 0, limits.Settlement{Returned: 4})
				if left := w.look(b.charge).Remaining; left != 10 {
					w.Error(about(l, "all was returned: %d remain, want 10", left))
				}
				w.clock.advance(3 * hour)
			}
		}),
	endCase("the end of a taking that is gone changes nothing",
		"a taking whose key was reset, has drained or was taken over by another limit has nothing to "+
			"return, and what others have taken since stays taken",
		func(w endWorld) {
			ctx := context.Background()
			for _, l := range w.limits.all(limits.PerHour(10)) {
				if l.Algorithm().Holds() || l.Algorithm().CountsValues() {
					continue
				}
				w.settles(begun{backends.Charge{Scope: "s", Key: "unknown", Limit: l, Cost: 3, Lasts: sec},
					w.begin("another", l, 3).decision}, 0, limits.Settlement{})
				if canReset(w, w.backend) {
					a := w.begin("reset", l, 3)
					if err := backends.Reset(ctx, w.backend, "s", "reset"); err != nil {
						w.Fatal(err)
					}
					b := w.begin("reset", l, 4)
					w.end(a, 0)
					if left := w.look(b.charge).Remaining; left != 6 {
						w.Error(about(l, "3 taken, reset, 4 taken, 3 returned: %d remain, want 6", left))
					}
				}
				a := w.begin("changed", l, 3)
				for _, other := range w.limits.all(limits.PerDay(20)) {
					if other.Algorithm().Holds() || other.Algorithm().CountsValues() || sameCounting(l, other) {
						continue
					}
					key := fmt.Sprint("changed ", other.Algorithm())
					a = w.begin(key, l, 3)
					b := w.begin(key, other, 4)
					left := w.look(b.charge)
					w.end(a, 0)
					w.end(a, 30)
					if got := w.look(b.charge); !same(b.charge, got, left) {
						w.Error(about(l, "then %s, and the end of the first: %s, want %s", showLimit(other),
							showDecision(got), showDecision(left)))
					}
				}
				w.clock.advance(2 * day)
				w.end(a, 0)
				if left := w.look(a.charge).Remaining; left != 10 {
					w.Error(about(l, "two days later %d remain, want 10", left))
				}
			}
		}),
}
