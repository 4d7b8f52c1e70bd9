package limitstest

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmFixedWindow, model: fixedModel{}, windows: true, aligned: true,
		limit: limits.FixedWindow,
		typical: []limits.Limit{
			limits.FixedWindow(limits.PerMinute(60)),
			limits.FixedWindow(limits.PerDay(1000)),
		},
		extreme: []limits.Limit{
			limits.FixedWindow(limits.Per(1_000_000_000, 1*ms)),
			limits.FixedWindow(limits.Per(1, 366*day)),
			limits.FixedWindow(limits.Per(13, 1001*us)),
		},
		random: func(_ *rand.Rand, rate limits.Rate, _ int64) limits.Limit {
			return limits.FixedWindow(rate)
		},
		withMaximum: func(l limits.Limit, most int64) limits.Limit {
			return limits.FixedWindow(limits.Per(most, l.Rate().Period))
		},
		alternating: []limits.Limit{
			limits.FixedWindow(limits.Per(30, 2*sec)),
			limits.FixedWindow(limits.PerDay(5)),
		},
		// ends in 50ms
		scenes: []scene{{limits.FixedWindow(limits.Per(30, 50*ms)), 0, []earlier{{cost: 1}}}},
		third:  2,
		together: [4]limits.Decision{allowed(6, 60*sec, 60*sec), allowed(2, 60*sec, 60*sec),
			allowed(2, 60*sec, 60*sec), allowed(0, 60*sec, 60*sec)},
		cases: fixedWindowCases,
	})
}

// plain returns a limit for cases in which any rate would do.
func plain(rate limits.Rate) limits.Limit { return limits.FixedWindow(rate) }

// windowModel is what the models of windows share.
type windowModel struct{ rates }

func (windowModel) inUse(u usage, x int64) int64 { return u.turned(x).curr }

func (windowModel) freshAt(u usage) int64 {
	if u.curr == 0 {
		return u.at
	}
	most, p := u.limit.Burst(), micros(u.limit)
	// forgiven after 200 years
	return u.at + p*(1+min((u.debt+most-1)/most, 2*36_525*day.Microseconds()/p))
}

func (windowModel) plus(u usage, x, n int64) usage {
	after := u.turned(x)
	after.base, after.events, after.change = nil, nil, nil
	after.curr += n
	return after
}

// turned returns u in the window of instant x, with the rest of its debt.
func (windowModel) turned(u usage, x int64) usage {
	n := (x - u.at) / micros(u.limit)
	if n <= 0 {
		return u
	}
	next := usage{limit: u.limit, at: u.at + n*micros(u.limit)}
	if most := u.limit.Burst(); u.debt > 0 && n-1 <= u.debt/most {
		next.curr, next.debt = max(0, u.debt-(n-1)*most), max(0, u.debt-n*most)
	}
	return next
}

// owing lets the next window start with the units above the maximum.
func (windowModel) owing(u usage, x, n int64) usage {
	after := u.plus(x, n)
	after.debt = max(0, min(after.curr-u.limit.Burst(), after.debt+n))
	return after
}

// until returns the EffectiveWindow of a window that ends at an instant.
func (m windowModel) until(end int64, u usage, x, now, left int64) int64 {
	if u.debt > 0 && left == 0 {
		return m.rates.window(u, x, now, left)
	}
	return end - now
}

// fixedModel is a window that starts at a whole multiple of its period, or with its period of the
// calendar.
type fixedModel struct{ windowModel }

func (fixedModel) fresh(l limits.Limit, now int64) usage {
	return usage{limit: l, at: windowStart(now, l)}
}

func (m fixedModel) window(u usage, x, now, left int64) int64 {
	return m.until(windowEnd(x, u.limit), u, x, now, left)
}

// refundable knows the window of the last taking alone.
func (fixedModel) refundable(u usage, i int, e backends.Ending, _ int64) (least, most int64) {
	n := e.Taken - e.Final
	if windowStart(u.events[i].at, u.limit) == u.at {
		return n, n
	}
	return 0, 0
}

func (fixedModel) begun(l limits.Limit, from, to int64) (int64, bool) {
	// of a calendar at least as many
	windows := ceil(ratio(windowStart(to, l)-windowStart(from, l), micros(l), 1))
	return windows * l.Rate().Units, false
}

var fixedWindowCases = []testCase{
	{
		name: "a fixed window admits exactly its units while the clock moves",
		why: "callers that arrive late, with an instant of the window before, are counted in the " +
			"window that has begun, and clear none of its count (DESIGN 5, a clock that steps back)",
		run: func(t testing.TB, h Harness) {
			w := h.lateWorld(t)
			// Of the 160 calls of a window at most 64 are made in the one before
			// and at most 64 come too late, so that each has enough to be full.
			const windows, units = 20, 20
			c := backends.Charge{Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.Per(units, 8*ms)),
				Cost: 1}
			if !h.limits.has(c.Limit) {
				t.SkipNow()
			}
			var admitted atomic.Int64
			w.concurrently(func(int) {
				for range 160 * windows / goroutines {
					d := w.try(c)[0]
					if d.Allowed {
						admitted.Add(1)
					}
					w.clock.advance(50 * us)
				}
			})
			if n := admitted.Load(); n != windows*units {
				t.Errorf("%d were admitted in %d windows of %d, want %d", n, windows, units, windows*units)
			}
		},
	},
}
