package limitstest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// denialCases are about calls that take nothing, under every algorithm.
var denialCases = []testCase{
	{
		name: "a denied request takes nothing",
		why:  "neither one denial nor a hundred change any state, however high the cost (DESIGN 5)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			for _, l := range h.limits.rates(limits.PerMinute(10)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l, Cost: 7}
				w.take(c)
				before := w.look(c)
				for i := range 100 {
					c.Cost = [...]int64{4, 5, 10, 11, 1_000_000_000, math.MaxInt64}[i%6]
					if d := w.take(c)[0]; d.Allowed {
						t.Fatal(about(l, "a charge of %d with 3 to have was allowed", c.Cost))
					}
				}
				w.same(about(l, "after denials"), c, before)
			}
		},
	},
	{
		name: "a cost of 0 is always allowed and takes nothing",
		why: "a look works on a fresh key, a full one and one above its maximum (DESIGN 5: n = " +
			"0 is always allowed)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			for _, l := range h.limits.rates(limits.PerMinute(10)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l, Cost: 10}
				fresh := w.look(c)
				for range 10 {
					w.same(about(l, "looking at a fresh key"), c, fresh)
				}
				full := w.take(c)[0]
				for range 10 {
					full.Delay = 0
					w.same(about(l, "looking at a full key"), c, full)
				}
			}
		},
	},
	{
		name: "a peek answers like a take and takes nothing",
		why: "a peek gives the decision of a take, and reports Remaining and ResetAfter as they are " +
			"without it (DESIGN 5, backends.Peeker)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			if !canPeek(t, w.backend) {
				return
			}
			for _, l := range h.limits.rates(limits.PerMinute(10)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l, Cost: 4}
				for _, advance := range []time.Duration{0, 0, 0, 1 * us, 13 * sec, 70 * sec} {
					w.clock.advance(advance)
					before := w.look(c)
					for _, c.Cost = range []int64{0, 1, 4, 10, 11, math.MaxInt64} {
						w.peekIsLikeTake(c, before)
					}
					w.same(about(l, "after peeks"), c, before)
					c.Cost = 4
					w.take(c)
				}
				peeked, other := c, c
				peeked.Key, other.Key = "peeked", "other"
				w.peekIsLikeTake(peeked, w.look(other))
				w.clock.advance(13 * sec)
				w.expect(about(l, "taking a while after a peek"), []backends.Charge{peeked}, w.take(other)[0])
				w.same(about(l, "after that taking"), peeked, w.look(other))
				w.clock.advance(47 * sec) // whole minutes for the next algorithm
			}
		},
	},
	{
		name: "instants are the clock's, in whole microseconds",
		why: "now is the clock rounded down to a microsecond, and Decision.At says it (DESIGN 5: time " +
			"is counted in whole microseconds)",
		run: func(t testing.TB, h Harness) {
			clock := h.clockAt(newYear)
			within := time.Duration(0)
			b := h.Open(t, func() time.Time { return clock.now().Add(within) })
			w := world{t, clock, b}
			c := []backends.Charge{{Scope: "s", Key: "k",
				Limit: draining(limits.PerSecond(1_000_000), 1), Cost: 1}}
			w.expect("the first", c, allowed(0, 1*us, 1*us))
			within = 999 * time.Nanosecond
			w.expect("999ns later", c, denied(0, 1*us, 1*us))
			within = 0
			clock.advance(1 * us)
			w.expect("1µs later", c, allowed(0, 1*us, 1*us))
			within = 999 * time.Nanosecond
			clock.advance(-1 * us)
			if h.keepsTime {
				clock.advance(1 * us)
				w.expect("1ns before that", c, denied(0, 1*us, 1*us))
				return
			}
			w.expect("1ns before that", c, denied(0, 2*us, 2*us))
		},
	},
}

// same checks that a look at c returns want, at the present instant.
func (w world) same(label string, c backends.Charge, want limits.Decision) {
	w.Helper()
	c.Cost = 0
	w.expect(label, []backends.Charge{c}, want)
}

// peekIsLikeTake checks a peek at c on a key for which a look returned look.
func (w world) peekIsLikeTake(c backends.Charge, look limits.Decision) {
	w.Helper()
	got := dirty(1)
	if err := backends.Peek(context.Background(), w.backend, []backends.Charge{c}, got); err != nil {
		w.Fatalf("Peek: %v", err)
	}
	want := look
	if c.Cost > look.Remaining {
		if got[0].RetryAfter <= 0 {
			w.Errorf("a peek that is denied has RetryAfter %v", got[0].RetryAfter)
		}
		want.Allowed, want.RetryAfter, want.EffectiveWindow = false, got[0].RetryAfter, got[0].RetryAfter
	}
	if want.Allowed && c.Cost > 0 && c.Limit.Algorithm().Delays() {
		want.Delay = look.ResetAfter // the level found has to drain first
	}
	if d := diff([]backends.Charge{c}, got, []limits.Decision{want}); d != "" {
		w.Errorf("Peek:\n%s", d)
	}
}
