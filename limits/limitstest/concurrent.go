package limitstest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmConcurrent, counted: unitsHeld, model: heldModel{},
		limit:   func(rate limits.Rate) limits.Limit { return limits.Concurrent(rate.Units) },
		typical: []limits.Limit{limits.Concurrent(20)},
		extreme: []limits.Limit{limits.Concurrent(1), limits.Concurrent(100_000)},
		random: func(random *rand.Rand, _ limits.Rate, _ int64) limits.Limit {
			return limits.Concurrent(upTo(random, 100_000))
		},
		withMaximum: func(_ limits.Limit, most int64) limits.Limit { return limits.Concurrent(most) },
		alternating: []limits.Limit{limits.Concurrent(10)},
		together: [4]limits.Decision{allowed(6, 0, limits.Never), allowed(2, 0, limits.Never),
			held(2, 1*sec), allowed(0, 0, limits.Never)},
		cases: heldCases,
	})
}

// heldRetryAfter is the RetryAfter of a denial by a concurrency limit in the model. It is a guess,
// which same does not compare.
const heldRetryAfter = 1 * sec

// hold is the units that a charge holds under a concurrency limit.
type hold struct {
	ticket
	units  int64
	end    int64  // of lent units; 0: they are held until their ending
	holder uint64 // of lent units; 0: none
}

// ended reports whether lent units have ended by themselves.
func (h hold) ended(now int64) bool { return h.end > 0 && h.end <= now }

// units returns how many units are held.
func (u usage) units() int64 {
	sum := int64(0)
	for _, h := range u.held {
		sum += h.units
	}
	return sum
}

type heldModel struct{ rates }

func (heldModel) sameCounting(limits.Limit, limits.Limit) bool { return true }
func (heldModel) stepBack(limits.Limit) int64                  { return sec.Microseconds() }
func (heldModel) inUse(u usage, _ int64) int64                 { return u.units() }

func (heldModel) freshAt(u usage) int64 {
	at := u.at
	for _, h := range u.held {
		if h.end == 0 {
			return math.MaxInt64
		}
		at = max(at, h.end)
	}
	return at
}

func (heldModel) plus(u usage, x, n int64) usage {
	return usage{limit: u.limit, at: x, held: append(slices.Clone(u.held), hold{units: n})}
}

func (heldModel) decide(u usage, c backends.Charge, _, now int64,
	taking bool) (limits.Decision, usage) {
	most := c.Limit.Burst()
	d := limits.Decision{At: now, EffectiveWindow: limits.Never}
	u.held = slices.DeleteFunc(slices.Clone(u.held), func(h hold) bool { return h.ended(now) })
	d.Allowed = c.Cost == 0 || c.Cost <= most && u.units() <= most-c.Cost
	if d.Allowed && taking && c.Cost > 0 {
		u = u.plus(now, c.Cost)
		u.lend(c, now)
	}
	d.Remaining = max(0, most-u.units())
	switch {
	case c.Cost > most:
		d.RetryAfter = limits.Never
	case !d.Allowed:
		d.RetryAfter = heldRetryAfter
	}
	return d, u
}

// lend makes the latest units of u lent ones, if c lends.
func (u usage) lend(c backends.Charge, now int64) {
	if c.Lends == 0 {
		return
	}
	end, last := now+c.Lends.Microseconds(), len(u.held)-1
	u.held[last].end, u.held[last].holder = end, c.Value
	for i := range u.held {
		if c.Value != 0 && u.held[i].holder == c.Value {
			u.held[i].end = max(u.held[i].end, end)
		}
	}
}

// takeBack takes lent units back, the latest first, and returns how many.
func (l ledger) takeBack(now int64, a account, e backends.Ending) (returned int64) {
	u := l[a]
	u.held = slices.Clone(u.held)
	for i := len(u.held) - 1; i >= 0; i-- {
		if h := &u.held[i]; h.end > 0 && h.holder == e.Value && !h.ended(now) {
			part := min(h.units, e.Taken-e.Final-returned)
			h.units, returned = h.units-part, returned+part
		}
	}
	u.held = slices.DeleteFunc(u.held, func(h hold) bool { return h.units <= 0 })
	l[a] = u
	return returned
}

// refundable is for histories, which held units do not have.
func (heldModel) refundable(usage, int, backends.Ending, int64) (least, most int64) { return 0, 0 }

