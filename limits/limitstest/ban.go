package limitstest

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmBan, counted: unitsOfBans, model: banModel{},
		limit:   func(rate limits.Rate) limits.Limit { return limits.Ban(rate, hour) },
		typical: []limits.Limit{limits.Ban(limits.Per(10, 10*mins), hour)},
		extreme: []limits.Limit{
			limits.Ban(limits.Per(1_000_000_000, 366*day), 1*ms),
			limits.Ban(limits.Per(1, 1*ms), 366*day),
			limits.Ban(limits.Per(7, 1001*us), 1003*us),
		},
		random: func(random *rand.Rand, rate limits.Rate, _ int64) limits.Limit {
			return limits.Ban(rate, duration(999+upTo(random, (366*day).Microseconds()-999)))
		},
		withMaximum: func(l limits.Limit, most int64) limits.Limit {
			return limits.Ban(limits.Per(most, l.Rate().Period), l.Lasting())
		},
		changed: func(random *rand.Rand, l limits.Limit, rate limits.Rate, most int64) limits.Limit {
			if random.IntN(2) == 0 {
				rate = limits.Per(most, l.Rate().Period)
			}
			return limits.Ban(rate, l.Lasting())
		},
		alternating: []limits.Limit{limits.Ban(limits.Per(10, 5*sec), 7*sec)},
		together: [4]limits.Decision{allowed(6, 60*sec, 60*sec), allowed(2, 60*sec, 60*sec),
			allowed(2, 60*sec, 60*sec), allowed(0, hour, hour)},
		cases: banCases,
	})
}

type banModel struct{ rates }

func (banModel) sameCounting(limits.Limit, limits.Limit) bool { return true }

func (banModel) inUse(u usage, x int64) int64 {
	if u.isOver(x) {
		return 0
	}
	return u.curr
}

// isOver reports whether the period of u, or its ban, has ended at instant x.
func (u usage) isOver(x int64) bool {
	if u.until != 0 {
		return x >= u.until
	}
	return x >= u.at+micros(u.limit)
}

func (banModel) freshAt(u usage) int64 {
	switch {
	case u.until != 0:
		return u.until
	case u.curr > 0:
		return u.at + micros(u.limit)
	}
	return u.at
}

func (banModel) plus(u usage, x, n int64) usage {
	after := usage{limit: u.limit, at: x}
	if !u.isOver(x) && u.curr > 0 {
		after.at, after.curr, after.until = u.at, u.curr, u.until
	}
	after.curr += min(n, math.MaxInt64-after.curr)
	if after.until == 0 && after.curr >= u.limit.Burst() {
		after.until = x + u.limit.Lasting().Microseconds()
	}
	return after
}

// decide denies a banned key at any cost, and allows another one.
func (banModel) decide(u usage, c backends.Charge, x, now int64,
	taking bool) (limits.Decision, usage) {
	d := limits.Decision{At: now, Allowed: u.until == 0}
	if d.Allowed && taking && c.Cost > 0 {
		u = u.plus(x, c.Cost)
	}
	if u.until == 0 {
		d.Remaining = max(0, c.Limit.Burst()-u.curr)
	}
	if u.curr > 0 {
		d.ResetAfter = duration(u.freshAt() - now)
	}
	switch {
	case !d.Allowed:
		d.RetryAfter, d.EffectiveWindow = d.ResetAfter, d.ResetAfter
	case u.curr > 0:
		d.EffectiveWindow = d.ResetAfter
	default:
		d.EffectiveWindow = c.Limit.Rate().Period
	}
	return d, u
}

func (banModel) rebased(u usage, now int64) usage {
	u.at = now
	if u.until != 0 {
		u.until = now + u.limit.Lasting().Microseconds()
	}
	return u
}

func (banModel) mayOwe(u usage, _ int64) int64 {
	if u.until != 0 {
		return 0
	}
	return max(0, 2*u.limit.Burst()-u.curr)
}

// refundable is in doubt of more units than a backend need count.
func (banModel) refundable(u usage, _ int, e backends.Ending, _ int64) (least, most int64) {
	n := e.Taken - e.Final
	if u.curr >= math.MaxUint32 {
		return 0, n
	}
	return n, n
}

// returned takes units out of the period, and does not repeat what happened since.
func (banModel) returned(u usage, i int, units *big.Rat, now int64) usage {
	u.events = slices.Clone(u.events)
	e := &u.events[i]
	e.units = new(big.Rat).Sub(e.units, units)
	if e.at < u.at || e.at >= u.at+micros(u.limit) || u.isOver(now) {
		return u
	}
	u.curr -= floor(units)
	if u.curr < u.limit.Burst() {
		u.until = 0
	}
	return u
}

// banCases are about bans (DESIGN 12).
var banCases = []testCase{
	{
		name: "a banned key denies the request and takes nothing elsewhere",
		why: "a ban is decided with all other rules: a denied request takes nothing of them, and a " +
			"shadow of a banned key denies nothing (DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.PerMinute(1), hour)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			w := h.world(t)
			ban := backends.Charge{Scope: "ban", Key: "k", Limit: l, Cost: 1}
			rate := backends.Charge{Scope: "rate", Key: "k", Limit: limits.FixedWindow(limits.PerHour(5)),
				Cost: 1}
			w.take(ban)
			w.expect("banned", []backends.Charge{ban, rate}, denied(0, hour, hour), allowed(5, 0, hour))
			ban.Shadow = true
			w.expect("banned in shadow", []backends.Charge{ban, rate}, denied(0, hour, hour),
				allowed(4, hour, hour))
		},
	},

	{
		name: "no key inherits a ban",
		why: "whatever banned keys a full store has displaced, a new key is not banned: its first " +
			"charge is allowed (DESIGN 12)",
		small: true,
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.PerHour(5), day)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			for _, maxKeys := range []int{1, 7, 64} {
				c := h.clockAt(newYear)
				w := world{t, c, h.OpenSmall(t, c.now, maxKeys)}
				for i := range 20 * maxKeys {
					charge := backends.Charge{Scope: "s", Key: fmt.Sprint("new ", i), Limit: l, Cost: 5}
					if d := w.take(charge)[0]; !d.Allowed {
						t.Fatalf("with room for %d keys, the first charge of key %d: %s", maxKeys, i+1,
							showDecision(d))
					}
				}
				fewer := limits.Ban(limits.PerHour(2), day)
				charge := backends.Charge{Scope: "s", Key: "under a lower number", Limit: fewer, Cost: 1}
				if d := w.take(charge)[0]; !d.Allowed {
					t.Errorf("with room for %d keys, the first charge under a lower number: %s", maxKeys,
						showDecision(d))
				}
			}
		},
	},
}
