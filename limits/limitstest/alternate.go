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

// alternateCases charge one key under limits that alternate, like a rule whose LimitFor depends on
// more than the key. The units in use then drain by either limit, so a key may exceed each limit
// alone. It never exceeds a bound for all limits together: docs/rules.md, "Limits that alternate",
// has it.
var alternateCases = []testCase{
	{
		name: "limits that alternate give nothing away",
		why: "under two limits that alternate a key is admitted, in any stretch of time, at most the " +
			"larger burst, what drains at both rates, the units of each fixed window and each anchored " +
			"period that begins, and a unit for rounding for each sliding window that begins; a change " +
			"that lowers a level and writes it back gives units away at every alternation (DESIGN " +
			"5, changing a limit)",
		run: func(t testing.TB, h Harness) {
			random := rand.New(rand.NewPCG(h.seed(t), 4))
			choices := slices.DeleteFunc(h.limits.of(alternating()...),
				func(l limits.Limit) bool { return !isRate(l) })
			for i, a := range choices {
				for j, b := range choices[i:] {
					w := h.world(t)
					w.clock.advance(duration(random.Int64N(day.Microseconds())))
					for _, greedy := range []bool{true, false} {
						pair := [2]limits.Limit{a, b}
						all := w.alternate(random, fmt.Sprint("pair ", i, " ", i+j, " ", greedy), pair, greedy,
							h.alternations())
						if excess := all.excess(pair); excess != "" {
							t.Error(about(a, "alternating with %s: %s", showLimit(b), excess))
						}
					}
				}
			}
		},
	},
	{
		name: "a limit that changes while it denies ends its denials within a period of the new one",
		why: "operators raise or shorten a limit because clients are being denied: the first charge " +
			"under the new one, denied too, starts its period, and others do not start it again (DESIGN " +
			"5, changing a limit)",
		run: func(t testing.TB, h Harness) {
			random := rand.New(rand.NewPCG(h.seed(t), 5))
			for _, old := range h.limits.rates(limits.PerDay(1000)) {
				for _, l := range h.limits.rates(limits.PerHour(500)) {
					w := h.world(t)
					w.clock.set(newYear.UnixMicro() + (7 * hour).Microseconds())
					charge := func(l limits.Limit) limits.Decision {
						return w.take(backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 1})[0]
					}
					w.take(backends.Charge{Scope: "s", Key: "k", Limit: old, Cost: 1000})
					w.clock.advance(1 * sec)
					most := duration(algorithmOf(l).model.untilOne(l, w.clock.micros()))
					first := charge(l)
					if first.Allowed || first.RetryAfter > most {
						t.Error(about(old, "used up and changed to %s: %s", showLimit(l), showDecision(first)))
						continue
					}
					until := w.clock.micros() + first.RetryAfter.Microseconds()
					for w.clock.micros() < until-1 {
						step := upTo(random, first.RetryAfter.Microseconds())
						w.clock.advance(duration(min(until-1-w.clock.micros(), step)))
						if d := charge(l); d.Allowed || w.clock.micros()+d.RetryAfter.Microseconds() != until {
							t.Error(about(old, "changed to %s, denied until %s, then at %s: %s", showLimit(l),
								instant(until), instant(w.clock.micros()), showDecision(d)))
						}
					}
					w.clock.advance(1 * us)
					if d := charge(l); !d.Allowed {
						t.Error(about(old, "changed to %s and denied until now: %s", showLimit(l), showDecision(d)))
					}
				}
			}
		},
	},
	{
		name: "limits that alternate lock out no key that goes on asking",
		why: "while nothing is taken, each of two limits that alternate counts from the instant of " +
			"the first change, so what one of them allows after a wait it allows then, however often the " +
			"other was asked meanwhile (DESIGN 5, changing a limit)",
		run: func(t testing.TB, h Harness) {
			for _, old := range h.limits.rates(limits.PerDay(1000)) {
				for _, l := range h.limits.rates(limits.PerHour(500)) {
					w := h.world(t)
					charge := func(l limits.Limit, cost int64) limits.Decision {
						return w.take(backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: cost})[0]
					}
					charge(old, 1000)
					wait := charge(l, 1).RetryAfter
					quarter := (wait / 4).Truncate(us)
					for range 3 {
						w.clock.advance(quarter)
						if d := charge(old, 1000); d.Allowed {
							t.Error(about(old, "used up, then asked for all: %s", showDecision(d)))
						}
						charge(l, 500)
					}
					w.clock.advance(wait - 3*quarter)
					if d := charge(l, 1); !d.Allowed {
						t.Error(about(old, "alternating with %s, which was to allow after %s: %s", showLimit(l), wait,
							showDecision(d)))
					}
				}
			}
		},
	},
	{
		name: "a smaller maximum in between hides nothing from a larger one",
		why: "1000 a day are used up, and 500 an hour, then 10 a day, deny: the key counts 10 of them " +
			"under the latter, whose state carries over to 1000 a day, but which finds all 1000; else " +
			"three limits in turn admit without end (DESIGN 5, changing a limit)",
		run: func(t testing.TB, h Harness) {
			for _, large := range h.limits.rates(limits.PerDay(1000)) {
				small := algorithmOf(large).withMaximum(large, 10)
				if !h.limits.has(small) {
					continue
				}
				for _, between := range h.limits.rates(limits.PerHour(500)) {
					w := h.world(t)
					w.clock.set(newYear.UnixMicro() + (7 * hour).Microseconds())
					charge := func(l limits.Limit, cost int64) limits.Decision {
						return w.take(backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: cost})[0]
					}
					charge(large, 1000)
					for range 2 {
						w.clock.advance(1 * sec)
						charge(between, 1)
						if d := charge(small, 1); d.Allowed {
							t.Error(about(large, "used up, then %s, then %s: %s", showLimit(between), showLimit(small),
								showDecision(d)))
						}
						if d := charge(large, 1); d.Allowed || d.Remaining != 0 {
							t.Error(about(large, "used up, then %s, then %s, and back: %s", showLimit(between),
								showLimit(small), showDecision(d)))
						}
					}
				}
			}
		},
	},
	{
		name: "a peek under another limit changes nothing",
		why: "a peek converts as of now and writes nothing, so an operator who looks under a limit to " +
			"come starts no period of it (DESIGN 5, changing a limit)",
		run: func(t testing.TB, h Harness) {
			if !canPeek(t, h.world(t).backend) {
				return
			}
			for _, old := range h.limits.rates(limits.PerDay(1000)) {
				for _, l := range h.limits.rates(limits.PerHour(500)) {
					w := h.world(t)
					peek := func(c backends.Charge) limits.Decision {
						out := make([]limits.Decision, 1)
						err := backends.Peek(context.Background(), w.backend, []backends.Charge{c}, out)
						if err != nil {
							t.Fatalf("Peek: %v", err)
						}
						return out[0]
					}
					c := backends.Charge{Scope: "s", Key: "k", Limit: old, Cost: 700}
					w.take(c)
					c.Cost = 1
					next := c
					next.Limit = l
					for range 2 {
						w.clock.advance(1 * sec)
						stands := peek(c)
						peek(next)
						if d := peek(c); d != stands {
							t.Error(about(old, "says %s; after a peek under %s %s", showDecision(stands), showLimit(l),
								showDecision(d)))
						}
					}
				}
			}
		},
	},
	{
		name: "a change of limit leaves the units in use as they are",
		why: "right after a change, a key that has used all of a limit has nothing left of one with " +
			"the same maximum or a smaller one, and of a larger one the difference; changed back, it has " +
			"nothing left (DESIGN 5, changing a limit)",
		run: func(t testing.TB, h Harness) {
			for _, a := range h.limits.rates(limits.PerHour(90)) {
				for _, most := range []int64{1, 30, 90, 100} {
					others := h.limits.rates(limits.PerHour(most))
					if l := algorithmOf(a).withMaximum(a, most); h.limits.has(l) {
						others = append(others, l)
					}
					for _, b := range others {
						w := h.world(t)
						charge := func(l limits.Limit, cost int64) limits.Decision {
							return w.take(backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: cost})[0]
						}
						charge(a, 90)
						if d := charge(b, 1); d.Allowed != (most > 90) || d.Remaining != max(0, most-91) {
							t.Error(about(a, "all taken, then 1 of %s: %s", showLimit(b), showDecision(d)))
						}
						if d := charge(a, 1); d.Allowed || d.Remaining != 0 {
							t.Error(about(a, "all taken, then %s, then 1 more: %s", showLimit(b), showDecision(d)))
						}
					}
				}
			}
		},
	},
}