// hold changes how many units a ticket holds.
func (l ledger) hold(a account, e backends.Ending, t ticket) {
	u := l[a]
	u.limit, u.held = e.Limit, append(slices.Clone(u.held), hold{ticket: t})
	i := slices.IndexFunc(u.held, func(h hold) bool { return h.ticket == t })
	u.held[i].units += e.Final - e.Taken
	u.held = slices.DeleteFunc(u.held, func(h hold) bool { return h.units <= 0 })
	l[a] = u
}

// heldCases are about concurrency limits (DESIGN 12).
var heldCases = []testCase{
	heldCase("units are held until the end, and no longer",
		"a concurrency limit of 4 allows 4 units at once and the next when one is released, however "+
			"much time passes; a cost of 0 holds nothing (DESIGN 12)",
		func(w endWorld) {
			l := limits.Concurrent(4)
			a, b := w.begin("k", l, 3), w.begin("k", l, 1)
			w.clock.advance(2 * sec)
			one := b.charge
			w.expect("one more", []backends.Charge{one}, held(0, sec))
			w.settles(w.begin("k", l, 0), 0, limits.Settlement{Returned: 0})
			more := one
			more.Cost = 5
			w.expect("more than the limit", []backends.Charge{more}, held(0, limits.Never))
			w.settles(b, 0, limits.Settlement{Returned: 1})
			w.is(a, allowed(1, 0, limits.Never))
			w.settles(a, 0, limits.Settlement{Returned: 3})
			w.is(a, allowed(4, 0, limits.Never))
			large := limits.Concurrent(100)
			many := w.begin("large", large, 64)
			w.is(many, allowed(36, 0, limits.Never))
			w.settles(many, 0, limits.Settlement{Returned: 64})
			w.is(many, allowed(100, 0, limits.Never))
		}),
	heldCase("units that another backend has allowed are held too",
		"a backend in this process holds the units of an ending that says so, whether they fit or not, "+
			"and releases them in parts; a fallback that does not know what runs allows it once more when "+
			"an outage begins (backends.Ending)",
		func(w endWorld) {
			if !backends.IsInProcess(w.backend) {
				w.Logf("not tested, since the backend is no backends.InProcess")
				return
			}
			l := limits.Concurrent(4)
			charge := func(cost int64) backends.Charge {
				return backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: cost}
			}
			own := w.begin("k", l, 3)
			for _, step := range []struct{ before, after, left int64 }{
				{0, 1, 0}, {0, 5, 0}, {4, 1, 0}, {3, 2, 0}, {1, 1, 0}, {2, 0, 1}, {0, 1, 0},
			} {
				other := begun{charge: charge(step.before)}
				w.settles(other, step.after,
					limits.Settlement{Returned: max(0, step.before-step.after),
						Charged: max(0, step.after-step.before)})
				w.is(other, allowed(step.left, 0, limits.Never))
				if step.left == 0 {
					w.expect("one more", []backends.Charge{charge(1)}, held(0, sec))
				}
			}
			w.settles(own, 0, limits.Settlement{Returned: 3})
			w.is(own, allowed(3, 0, limits.Never))
		}),
	heldCase("held units count under every limit",
		"a limit lowered below what is held denies until enough is released, and one that is raised "+
			"allows the difference (DESIGN 12)",
		func(w endWorld) {
			var all []begun
			for range 5 {
				all = append(all, w.begin("k", limits.Concurrent(5), 1))
			}
			under3 := []backends.Charge{{Scope: "s", Key: "k", Limit: limits.Concurrent(3), Cost: 1}}
			w.expect("under 3", under3, held(0, sec))
			w.is(begun{charge: backends.Charge{Scope: "s", Key: "k", Limit: limits.Concurrent(8)}},
				allowed(3, 0, limits.Never))
			for i, b := range all[:3] {
				w.settles(b, 0, limits.Settlement{Returned: 1})
				w.is(begun{charge: backends.Charge{Scope: "s", Key: "k", Limit: limits.Concurrent(3)}},
					allowed(max(0, int64(i)-1), 0, limits.Never))
			}
		}),
	heldCase("concurrency and rates are taken together or not at all",
		"a request that is denied for concurrency has cost no rate, and one that is denied by the rate "+
			"holds nothing; LiteLLM burned the rate of refused requests (DESIGN 12)",
		func(w endWorld) {
			rate, busy := limits.FixedWindow(limits.PerHour(3)), limits.Concurrent(2)
			both := []backends.Charge{{Scope: "busy", Key: "k", Limit: busy, Cost: 1}, {Scope: "rate",
				Key: "k", Limit: rate, Cost: 1, Lasts: sec}}
			var first []limits.Decision
			for i := range 2 {
				d := w.take(both...)
				if i == 0 {
					first = d
				}
			}
			w.expect("a third at once", both, held(0, sec), allowed(1, hour, hour))
			w.settles(begun{both[0], first[0]}, 0, limits.Settlement{Returned: 1})
			again := w.take(both...)
			if !again[0].Allowed || !again[1].Allowed {
				w.Errorf("after one has ended: %s and %s", showDecision(again[0]), showDecision(again[1]))
			}
			w.settles(begun{both[0], again[0]}, 0, limits.Settlement{Returned: 1})
			w.expect("a fourth", both, allowed(1, 0, limits.Never), denied(0, hour, hour))
			w.is(begun{charge: both[0]}, allowed(1, 0, limits.Never))
		}),
	heldCase("each charge of a request releases its own units",
		"two charges on one key in one call, and shadows, are held and released each for "+
			"itself (backends.Settler)",
		func(w endWorld) {
			l := limits.Concurrent(10)
			group := []backends.Charge{
				{Scope: "s", Key: "k", Limit: l, Cost: 1},
				{Scope: "s", Key: "k", Limit: l, Cost: 2},
				{Scope: "s", Key: "k", Limit: l, Cost: 4, Shadow: true},
			}
			d := w.take(group...)
			for i, left := range []int64{4, 6, 10} {
				w.settles(begun{group[i], d[i]}, 0, limits.Settlement{Returned: group[i].Cost})
				w.is(begun{charge: group[0]}, allowed(left, 0, limits.Never))
			}
		}),
	heldCase("a look holds nothing, and a reset releases nothing",
		"Peek says what Take would and holds nothing; Reset leaves what is held; Count counts a key "+
			"once while something is held (DESIGN 12)",
		func(w endWorld) {
			ctx, l := context.Background(), limits.Concurrent(3)
			a := w.begin("k", l, 2)
			if canPeek(w, w.backend) {
				for _, cost := range []int64{1, 2} {
					out := dirty(1)
					c := backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: cost}
					want := held(1, sec)
					if cost == 1 {
						want = allowed(1, 0, limits.Never)
					}
					want.At = w.clock.micros()
					if err := backends.Peek(ctx, w.backend, []backends.Charge{c}, out); err != nil ||
						!same(c, out[0], want) {
						w.Errorf("Peek of %d: %s, %v, want %s", cost, showDecision(out[0]), err, showDecision(want))
					}
				}
			}
			if canReset(w, w.backend) {
				if err := backends.Reset(ctx, w.backend, "s", "k"); err != nil {
					w.Fatal(err)
				}
				w.is(a, allowed(1, 0, limits.Never))
			}
			if canCount(w, w.backend) {
				w.counts(1)
				w.settles(a, 0, limits.Settlement{Returned: 2})
				w.counts(0)
			}
		}),
	heldCase("never more than the limit is held by many callers at once",
		"64 callers start and end requests: at no time do they hold more than the limit, and when all "+
			"have ended nothing is held (DESIGN 1: exact under any concurrency)",
		func(w endWorld) {
			const most = 20
			l := limits.Concurrent(most)
			var now, peak, allowed atomic.Int64
			w.concurrently(func(i int) {
				var open []begun
				end := func(b begun) {
					now.Add(-b.charge.Cost)
					w.end(b, 0)
				}
				for j := range 40 {
					if len(open) == 2 {
						end(open[0])
						open = open[1:]
					}
					c := backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: int64(1 + (i+j)%3)}
					d := w.try(c)[0]
					if !d.Allowed {
						continue
					}
					allowed.Add(1)
					n := now.Add(c.Cost)
					for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
					}
					open = append(open, begun{c, d})
				}
				for _, b := range open {
					end(b)
				}
			})
			if peak.Load() > most || allowed.Load() == 0 {
				w.Errorf("up to %d of %d are held at once, in %d requests", peak.Load(), most, allowed.Load())
			}
			look := w.look(backends.Charge{Scope: "s", Key: "k", Limit: l})
			if look.Remaining != most {
				w.Errorf("%d of %d remain when all have ended", look.Remaining, most)
			}
		}),
}

// counts checks the result of Count.
func (w endWorld) counts(want int) {
	w.Helper()
	if n, err := backends.Count(context.Background(), w.backend); err != nil || n != want {
		w.Errorf("Count says %d, %v, want %d", n, err, want)
	}
}

// heldCase is an endCase for backends that decide concurrency limits.
func heldCase(name, why string, run func(w endWorld)) testCase {
	return endCase(name, why, func(w endWorld) {
		if w.limits.has(limits.Concurrent(1)) {
			run(w)
		}
	})
}
