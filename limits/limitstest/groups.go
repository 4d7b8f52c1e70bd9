package limitstest

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// groupCases are about several charges in one Take (DESIGN 5, "Several
// charges").
var groupCases = []testCase{
	{
		name: "charges are taken together or not at all",
		why: "when one of several charges is denied none takes anything, so that a request denied by " +
			"the minute takes nothing from the hour; charges that fit report Allowed, with nothing taken " +
			"(DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			full := backends.Charge{Scope: "full", Key: "k", Limit: plain(limits.PerHour(1)),
				Cost: 1}
			w.take(full)
			for _, l := range h.limits.rates(limits.PerMinute(10)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l, Cost: 4}
				w.take(c)
				stands := w.look(c)
				for range 3 {
					w.expect(about(l, "in front of a full key"), []backends.Charge{c, full}, stands,
						denied(0, hour, hour))
					w.expect(about(l, "behind a full key"), []backends.Charge{full, c}, denied(0, hour, hour),
						stands)
				}
				w.same(about(l, "after denials of the group"), c, stands)
			}
		},
	},
	{
		name: "a denied group is allowed after the longest of its waits",
		why: "a client that waits for the largest RetryAfter of its denied charges gets in, and 1µs " +
			"earlier it does not (DESIGN 5, several charges; DESIGN 1)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			choices := h.limits.rates(limits.PerMinute(7))
			for longest := range choices { // each algorithm has the longest wait in one round
				var group []backends.Charge
				for i, l := range choices {
					c := backends.Charge{Scope: l.Algorithm().String(), Key: strconv.Itoa(longest), Limit: l,
						Cost: 6}
					if i == longest {
						c.Cost = 7
					}
					w.take(c)
					c.Cost = 3
					group = append(group, c)
				}
				wait := time.Duration(0)
				for i, d := range w.take(group...) {
					if d.Allowed {
						t.Error(about(choices[i], "3 of 7 are allowed where at least 6 are in use: %s",
							showDecision(d)))
					}
					wait = max(wait, d.RetryAfter)
				}
				inTime := func() bool {
					return !slices.ContainsFunc(w.take(group...),
						func(d limits.Decision) bool { return !d.Allowed })
				}
				w.clock.advance(wait - 1*us)
				if inTime() {
					t.Errorf("the group is allowed 1µs before %s", wait)
				}
				w.clock.advance(1 * us)
				if !inTime() {
					t.Errorf("the group is not allowed after %s", wait)
				}
				w.clock.advance(3 * mins)
			}
		},
	},
	{
		name: "a group takes of every algorithm at once",
		why: "one charge under each algorithm is taken in one step, and the next group that does not " +
			"fit one of them takes of none (DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			choices := h.limits.all(limits.PerMinute(10))
			denies := func(l limits.Limit) bool { return !algorithmOf(l).together[2].Allowed }
			if !slices.ContainsFunc(choices, denies) {
				t.SkipNow()
			}
			group := make([]backends.Charge, len(choices))
			for step, label := range [4]string{"the first 4", "the next 4", "4 once more, of one only 2",
				"2"} {
				want := make([]limits.Decision, len(choices))
				for i, l := range choices {
					group[i] = backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l,
						Cost: [4]int64{4, 4, 4, 2}[step]}
					if third := algorithmOf(l).third; step == 2 && third > 0 {
						group[i].Cost = third
					}
					want[i] = algorithmOf(l).together[step]
				}
				w.expect(label, group, want...)
			}
		},
	},
	{
		name: "charges of one key in one group are one charge",
		why: "they are decided as one charge of the summed cost, each reports that decision, and the " +
			"sum is compared with the maximum; a backend that locks each charge deadlocks with itself " +
			"(DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			c := backends.Charge{Scope: "s", Key: "twice",
				Limit: draining(limits.PerSecond(1), 10)}
			with := func(cost int64) backends.Charge { c.Cost = cost; return c }
			one := backends.Charge{Scope: "s", Key: "single", Limit: c.Limit, Cost: 1}
			d := allowed(5, 5*sec, 5*sec)
			w.expect("2 and 3", []backends.Charge{with(2), one, with(3)}, d, allowed(9, 1*sec, 9*sec), d)
			d = denied(5, 1*sec, 5*sec)
			w.expect("3 and 3", []backends.Charge{with(3), with(3), one}, d, d, allowed(9, 1*sec, 9*sec))
			d = denied(5, limits.Never, 5*sec)
			w.expect("6 and 5", []backends.Charge{with(6), with(5)}, d, d)
			w.expect("more than the largest int64",
				[]backends.Charge{with(math.MaxInt64), with(math.MaxInt64), with(3)}, d, d, d)
			d = denied(5, 1*sec, 5*sec)
			w.expect("0 and 6", []backends.Charge{with(0), with(6)}, d, d)
			d = allowed(0, 10*sec, 1*sec)
			w.expect("1, 1, 1, 1 and 1", []backends.Charge{with(1), with(1), with(1), with(1), with(1)}, d,
				d, d, d, d)
		},
	},
	{
		name: "a group is decided at one instant",
		why: "the clock is asked once for all charges, however fast it runs (DESIGN 5, several " +
			"charges: evaluated at one instant)",
		run: func(t testing.TB, h Harness) {
			clock := h.clockAt(newYear)
			b := h.Open(t, func() time.Time {
				clock.advance(1 * sec)
				return clock.now()
			})
			w := world{t, clock, b}
			var group []backends.Charge
			for _, l := range h.limits.rates(limits.PerMinute(10)) {
				group = append(group, backends.Charge{Scope: l.Algorithm().String(), Limit: l, Cost: 3})
			}
			for range 5 {
				for _, d := range w.take(group...) {
					if d.At != clock.micros() {
						t.Errorf("one clock reading is %s, a decision is of %s", instant(clock.micros()),
							instant(d.At))
					}
				}
			}
		},
	},
	{
		name: "out has the decisions in the order of the charges",
		why: "out[i] is the decision on charges[i], whatever the order in which a backend works and " +
			"however many there are (backends.Backend)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			const n = 50
			group := make([]backends.Charge, n)
			want := make([]limits.Decision, n)
			for round := int64(1); round <= 2; round++ {
				for i := range group {
					most := int64(100 + (i*37)%n) // no two are equal
					group[i] = backends.Charge{Scope: strconv.Itoa(i % 7), Key: strconv.FormatInt(most, 10),
						Limit: plain(limits.PerMinute(most)), Cost: 10}
					want[i] = allowed(most-10*round, 60*sec, 60*sec)
				}
				w.expect("round "+strconv.FormatInt(round, 10), group, want...)
			}
		},
	},
	{
		name: "a backend keeps neither of the slices it is given",
		why: "callers reuse their space for charges and decisions (backends.Backend: Take " +
			"keeps neither slice)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			charges, out := make([]backends.Charge, 2), dirty(2)
			left := [2]int64{100, 100}
			for i := range int64(10) {
				charges[0] = backends.Charge{Scope: "s", Key: "a",
					Limit: plain(limits.PerMinute(100)), Cost: i}
				charges[1] = backends.Charge{Scope: "s", Key: "b",
					Limit: plain(limits.PerMinute(100)), Cost: 1}
				left[0], left[1] = left[0]-i, left[1]-1
				given := slices.Clone(charges)
				if err := w.backend.Take(context.Background(), charges, out); err != nil {
					t.Fatalf("Take: %v", err)
				}
				if !slices.Equal(charges, given) {
					t.Fatalf("Take changed its charges: %v, were %v", charges, given)
				}
				want := []limits.Decision{allowed(left[0], 60*sec, 60*sec), allowed(left[1], 60*sec, 60*sec)}
				want[0].At, want[1].At = w.clock.micros(), w.clock.micros()
				if i == 0 {
					want[0].ResetAfter = 0
				}
				if d := diff(charges, out, want); d != "" {
					t.Errorf("call %d:\n%s", i, d)
				}
				clear(charges)
				out[0], out[1] = limits.Decision{}, limits.Decision{}
			}
		},
	},
	{
		name: "no charges are no error",
		why:  "a request that no rule applies to has nothing to decide (backends.Backend)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			w.take()
			err := w.backend.Take(context.Background(), []backends.Charge{}, []limits.Decision{})
			if err != nil {
				t.Errorf("Take of no charges: %v", err)
			}
		},
	},
}
