package limitstest

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// The token bucket, the leaky bucket and the leaky queue have one model.

func init() {
	for _, one := range []struct {
		id               limits.Algorithm
		new              func(limits.Rate, int64) limits.Limit
		typical, extreme []limits.Limit
		alternating      []limits.Limit
		scenes           []scene
		illegal          map[string]limits.Limit
	}{
		{
			id: limits.AlgorithmTokenBucket, new: limits.TokenBucket,
			typical: []limits.Limit{
				limits.TokenBucket(limits.PerSecond(10), 20),
				limits.TokenBucket(limits.PerMinute(100), 20),
				limits.TokenBucket(limits.PerHour(5000), 100),
			},
			extreme: []limits.Limit{
				limits.TokenBucket(limits.Per(1_000_000_000, 1*ms), 1_000_000_000),
				limits.TokenBucket(limits.Per(1_000_000_000, 366*day), 1_000_000_000),
				limits.TokenBucket(limits.Per(1, 3_155_760*us), 1_000_000_000),
				limits.TokenBucket(limits.Per(1, 8766*hour), 100),
			},
			alternating: []limits.Limit{
				limits.TokenBucket(limits.PerSecond(100), 100),
				limits.TokenBucket(limits.PerSecond(100), 10),
			},
			// fresh in 120ms
			scenes: []scene{{limits.TokenBucket(limits.PerSecond(500), 64), 0, []earlier{{cost: 60}}}},
			illegal: map[string]limits.Limit{
				"no burst": limits.TokenBucket(limits.PerMinute(1), 0),
			},
		},
		{
			id: limits.AlgorithmLeakyBucket, new: limits.LeakyBucket,
			typical: []limits.Limit{limits.LeakyBucket(limits.PerSecond(100), 10)},
			extreme: []limits.Limit{
				limits.LeakyBucket(limits.Per(1, 366*day), 1),
				limits.LeakyBucket(limits.Per(7, 3*ms), 10),
			},
			alternating: []limits.Limit{limits.LeakyBucket(limits.Per(7, 3*sec), 20)},
			illegal: map[string]limits.Limit{
				"a burst too large": limits.LeakyBucket(limits.PerSecond(1_000_000_000), 1_000_000_001),
			},
		},
		{
			id: limits.AlgorithmLeakyQueue, new: limits.LeakyQueue,
			typical: []limits.Limit{limits.LeakyQueue(limits.PerSecond(5), 10)},
			extreme: []limits.Limit{
				limits.LeakyQueue(limits.Per(999_999_937, 86_399_999_999*us), 1_000_000_000),
				limits.LeakyQueue(limits.Per(1_000_000_000, 31_622_399_999_999*us), 999_999_999),
				limits.LeakyQueue(limits.Per(3, 1*ms), 1),
			},
			alternating: []limits.Limit{limits.LeakyQueue(limits.PerMinute(30), 4)},
			scenes:      []scene{{limits.LeakyQueue(limits.Per(7, 13*ms), 40), 0, []earlier{{cost: 38}}}},
			illegal: map[string]limits.Limit{
				"a fill of over 100 years": limits.LeakyQueue(limits.Per(1, 8766*hour+1*us), 100),
			},
		},
	} {
		a := algorithm{
			id: one.id, model: bucketModel{}, drains: true,
			typical: one.typical, extreme: one.extreme, illegal: one.illegal,
			alternating: one.alternating, scenes: one.scenes,
			limit: func(rate limits.Rate) limits.Limit { return one.new(rate, rate.Units) },
			random: func(_ *rand.Rand, rate limits.Rate, burst int64) limits.Limit {
				return one.new(rate, burst)
			},
			withMaximum: func(l limits.Limit, most int64) limits.Limit { return one.new(l.Rate(), most) },
			changed: func(_ *rand.Rand, _ limits.Limit, rate limits.Rate, most int64) limits.Limit {
				return one.new(rate, most)
			},
			together: [4]limits.Decision{allowed(6, 24*sec, 36*sec), allowed(2, 48*sec, 12*sec),
				denied(2, 12*sec, 48*sec), allowed(0, 60*sec, 6*sec)},
		}
		if a.id.Delays() {
			a.model = queueModel{}
			a.together[1].Delay, a.together[3].Delay = 24*sec, 48*sec
		}
		if a.id == limits.AlgorithmTokenBucket {
			a.cases = bucketCases
		}
		register(a)
	}
}

// draining returns a limit for cases in which units must drain.
func draining(rate limits.Rate, burst int64) limits.Limit { return limits.TokenBucket(rate, burst) }

type bucketModel struct{ rates }

func (bucketModel) fresh(l limits.Limit, now int64) usage {
	return usage{limit: l, at: now, level: new(big.Rat)}
}

