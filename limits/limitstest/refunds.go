package limitstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

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
	endCase("units that came back by themselves are not returned again",
		"Returned is how many units fewer the key has in use: of 8 units at the end of a request what "+
			"has drained, faded or expired by then is free already, and no key gets it twice "+
			"(limits.Settlement)",
		func(w endWorld) {
			ban := limits.Ban(limits.PerMinute(10), hour)
			for i, test := range []struct {
				limit      limits.Limit
				late       time.Duration
				last       int64 // units of another taking, just before; 0: none
				returned   int64
				left, then int64 // remain before and after
			}{
				{limits.TokenBucket(limits.PerMinute(10), 10), 42 * sec, 0, 1, 9, 10},
				{limits.LeakyBucket(limits.PerMinute(10), 10), 45 * sec, 0, 1, 9, 10},
				{limits.LeakyQueue(limits.PerMinute(10), 10), 30 * sec, 0, 3, 7, 10},
				{limits.SlidingWindow(limits.PerMinute(10)), 90 * sec, 0, 4, 6, 10},
				{limits.SlidingWindow(limits.PerMinute(10)), 105 * sec, 2, 2, 6, 8},
				{limits.SlidingWindow(limits.PerMinute(10)), 2*mins - 1*us, 1, 0, 9, 9},
				{limits.SlidingLog(limits.PerMinute(10)), 59 * sec, 2, 8, 0, 8},
				{limits.SlidingLog(limits.PerMinute(10)), mins, 2, 0, 8, 8},
				{ban, 50 * sec, 2, 8, 0, 8},
				{ban, 10 * mins, 2, 8, 0, 10}, // lifts a ban whose period is over
			} {
				if !w.limits.has(test.limit) {
					continue
				}
				w.clock.set(newYear.Add(time.Duration(i) * day).UnixMicro())
				key := fmt.Sprint(i)
				a := w.begin(key, test.limit, 8)
				between := test.late - 1*us
				if test.limit == ban {
					between = 0
				}
				w.clock.advance(between)
				if test.last > 0 {
					w.begin(key, test.limit, test.last)
				}
				w.clock.advance(test.late - between)
				left := w.look(a.charge).Remaining
				w.settles(a, 0, limits.Settlement{Returned: test.returned})
				if then := w.look(a.charge).Remaining; left != test.left || then != test.then {
					w.Error(about(test.limit, "ended after %s: %d remain, then %d, want %d and %d", test.late,
						left, then, test.left, test.then))
				}
			}
			for i, l := range []limits.Limit{limits.FixedWindow(limits.PerMinute(10)),
				limits.AnchoredWindow(limits.PerMinute(10))} {
				if !w.limits.has(l) {
					continue
				}
				w.clock.set(newYear.Add(time.Duration(30+i) * day).UnixMicro())
				key := l.Algorithm().String()
				a, debtor := w.begin(key, l, 6), w.begin(key, l, 4)
				w.settles(debtor, 7, limits.Settlement{Charged: 3})
				w.clock.advance(mins)
				w.settles(a, 1, limits.Settlement{Returned: 3}) // of 5: what is owed of a window that is over
				if left := w.look(a.charge).Remaining; left != 10 {
					w.Error(about(l, "owing 3, 5 of which are returned: %d remain, want 10", left))
				}
			}
		}),

	endCase("a bucket returns units that have not drained, and no more",
		"a refund is worth what the key would have if it had never been taken: all of the last taking, "+
			"nothing once the bucket was empty, and at most the least level that later takings found, "+
			"which the ring of least levels remembers (DESIGN 12)",
		func(w endWorld) {
			for _, l := range []limits.Limit{limits.TokenBucket(limits.PerMinute(60), 60),
				limits.LeakyBucket(limits.PerMinute(60), 60)} {
				a := w.begin("last", l, 20)
				w.settles(a, 5, limits.Settlement{Returned: 15})
				w.is(a, allowed(55, 5*sec, 55*sec))

				drained := w.begin("drained", l, 5)
				w.clock.advance(10 * sec)
				w.begin("drained", l, 30)
				w.end(drained, 0)
				w.is(drained, allowed(30, 30*sec, 30*sec))

				busy := w.begin("busy", l, 30)
				for range 8 {
					w.clock.advance(sec)
					w.begin("busy", l, 1) // finds 29 and more, less what drains
				}
				w.settles(busy, 10, limits.Settlement{Returned: 20})
				w.is(busy, allowed(50, 10*sec, 50*sec))
				w.clock.advance(3 * hour)
			}
		}),
	endCase("a refund leaves a bucket at most 2 µs fuller",
		"levels are remembered in whole microseconds, and a unit may drain in a part of one: what is "+
			"lost by that is bounded, and no bucket is emptier than if the units had never "+
			"been taken (DESIGN 12)",
		roundedRefunds),
	endCase("a busy bucket returns nearly all unused units",
		"requests are estimated at 4,000, need 1,000, last 5 to 15 s and come four times a second: at "+
			"least 55,000 of 60,000 a minute can be used, and never more than have drained; a backend "+
			"that forgets levels lets 16,500 through (DESIGN 12)",
		func(w endWorld) {
			l := limits.TokenBucket(limits.PerMinute(60_000), 60_000)
			random := rand.New(rand.NewPCG(w.seed, 5))
			var running []ending
			const minutes = 6
			used := int64(0)
			for range minutes * 240 {
				w.clock.advance(250 * ms)
				rest := running[:0]
				for _, r := range running {
					if r.at <= w.clock.micros() {
						w.end(r.begun, 1000)
					} else {
						rest = append(rest, r)
					}
				}
				running = rest
				c := backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 4000, Lasts: 20 * sec}
				if d := w.take(c)[0]; d.Allowed {
					used += 1000
					running = append(running,
						ending{begun{c, d}, w.clock.micros() +
							(5*sec + time.Duration(random.Int64N(10_000))*ms).Microseconds()})
				}
			}
			if used < 55_000*minutes || used > 60_000*(minutes+1) {
				w.Errorf("%d a minute are used, want 55,000 to 60,000, and the burst once", used/minutes)
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

// roundedRefunds takes three times from buckets whose units drain in fractions of a microsecond,
// and returns the whole second taking.
func roundedRefunds(w endWorld) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(w.seed, 6))
	for i := range 100 {
		// all takings within one slice of time
		w.clock.set(newYear.Add(time.Duration(i) * hour).UnixMicro())
		l := limits.TokenBucket(
			limits.Per(1+random.Int64N(1000), time.Duration(1000+random.Int64N(1_000_000))*us), 100_000)
		key, exact, want := fmt.Sprint(i), NewExact(w.clock.exact), make([]limits.Decision, 1)
		var returned begun
		for j := range 3 {
			c := backends.Charge{Scope: "s", Key: key, Limit: l, Cost: 1 + random.Int64N(1000),
				Lasts: 8 * hour}
			taken := w.beginAs(c)
			if j == 1 {
				returned = taken
			} else if err := exact.Take(ctx, []backends.Charge{c}, want); err != nil {
				w.Fatal(err)
			}
			w.clock.advance(1*us + time.Duration(random.Int64N(c.Cost*micros(l)/l.Rate().Units))*us)
		}
		w.end(returned, 0)
		if err := exact.Peek(ctx, []backends.Charge{{Scope: "s", Key: key, Limit: l}}, want); err != nil {
			w.Fatal(err)
		}
		got := w.look(returned.charge).ResetAfter
		if more := got - want[0].ResetAfter; more < 0 || more > 2*us {
			w.Error(about(l, "%d returned: the bucket is empty in %s, want %s and at most 2 µs more",
				returned.charge.Cost, got, want[0].ResetAfter))
		}
	}
}

type ending struct {
	begun
	at int64
}
