package limitstest

import (
	"math/rand/v2"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmSlidingWindow, model: slidingModel{},
		limit: limits.SlidingWindow,
		typical: []limits.Limit{
			limits.SlidingWindow(limits.PerMinute(100)),
			limits.SlidingWindow(limits.PerSecond(5)),
		},
		extreme: []limits.Limit{
			limits.SlidingWindow(limits.Per(1_000_000_000, 366*day)),
			limits.SlidingWindow(limits.Per(999_999_937, 86_399_999_999*us)),
			limits.SlidingWindow(limits.Per(1_000_000_000, 1*ms)),
			limits.SlidingWindow(limits.Per(7, 3*ms)),
			limits.SlidingWindow(limits.Per(1, 1*ms)),
		},
		random: func(_ *rand.Rand, rate limits.Rate, _ int64) limits.Limit {
			return limits.SlidingWindow(rate)
		},
		withMaximum: func(l limits.Limit, most int64) limits.Limit {
			return limits.SlidingWindow(limits.Per(most, l.Rate().Period))
		},
		alternating: []limits.Limit{
			limits.SlidingWindow(limits.PerMinute(100)),
			limits.SlidingWindow(limits.Per(12, 5*sec)),
			limits.SlidingWindow(limits.PerDay(5)),
		},
		// the next window starts within the history
		scenes: []scene{{limits.SlidingWindow(limits.Per(60, 50*ms)), 30 * ms, []earlier{{cost: 50}}}},
		together: [4]limits.Decision{allowed(6, 120*sec, 36*sec), allowed(2, 120*sec, 12*sec),
			denied(2, 67*sec+500*ms+1*us, 120*sec), allowed(0, 120*sec, 60*sec+1*us)},
	})
}

type slidingModel struct{ rates }

func (slidingModel) fresh(l limits.Limit, now int64) usage {
	return usage{limit: l, at: windowStart(now, l)}
}

func (slidingModel) inUse(u usage, x int64) int64 {
	p := micros(u.limit)
	start := windowStart(x, u.limit)
	switch start {
	case u.at:
		return floor(ratio(u.prev, p, p-(x-start))) + u.curr
	case u.at + p:
		return floor(ratio(u.curr, p, p-(x-start)))
	}
	return 0
}

func (slidingModel) freshAt(u usage) int64 {
	switch {
	case u.curr > 0:
		return u.at + 2*micros(u.limit)
	case u.prev > 0:
		return u.at + micros(u.limit)
	}
	return u.at
}

func (slidingModel) plus(u usage, x, n int64) usage {
	after := usage{limit: u.limit, at: windowStart(x, u.limit), curr: n}
	switch after.at {
	case u.at:
		after.curr, after.prev = u.curr+n, u.prev
	case u.at + micros(u.limit):
		after.prev = u.curr
	}
	return after
}

// rebased keeps as many units as the key was ever allowed at once.
func (slidingModel) rebased(u usage, now int64) usage {
	return u.startingWith(max(u.curr, min(u.inUse(u.at), u.limit.Burst())), now)
}

func (slidingModel) refundable(u usage, i int, e backends.Ending, _ int64) (least, most int64) {
	n := e.Taken - e.Final
	if u.at-windowStart(u.events[i].at, u.limit) <= micros(u.limit) {
		return n, n
	}
	return 0, 0
}

// untilOne is a microsecond longer: the weight falls by a unit right after the window.
func (slidingModel) untilOne(l limits.Limit, _ int64) int64 { return micros(l) + 1 }

// begun counts a unit for rounding for each window.
func (slidingModel) begun(l limits.Limit, from, to int64) (int64, bool) {
	return ceil(ratio(windowStart(to, l)-windowStart(from, l), micros(l), 1)), true
}