func alternating() []limits.Limit {
	return limitsOf(func(a *algorithm) []limits.Limit { return a.alternating })
}

// admission is the units that a key was admitted at an instant.
type admission struct{ at, units int64 }

type admissions []admission

// alternations returns how many calls each pair of limits gets: 40; fewer across a network, where
// the pairs would make most of the calls of the suite; more in long runs.
func (h Harness) alternations() int {
	return max(min(40, max(10, h.Decisions/25)), h.Decisions/250)
}

// alternate makes calls under either limit of the pair at random. A greedy caller takes all that
// remains.
func (w world) alternate(random *rand.Rand, key string, pair [2]limits.Limit, greedy bool,
	calls int) admissions {
	w.Helper()
	var all admissions
	for range calls {
		c := backends.Charge{Scope: "s", Key: key, Limit: pair[random.IntN(2)], Cost: 1}
		if greedy {
			c.Cost = max(1, w.look(c).Remaining)
		} else {
			c.Cost = upTo(random, c.Limit.Burst())
		}
		d := w.take(c)[0]
		if d.Allowed {
			all = append(all, admission{w.clock.micros(), c.Cost})
		}
		switch random.IntN(5) {
		case 0:
		case 1:
			w.clock.advance(d.RetryAfter % (2 * day))
		case 2:
			w.clock.advance(duration(upTo(random, micros(c.Limit))))
		case 3: // to the start of the next window, or just before it
			now, p := w.clock.micros(), micros(pair[random.IntN(2)])
			w.clock.advance(duration(p - now%p - random.Int64N(2)))
		case 4:
			w.clock.advance(time.Duration(random.IntN(20)) * ms)
		}
	}
	return all
}

// excess describes a stretch of time in which too much was admitted, or returns "".
func (all admissions) excess(pair [2]limits.Limit) string {
	if len(all) == 0 {
		return "nothing was admitted"
	}
	for i := range all {
		units := int64(0)
		for j := i; j < len(all); j++ {
			units += all[j].units
			if most := bound(pair, all[i].at, all[j].at); units > most {
				return fmt.Sprintf("%d were admitted in %v, want at most %d", units,
					duration(all[j].at-all[i].at), most)
			}
		}
	}
	return ""
}

// bound returns the most that alternating limits may admit from one instant to another.
func bound(pair [2]limits.Limit, from, to int64) int64 {
	burst, drained, begun := int64(0), int64(0), int64(0)
	for _, l := range pair {
		burst = max(burst, l.Burst())
		windows, drains := algorithmOf(l).model.begun(l, from, to)
		if begun += windows; drains {
			drained += ceil(ratio(l.Rate().Units, micros(l), to-from))
		}
	}
	return burst + drained + begun
}
