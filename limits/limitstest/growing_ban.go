package limitstest

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmGrowingBan, counted: unitsOfBans, model: growingModel{},
		limit: func(rate limits.Rate) limits.Limit { return limits.Ban(rate, hour).Growing(day) },
		typical: []limits.Limit{
			limits.Ban(limits.Per(5, 10*mins), hour).Growing(day),
			limits.Ban(limits.Per(2, mins), mins).Growing(5 * mins),
		},
		extreme: []limits.Limit{
			limits.Ban(limits.Per(1, 1*ms), 1*ms).Growing(366 * day),
			limits.Ban(limits.Per(10_000_000, 366*day), 366*day).Growing(366 * day),
			limits.Ban(limits.Per(7, 1001*us), 1003*us).Growing(5017 * us),
		},
		illegal: map[string]limits.Limit{
			"a ban that grows to less": limits.Ban(limits.PerMinute(5), hour).Growing(mins),
			"a rate that grows":        limits.FixedWindow(limits.PerMinute(5)).Growing(hour),
		},
		random: func(random *rand.Rand, rate limits.Rate, _ int64) limits.Limit {
			longest := upTo(random, (366 * day).Microseconds())
			return limits.Ban(limits.Per(upTo(random, 10_000_000), rate.Period),
				duration(upTo(random, longest))).Growing(duration(longest))
		},
		withMaximum: func(l limits.Limit, most int64) limits.Limit {
			return limits.Ban(limits.Per(most, l.Rate().Period), l.Lasting()).Growing(l.Longest())
		},
		changed: func(random *rand.Rand, l limits.Limit, rate limits.Rate, most int64) limits.Limit {
			if random.IntN(2) == 0 {
				rate = limits.Per(most, l.Rate().Period)
			}
			if random.IntN(3) == 0 {
				return limits.Ban(rate, l.Lasting())
			}
			return limits.Ban(rate, l.Lasting()).Growing(l.Lasting() * time.Duration(upTo(random, 20)))
		},
		alternating: []limits.Limit{limits.Ban(limits.Per(8, 5*sec), 7*sec).Growing(20 * sec)},
		together: [4]limits.Decision{allowed(6, 60*sec, 60*sec), allowed(2, 60*sec, 60*sec),
			allowed(2, 60*sec, 60*sec), allowed(0, hour, hour)},
		cases: growingCases,
	})
}

// mostUnits is how many units a backend has to count.
const mostUnits = 1<<26 - 1

func isGrowing(l limits.Limit) bool { return l.Algorithm() == limits.AlgorithmGrowingBan }

// growingModel is a ban whose usage knows the row of bans that the last one belongs to. u.until is
// the end of the ban to which the period of u led.
type growingModel struct{ banModel }

// row is the bans of a key that are in a row: each began less than the longest ban after the one
// before had ended. Without bans there is no row.
type row struct {
	bans int64
	end  int64 // of the last one; it may be over
}

// rowOf returns the row of u. A ban that began under a limit that does not grow is the first.
func rowOf(u usage) row {
	if r, ok := u.own.(row); ok {
		return r
	}
	if u.until != 0 {
		return row{1, u.until}
	}
	return row{}
}

// isOver reports whether a ban that begins at instant x begins a new row under l.
func (r row) isOver(x int64, l limits.Limit) bool {
	return r.bans == 0 || x >= r.end+l.Longest().Microseconds()
}

// lasts returns how long the last ban of r lasts under l.
func (r row) lasts(l limits.Limit) int64 {
	lasts, longest := l.Lasting().Microseconds(), l.Longest().Microseconds()
	for n := int64(1); n < r.bans; n++ {
		lasts = min(2*lasts, longest)
	}
	return lasts
}

// at returns u at instant x: without the units, the ban and the row that are over.
func (growingModel) at(u usage, x int64) usage {
	r := rowOf(u)
	if u.isOver(x) {
		u.curr, u.until, u.at = 0, 0, x
	}
	if u.until == 0 && r.isOver(x, u.limit) {
		r = row{}
	}
	u.own = r
	return u
}

func (growingModel) freshAt(u usage) int64 {
	at, r := u.at, rowOf(u)
	if u.curr > 0 && u.until == 0 {
		at += micros(u.limit)
	}
	if r.bans > 0 {
		at = max(at, r.end+u.limit.Longest().Microseconds())
	}
	return at
}

