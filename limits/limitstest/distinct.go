package limitstest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmDistinct, counted: distinctValues, model: distinctModel{},
		limit: limits.Distinct,
		typical: []limits.Limit{
			limits.Distinct(limits.Per(5, 10*mins)),
			limits.Distinct(limits.PerDay(10)),
		},
		extreme: []limits.Limit{
			limits.Distinct(limits.Per(1000, 366*day)),
			limits.Distinct(limits.Per(1000, 1*ms)),
			limits.Distinct(limits.Per(1, 1001*us)),
		},
		random: func(random *rand.Rand, rate limits.Rate, _ int64) limits.Limit {
			return limits.Distinct(limits.Per(upTo(random, 1000), rate.Period))
		},
		withMaximum: func(l limits.Limit, most int64) limits.Limit {
			return limits.Distinct(limits.Per(most, l.Rate().Period))
		},
		changed: func(_ *rand.Rand, _ limits.Limit, rate limits.Rate, most int64) limits.Limit {
			return limits.Distinct(limits.Per(most, rate.Period))
		},
		alternating: []limits.Limit{limits.Distinct(limits.Per(5, 7*sec))},
		together: [4]limits.Decision{allowed(9, 60*sec, 54*sec), allowed(9, 60*sec, 54*sec),
			allowed(9, 60*sec, 54*sec), allowed(9, 60*sec, 54*sec)},
		cases: valueCases,
	})
}

// distinctModel is a log with one unit for each value.
type distinctModel struct{ logModel }

func (distinctModel) sameCounting(limits.Limit, limits.Limit) bool { return true }

func (distinctModel) under(u usage, l limits.Limit, x int64) usage { return u.values(l, x) }

// rebased keeps every value.
func (distinctModel) rebased(u usage, now int64) usage {
	back := fresh(u.limit, now)
	for _, t := range u.values(u.limit, u.at).takings {
		back.takings = append(back.takings, taking{at: now, units: 1, value: t.value})
	}
	return back
}

func (distinctModel) decide(u usage, c backends.Charge, x, now int64,
	taking bool) (limits.Decision, usage) {
	most, step := c.Limit.Burst(), x-now
	d := limits.Decision{At: now, Allowed: c.Cost == 0 || u.has(c.Value, x) || u.inUse(x) < most}
	after := u
	if d.Allowed && taking && c.Cost > 0 {
		after = u.having(c.Value, x)
	}
	d.Remaining = max(0, most-after.inUse(x))
	if freshAt := after.freshAt(); freshAt > x {
		d.ResetAfter = duration(freshAt - now)
	}
	switch {
	case !d.Allowed:
		d.RetryAfter = duration(step + u.wait(x, 1))
		d.EffectiveWindow = d.RetryAfter
	case d.Remaining == 0:
		d.EffectiveWindow = duration(step + after.wait(x, 1))
	default:
		d.EffectiveWindow = duration(ceil(ratio(d.Remaining, c.Limit.Rate().Units, micros(c.Limit))))
	}
	return d, after
}

// forget takes out the value that was new for the charge t, and returns how many values fewer are
// in use.
func (l ledger) forget(now int64, a account, e backends.Ending, t ticket) int64 {
	u := l[a]
	after := u.values(u.limit, max(now, u.at))
	count := len(after.takings)
	after.takings = slices.DeleteFunc(after.takings,
		func(v taking) bool { return v.value == e.Value && v.first == t })
	if len(after.takings) == count {
		return 0
	}
	if after.at = now; len(after.takings) > 0 {
		after.at = after.takings[len(after.takings)-1].at
	}
	l[a] = after
	return 1
}

// values returns u, of a limit that counts values, under l. It drops the values that have left at x
// under either limit.
func (u usage) values(l limits.Limit, x int64) usage {
	after := usage{limit: l, at: u.at}
	for _, t := range u.takings {
		if x < t.at+min(micros(u.limit), micros(l)) {
			after.takings = append(after.takings, t)
		}
	}
	return after
}

