package limitstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// kindCases charge limits that do not count alike under one scope and key, as two programs do that
// both call a rule "login", or two versions of one while a deploy rolls (DESIGN 5, "Kinds of
// counting").
var kindCases = []testCase{
	{
		name: "limits that do not count alike count apart",
		why: "under two limits of different kinds that take turns for a day, each decides what it " +
			"would decide alone: a rate, a ban, a distinct and a concurrency limit of one scope and key " +
			"have a state each (DESIGN 5, kinds of counting)",
		run: func(t testing.TB, h Harness) {
			random := rand.New(rand.NewPCG(h.seed(t), 8))
			choices := h.limits.all(limits.PerHour(5))
			for i, a := range choices {
				for _, b := range choices[i+1:] {
					if countedBy(a) != countedBy(b) {
						h.takeTurns(t, random, a, b)
					}
				}
			}
		},
	},
	{
		name: "a reset makes a key fresh under every kind of limit",
		why: "who resets a key of a rule does not know under which limits the key was charged; only " +
			"held units stay, since their requests run (backends.Resetter)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			if !canReset(t, w.backend) {
				return
			}
			choices := h.limits.of(everyKind(limits.PerDay(3))...)
			for _, l := range choices {
				w.take(backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 3, Value: valueOf("ann")})
			}
			if err := backends.Reset(context.Background(), w.backend, "s", "k"); err != nil {
				t.Fatalf("Reset: %v", err)
			}
			for _, l := range choices {
				want := l.Burst()
				if l.Algorithm().Holds() {
					want = 0
				}
				if d := w.look(backends.Charge{Scope: "s", Key: "k", Limit: l}); d.Remaining != want {
					t.Error(about(l, "charged, then reset: %s, want %d remaining", showDecision(d), want))
				}
			}
		},
	},
	{
		name: "what a full store has displaced is remembered for its kind alone",
		why: "units of a rate lead to no ban and are no values, so keys of one kind that are displaced " +
			"deny no new key of another, whatever the number of scopes (DESIGN 6)",
		small: true,
		run: func(t testing.TB, h Harness) {
			choices := slices.DeleteFunc(h.limits.of(everyKind(limits.PerDay(5))...),
				func(l limits.Limit) bool { return l.Algorithm().Holds() })
			for i, flood := range choices {
				c := h.clockAt(newYear)
				w := world{t, c, h.OpenSmall(t, c.now, 64)}
				for n := range 70 * 64 {
					w.take(backends.Charge{Scope: fmt.Sprint("s", n%70), Key: fmt.Sprint("flood ", n),
						Limit: flood, Cost: 4, Value: uint64(n)})
				}
				for j, l := range choices {
					d := w.look(backends.Charge{Scope: "s1", Key: "new", Limit: l})
					if j != i && d.Remaining != 5 {
						t.Error(about(l, "after a flood under %s: %s", showLimit(flood), showDecision(d)))
					}
				}
			}
		},
	},
}