func (m growingModel) plus(u usage, x, n int64) usage {
	if u = m.at(u, x); u.curr == 0 {
		u.at = x
	}
	u.base, u.events, u.change = nil, nil, nil
	u.curr += min(n, math.MaxInt64-u.curr)
	if u.until == 0 && u.curr >= u.limit.Burst() {
		r := row{bans: min(rowOf(u).bans+1, 63)} // a backend counts no further
		r.end = x + r.lasts(u.limit)
		u.until, u.own = r.end, r
	}
	return u
}

// decide tells the end of the ban, or of the period. The row goes on longer.
func (m growingModel) decide(u usage, c backends.Charge, x, now int64,
	taking bool) (limits.Decision, usage) {
	u = m.at(u, x)
	d := limits.Decision{At: now, Allowed: u.until == 0, EffectiveWindow: c.Limit.Rate().Period}
	if d.Allowed && taking && c.Cost > 0 {
		u = m.plus(u, x, c.Cost)
	}
	switch {
	case u.until != 0:
		d.ResetAfter = duration(u.until - now)
	case u.curr > 0:
		d.ResetAfter = duration(u.at + micros(u.limit) - now)
	}
	if u.until == 0 {
		d.Remaining = max(0, c.Limit.Burst()-u.curr)
	}
	if u.curr > 0 {
		d.EffectiveWindow = d.ResetAfter
	}
	if !d.Allowed {
		d.RetryAfter = d.ResetAfter
	}
	return d, u
}

func (m growingModel) under(u usage, l limits.Limit, x int64) usage {
	if !isGrowing(l) { // it forgets the row
		u = m.at(u, x)
		if u.own = nil; u.curr >= mostUnits {
			u.curr = max(u.curr, math.MaxUint32) // a full count stays full
		}
	}
	u.limit = l
	return u
}

func (growingModel) rebased(u usage, now int64) usage {
	r := rowOf(u)
	if u.until != 0 {
		u.until = now + r.lasts(u.limit)
		r.end = u.until
	} else {
		r.end -= u.at - now
	}
	u.at, u.own = now, r
	return u
}

func (m growingModel) mayOwe(u usage, x int64) int64 { return m.banModel.mayOwe(m.at(u, x), x) }

// refundable is of the period. A backend need not count more units than it can.
func (growingModel) refundable(u usage, i int, e backends.Ending, x int64) (least, most int64) {
	n, at := e.Taken-e.Final, u.events[i].at
	switch {
	case at < u.at || at >= u.at+micros(u.limit) || u.isOver(x):
		return 0, 0
	case u.curr >= mostUnits:
		return 0, n
	}
	return n, n
}

// returned takes a ban that is lifted out of the row: the one before counts as having ended when the
// period began.
func (m growingModel) returned(u usage, i int, units *big.Rat, now int64) usage {
	banned, r := u.until != 0, rowOf(u)
	if u = m.banModel.returned(u, i, units, now); banned && u.until == 0 {
		if r = (row{r.bans - 1, u.at}); r.bans == 0 {
			r = row{}
		}
		u.own = r
	}
	return u
}

// growingCases are about bans that grow (DESIGN 12).
var growingCases = []testCase{
	{
		name: "a reset forgets the row of bans",
		why:  "a key that is forgiven starts with the first ban (backends.Resetter)",
		run: func(t testing.TB, h Harness) {
			w, l := h.world(t), limits.Ban(limits.Per(5, 10*mins), hour).Growing(4*hour)
			if !h.limits.has(l) || !canReset(t, w.backend) {
				t.SkipNow()
			}
			charge := []backends.Charge{{Scope: "s", Key: "k", Limit: l, Cost: 5}}
			w.expect("5", charge, allowed(0, hour, hour))
			w.clock.advance(2 * hour)
			w.expect("5 more", charge, allowed(0, 2*hour, 2*hour))
			if err := backends.Reset(context.Background(), w.backend, "s", "k"); err != nil {
				t.Fatalf("Reset: %v", err)
			}
			w.expect("5 after a reset", charge, allowed(0, hour, hour))
		},
	},
	{
		name: "no key inherits a row of bans",
		why: "whatever keys with rows of bans a full store has displaced, the first ban of a new key is " +
			"as long as a first one (DESIGN 12)",
		small: true,
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.Per(5, 10*mins), hour).Growing(4 * hour)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			c := h.clockAt(newYear)
			w := world{t, c, h.OpenSmall(t, c.now, 7)}
			for i := range 20 * 7 {
				charge := backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: l, Cost: 5}
				if d := w.take(charge)[0]; !d.Allowed || d.ResetAfter > hour {
					t.Fatalf("with room for 7 keys, key %d: %s", i+1, showDecision(d))
				}
				if i%3 == 0 {
					w.clock.advance(hour)
					w.take(charge)
					w.clock.advance(2 * hour)
				}
			}
		},
	},
}