// having returns u after an allowed request with a value at x.
func (u usage) having(value uint64, x int64) usage {
	after := usage{limit: u.limit, at: x}
	for _, t := range u.values(u.limit, x).takings {
		if t.value != value {
			after.takings = append(after.takings, t)
		}
	}
	after.takings = append(after.takings, taking{at: x, units: 1, value: value})
	return after
}

// has reports whether u counts a value at x.
func (u usage) has(value uint64, x int64) bool {
	for _, t := range u.values(u.limit, x).takings {
		if t.value == value {
			return true
		}
	}
	return false
}

// valueCases test limits on different values (DESIGN 5, the table of algorithms).
var valueCases = []testCase{
	{
		name: "a value that keeps being used keeps its place",
		why: "two values stay as long as each comes once a period, however often a third one tries to " +
			"get in (DESIGN 5: a client that keeps using two values is not locked out)",
		run: func(t testing.TB, h Harness) {
			w := h.distinctWorld(t, limits.Per(2, 10*sec), ways[0])
			for i := range 50 {
				for _, value := range []string{"ann", "bob"} {
					if d := w.take(w.charge(value, 1)...)[0]; !d.Allowed {
						t.Fatalf("round %d: %s was denied: %s", i, value, showDecision(d))
					}
				}
				w.clock.advance(10*sec - 1*us)
				if d := w.take(w.charge("eve", 1)...)[0]; d.Allowed || d.RetryAfter != 1*us {
					t.Fatalf("round %d: a third value: %s", i, showDecision(d))
				}
			}
		},
	},
	{
		name: "a denied request leaves no value and prolongs none",
		why: "only allowed requests keep a value: a request that another rule denies takes no unit and " +
			"keeps no value longer, whether its charge is before the other rule or behind it, and neither " +
			"does a peek (DESIGN 5: denied requests take nothing)",
		run: func(t testing.TB, h Harness) {
			w := h.distinctWorld(t, limits.Per(2, 10*sec), ways[0])
			full := backends.Charge{Scope: "full", Key: "k",
				Limit: limits.FixedWindow(limits.PerHour(1)), Cost: 1}
			if !h.limits.has(full.Limit) {
				t.SkipNow()
			}
			w.take(full)
			w.is("ann", "ann", 1, allowed(1, 10*sec, 5*sec))
			w.clock.advance(4 * sec)
			for _, value := range []string{"ann", "bob"} {
				c := w.charge(value, 1)[0]
				fits, isFull := allowed(1, 6*sec, 5*sec), denied(0, hour-4*sec, hour-4*sec)
				w.expect(value+" in front", []backends.Charge{c, full}, fits, isFull)
				w.expect(value+" behind", []backends.Charge{full, c}, isFull, fits)
				if canPeek(t, w.backend) {
					out := dirty(1)
					err := backends.Peek(context.Background(), w.backend, []backends.Charge{c}, out)
					if err != nil || !out[0].Allowed || out[0].Remaining != 1 {
						t.Errorf("a peek at %s: %s, %v", value, showDecision(out[0]), err)
					}
				}
			}
			w.is("a look", "", 0, allowed(1, 6*sec, 5*sec))
			w.clock.advance(6 * sec)
			w.is("once ann has left", "", 0, allowed(2, 0, 10*sec))
		},
	},
	{
		name: "a thousand values are exact",
		why: "the largest legal limit counts each of a thousand values, knows each again, and admits a " +
			"new one when the oldest leaves, and not a microsecond earlier (DESIGN 5, legal limits)",
		run: func(t testing.TB, h Harness) {
			w := h.distinctWorld(t, limits.Per(1000, hour), ways[0])
			for i := range 1000 {
				if d := w.take(w.charge(fmt.Sprint(i), 1)...)[0]; !d.Allowed || d.Remaining != int64(999-i) {
					t.Fatalf("value %d: %s", i, showDecision(d))
				}
				w.clock.advance(1 * ms)
			}
			w.is("one more", "new", 1, denied(0, hour-1*sec, hour-1*ms))
			for i := 0; i < 1000; i += 37 {
				if d := w.take(w.charge(fmt.Sprint(i), 1)...)[0]; !d.Allowed || d.Remaining != 0 {
					t.Fatalf("value %d again: %s", i, showDecision(d))
				}
			}
			w.clock.advance(hour - 1*sec)
			w.is("when the oldest would have left", "new", 1, denied(0, 1*ms, 1*sec))
			w.clock.advance(1*ms - 1*us)
			w.is("1µs before the second leaves", "new", 1, denied(0, 1*us, 999*ms+1*us))
			w.clock.advance(1 * us)
			w.is("when it leaves", "new", 1, allowed(0, hour, 1*ms))
		},
	},
	{
		name: "values are those of their key",
		why: "a value of one key or scope is new to another; values that look alike are different, and " +
			"0 is a value (backends.Charge)",
		run: func(t testing.TB, h Harness) {
			w := h.distinctWorld(t, limits.Per(200, hour), ways[0])
			for i, p := range trickyPairs()[:100] {
				c := backends.Charge{Scope: p.scope, Key: p.key, Limit: w.limit, Cost: 1, Value: 1}
				w.expect("the first of "+shorten(p.scope+p.key), []backends.Charge{c},
					allowed(199, hour, 3582*sec))
				c = w.charge("", 1)[0]
				c.Value = uint64(i%10)<<60 + uint64(i/10)
				if d := w.take(c)[0]; d.Remaining != int64(199-i) {
					t.Fatalf("value %x is not new: %s", c.Value, showDecision(d))
				}
			}
		},
	},
	{
		name: "no more values are admitted than the limit by those who ask at once",
		why: "many callers come at once with different values, and each value that got in gets in " +
			"again (DESIGN 1: exact under any concurrency)",
		run: func(t testing.TB, h Harness) {
			w := h.distinctWorld(t, limits.Per(20, hour), ways[0])
			var mu sync.Mutex
			admitted := map[string]bool{}
			w.concurrently(func(caller int) {
				for i := range 40 {
					value := fmt.Sprint((caller*7 + i) % 60)
					d := w.try(w.charge(value, 1)...)[0]
					mu.Lock()
					if admitted[value] && !d.Allowed {
						t.Errorf("%s was admitted, and is then denied: %s", value, showDecision(d))
					}
					admitted[value] = admitted[value] || d.Allowed
					mu.Unlock()
				}
			})
			n := int64(0)
			for _, ok := range admitted {
				if ok {
					n++
				}
			}
			w.admitted(w.limit, n, 20)
		},
	},
	{
		name: "two values of one key in a group are an error",
		why:  "a key is charged with one value at a time, as by one limit (backends.Backend)",
		run: func(t testing.TB, h Harness) {
			w := h.distinctWorld(t, limits.Per(2, hour), ways[0])
			two := append(w.charge("ann", 1), w.charge("bob", 1)...)
			if err := w.backend.Take(context.Background(), two, dirty(2)); err == nil {
				t.Error("no error")
			}
			w.is("a look", "", 0, allowed(2, 0, hour))
		},
	},
	{
		name: "a flood of new keys gives no key a new value",
		why: "ten times as many new keys as the store has room for give no other value to a key that " +
			"has no units left (DESIGN 1: bounded)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := h.distinctWorld(t, limits.Per(5, hour), ways[0])
			for _, maxKeys := range []int{1, 2, 7, 64} {
				w.backend = h.OpenSmall(t, w.clock.now, maxKeys)
				for i := range 5 {
					w.take(w.charge(fmt.Sprint(i), 1)...)
				}
				for i := range 10 * maxKeys {
					for value := range 5 {
						c := w.charge(fmt.Sprint(value), 1)
						c[0].Key = fmt.Sprint("flood ", i)
						w.take(c...)
					}
					if d := w.take(w.charge("new", 1)...)[0]; d.Allowed {
						t.Fatalf("with room for %d keys, after %d new ones: %s",
							maxKeys, i+1, showDecision(d))
					}
				}
				w.clock.advance(2 * hour)
			}
		},
	},
	{
		name: "random values are decided as by the definitions",
		why: "for random limits of few values, instants and changes of limits every field of every " +
			"decision equals that of the model (DESIGN 5)",
		run: func(t testing.TB, h Harness) {
			if !h.limits.has(limits.Distinct(limits.PerHour(1))) {
				return
			}
			seed := h.seed(t)
			for i := range max(2, h.Decisions/2/scriptLength) {
				s := style{charges: 1 + i%4, change: 10, back: 12 * (i % 2), peek: 8, reset: 60, values: true}
				h.improvise(t, s, scriptLength, rand.New(rand.NewPCG(seed, uint64(i))))
				if t.Failed() {
					return
				}
			}
		},
	},
	stepBackCase(testCase{
		name: "a smaller number in between forgets no value when the clock steps far back",
		why: "8 of 10 values are known when the number becomes 2 and the clock steps back; once it is " +
			"10 again, 2 are left (DESIGN 5, a clock that steps back)",
		run: func(t testing.TB, h Harness) {
			w := h.distinctWorld(t, limits.Per(10, mins), ways[0])
			w.clock.advance(10 * day)
			for i := range 8 {
				w.take(w.charge(fmt.Sprint(i), 1)...)
			}
			w.limit = limits.Distinct(limits.Per(2, mins))
			w.is("a known one under 2", "7", 1, allowed(0, mins, mins))
			w.clock.advance(-day)
			w.is("a new one under 2 after the step", "new", 1, denied(0, mins, mins))
			w.limit = limits.Distinct(limits.Per(10, mins))
			w.is("a look under 10", "new", 0, allowed(2, mins, 12*sec))
			w.is("the oldest", "0", 1, allowed(2, mins, 12*sec))
		},
	}),
	endCase("a charge that cost nothing in the end leaves no new value",
		"the end of the first request with a value forgets it, unless others have had it since; a "+
			"request costs one value at most, so the rest is forgiven (DESIGN 12)",
		func(w endWorld) {
			l := limits.Distinct(limits.PerHour(3))
			if !w.limits.has(l) {
				return
			}
			of := func(value string) begun {
				return w.beginAs(backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 1,
					Value: valueOf(value)})
			}
			ann := of("ann")
			w.clock.advance(1 * sec)
			bob := of("bob")
			w.clock.advance(1 * sec)
			w.settles(bob, 5, limits.Settlement{Forgiven: 4})
			w.settles(bob, 0, limits.Settlement{Returned: 1})
			w.is(bob, allowed(2, hour-2*sec, 40*mins))
			again := of("ann")
			w.settles(ann, 0, limits.Settlement{})
			w.settles(again, 0, limits.Settlement{})
			w.is(bob, allowed(2, hour, 40*mins))
		}),
}