// cornerCases are of conversions after a change of limits, and of keys that owe.
var cornerCases = []testCase{
	stepBackCase(endCase("what a window owes it owes after a long step back, too",
		"a step of the clock forgives nothing: 10 units in the window and 10 owed deny for what is "+
			"left of the window, and for one more (DESIGN 5, a clock that steps back)",
		func(w endWorld) {
			for _, l := range w.limits.all(limits.Per(10, mins)) {
				if !hasWindows(l) {
					continue
				}
				w.clock.set(newYear.Add(100 * day).UnixMicro())
				b := w.begin("k", l, 1)
				w.settles(b, 20, limits.Settlement{Charged: 19})
				w.clock.set(newYear.Add(2 * day).UnixMicro())
				p := l.Rate().Period
				if byClock(l) {
					now := w.clock.micros()
					p = duration(windowEnd(now, l) - windowStart(now, l))
				}
				b.charge.Cost = 1
				w.expect("after the step", []backends.Charge{b.charge}, denied(0, 2*p, 2*p))
				w.clock.advance(2*p - 1*us)
				w.expect("until all is paid", []backends.Charge{b.charge}, denied(0, 1*us, 1*us))
				w.clock.advance(1 * us)
				w.expect("then", []backends.Charge{b.charge}, allowed(9, p, p))
			}
		})),
	endCase("a request under the limit in force is charged at its end after two changes",
		"units of a day are over under a limit by the minute, though another limit has looked in "+
			"between; a request under it that was free at first is charged what it cost, as a taking "+
			"would be: nothing is in use that a charge could undo (DESIGN 12)",
		func(w endWorld) {
			for _, l := range w.limits.of(plain(limits.PerMinute(10)),
				limits.SlidingWindow(limits.PerMinute(10)), draining(limits.PerSecond(1), 10)) {
				daily, other := plain(limits.PerDay(20)), limits.SlidingLog(limits.PerHour(10))
				if !w.limits.has(daily) || !w.limits.has(other) {
					return
				}
				key := fmt.Sprint("k ", l.Algorithm())
				w.begin(key, daily, 4)
				w.begin(key, other, 0)
				w.clock.advance(2 * mins)
				b := w.begin(key, l, 0)
				w.settles(b, 3, limits.Settlement{Charged: 3})
				if left := w.look(b.charge).Remaining; left != 7 {
					w.Error(about(l, "nothing in use, then 3 charged: %d remain, want 7", left))
				}
			}
		}),
}

// stepBackCase is c for a backend whose time goes back with its clock.
func stepBackCase(c testCase) testCase {
	c.stepsBack = true
	return c
}

// takeTurns charges one key under two limits in turn for a day. Each of them also charges a key of
// its own, and must decide the same there.
func (h Harness) takeTurns(t testing.TB, random *rand.Rand, a, b limits.Limit) {
	t.Helper()
	w := h.world(t)
	pair := [2]limits.Limit{a, b}
	settles, held := backends.CanSettle(w.backend), [2][]begun{}
	end := h.alternations()
	for i := range 2 * end {
		side := i % 2
		c := backends.Charge{Scope: "s", Key: "both", Limit: pair[side],
			Cost: random.Int64N(4), Value: random.Uint64N(8)}
		if !c.Limit.Algorithm().CountsValues() && random.IntN(2) == 0 {
			c.Lasts = mins
		}
		alone := c
		alone.Key = fmt.Sprint("alone ", side)
		got, want := w.take(c)[0], w.take(alone)[0]
		if !same(c, got, want) {
			t.Error(about(c.Limit, "in turn with %s, call %d: %s, alone %s", showLimit(pair[1-side]), i,
				showDecision(got), showDecision(want)))
			return
		}
		if got.Allowed && c.Cost > 0 && settles && (c.Lasts > 0 || c.Limit.Algorithm().Holds()) {
			held[side] = append(held[side], begun{c, got}, begun{alone, want})
		}
		if ends := held[side]; len(ends) > 0 && random.IntN(2) == 0 {
			final := int64(0)
			if !c.Limit.Algorithm().Holds() {
				final = random.Int64N(5)
			}
			one, other := w.settled(ends[0], final), w.settled(ends[1], final)
			if held[side] = ends[2:]; one != other {
				t.Error(about(c.Limit, "in turn with %s, call %d ends with %d: %+v, alone %+v",
					showLimit(pair[1-side]), i, final, one, other))
				return
			}
		}
		if step := 4 * day / time.Duration(end); i%4 == 3 {
			w.clock.advance(duration(random.Int64N(step.Microseconds())))
		} else {
			w.clock.advance(duration(random.Int64N(mins.Microseconds())))
		}
	}
}

// settled ends a charge and returns its settlement.
func (w world) settled(of begun, final int64) limits.Settlement {
	w.Helper()
	out := make([]limits.Settlement, 1)
	ending := []backends.Ending{of.ending(final)}
	if err := backends.Settle(context.Background(), w.backend, ending, out); err != nil {
		w.Fatalf("Settle: %v", err)
	}
	return out[0]
}