func (bucketModel) inUse(u usage, x int64) int64 { return ceil(u.levelAt(x)) }
func (bucketModel) freshAt(u usage) int64        { return u.at + u.drainTime(u.level) }

func (bucketModel) plus(u usage, x, n int64) usage {
	return usage{limit: u.limit, at: x,
		level: new(big.Rat).Add(u.levelAt(x), new(big.Rat).SetInt64(n))}
}

func (bucketModel) wait(u usage, x, n int64) int64 {
	tooMuch := new(big.Rat).Add(u.levelAt(x), new(big.Rat).SetInt64(n-u.limit.Burst()))
	return u.drainTime(tooMuch)
}

func (bucketModel) sameCounting(a, b limits.Limit) bool {
	return big.NewRat(a.Rate().Units, micros(a)).Cmp(big.NewRat(b.Rate().Units, micros(b))) == 0
}

func (bucketModel) stepBack(limits.Limit) int64 { return sec.Microseconds() }

func (bucketModel) rebased(u usage, now int64) usage {
	u.at = now
	return u
}

// again returns fractions of units, too.
func (bucketModel) again(u usage, e event) usage {
	return usage{limit: e.limit, at: e.at, level: new(big.Rat).Add(u.levelAt(e.at), e.units)}
}

// mayOwe leaves out what drains in more than 100 years.
func (bucketModel) mayOwe(u usage, x int64) int64 {
	century := ratio(u.limit.Rate().Units, micros(u.limit), 36_525*day.Microseconds())
	limit := new(big.Rat).SetInt64(2 * u.limit.Burst())
	if century.Cmp(limit) < 0 {
		limit = century
	}
	return max(0, floor(limit.Sub(limit, u.levelAt(x))))
}

func (bucketModel) refundable(u usage, i int, e backends.Ending, _ int64) (least, most int64) {
	n := e.Taken - e.Final
	if taken := u.events[i]; taken.at == u.at && len(u.events) == i+1 && !taken.edited {
		return n, n
	}
	return 0, n
}

type queueModel struct{ bucketModel }

func (m queueModel) refundable(u usage, i int, e backends.Ending, x int64) (least, most int64) {
	call := u.events[i].call
	behind := func(e event) bool { return !e.extra && e.call != call && e.units.Sign() > 0 }
	if slices.ContainsFunc(u.events[i+1:], behind) {
		return 0, 0 // they have been told when their turn is
	}
	return m.bucketModel.refundable(u, i, e, x)
}

// levelAt returns the level of a bucket at instant x.
func (u usage) levelAt(x int64) *big.Rat {
	drained := ratio(u.limit.Rate().Units, micros(u.limit), x-u.at)
	level := new(big.Rat).Sub(u.level, drained)
	if level.Sign() < 0 {
		return new(big.Rat)
	}
	return level
}

// drainTime returns the microseconds in which units drain from a bucket.
func (u usage) drainTime(units *big.Rat) int64 {
	perUnit := big.NewRat(micros(u.limit), u.limit.Rate().Units)
	return ceil(perUnit.Mul(perUnit, units))
}

var bucketCases = []testCase{
	{
		name: "a bucket balances while the clock moves",
		why: "callers read the clock and arrive late, and the units admitted are exactly those that " +
			"have drained and those in use; a bucket that takes late instants as they come drains the " +
			"same time twice (DESIGN 5, a clock that steps back)",
		run: func(t testing.TB, h Harness) {
			// less than a second in all: a caller that is later than that has a clock that stepped back
			const rounds = 12
			for i, l := range h.limits.of(
				limits.TokenBucket(limits.PerSecond(100), 100),
				limits.LeakyBucket(limits.PerSecond(100), 100),
				limits.LeakyQueue(limits.PerSecond(100), 100),
			) {
				w := h.lateWorld(t)
				c := backends.Charge{Scope: fmt.Sprint(i), Key: "k", Limit: l, Cost: 100}
				w.take(c) // it is never empty from now on: callers ask for ten times what drains
				c.Cost = 1
				var admitted atomic.Int64
				w.concurrently(func(int) {
					for range rounds {
						w.clock.advance(1 * ms)
						if w.try(c)[0].Allowed {
							admitted.Add(1)
						}
					}
				})
				passed := goroutines * rounds * ms
				inUse := w.look(c).ResetAfter // at 10ms for each unit
				if got := 100*10*ms + time.Duration(admitted.Load())*10*ms; got != passed+inUse {
					t.Error(about(l, "%d were admitted in %s, and it takes %s to drain what is in use: they "+
						"differ by %s", admitted.Load(), passed, inUse, got-passed-inUse))
				}
			}
		},
	},
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