// distinctWorld is a world whose requests charge one key with values.
type distinctWorld struct {
	world
	limit, plenty limits.Limit
	way           way
}

// distinctWorld returns a new world. It skips the case if the backend does not support the limit.
func (h Harness) distinctWorld(t testing.TB, rate limits.Rate, way way) *distinctWorld {
	t.Helper()
	limit := limits.Distinct(rate)
	if !h.limits.has(limit) {
		t.SkipNow()
	}
	return &distinctWorld{h.world(t), limit, h.limits.plenty(), way}
}

func (w *distinctWorld) charge(value string, cost int64) []backends.Charge {
	return []backends.Charge{{Scope: "distinct", Key: "k", Limit: w.limit, Cost: cost,
		Value: valueOf(value)}}
}

// valueOf returns the number of a value. That of "" is 0.
func valueOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64() - fnv.New64a().Sum64()
}

// is checks the decision on a request with a value.
func (w *distinctWorld) is(what, value string, cost int64, want limits.Decision) {
	w.Helper()
	charges := w.way.charges(w.charge(value, cost)[0], w.plenty)
	got := w.take(charges...)
	want.At = w.clock.micros()
	if d := diff(charges[:1], got[:1], []limits.Decision{want}); d != "" {
		w.Errorf("%s, charged %s:\n%s", what, w.way.name, d)
	}
}

// randomDistinct returns a limit of few values with one of three periods.
func randomDistinct(random *rand.Rand) limits.Limit {
	period := [...]time.Duration{900 * ms, 5 * sec, hour}[random.IntN(3)]
	return limits.Distinct(limits.Per(1+random.Int64N(6), period))
}
