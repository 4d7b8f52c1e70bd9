package limitstest

import (
	"math/rand/v2"
	"slices"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmSlidingLog, model: logModel{},
		limit: limits.SlidingLog,
		typical: []limits.Limit{
			limits.SlidingLog(limits.PerMinute(10)),
			limits.SlidingLog(limits.Per(3, 5*mins)),
		},
		extreme: []limits.Limit{
			limits.SlidingLog(limits.Per(10_000, 1*ms)),
			limits.SlidingLog(limits.Per(10_000, 366*day)),
			limits.SlidingLog(limits.Per(1, 1*ms)),
		},
		illegal: map[string]limits.Limit{
			"too many units for a log": limits.SlidingLog(limits.PerMinute(10_001)),
		},
		random: func(random *rand.Rand, rate limits.Rate, _ int64) limits.Limit {
			return limits.SlidingLog(limits.Per(upTo(random, 10_000), rate.Period))
		},
		withMaximum: func(l limits.Limit, most int64) limits.Limit {
			return limits.SlidingLog(limits.Per(most, l.Rate().Period))
		},
		alternating: []limits.Limit{
			limits.SlidingLog(limits.Per(20, 5*sec)),
			limits.SlidingLog(limits.PerMinute(6)),
		},
		// takings leave within it
		scenes: []scene{{limits.SlidingLog(limits.Per(60, 50*ms)), 0,
			[]earlier{{cost: 30}, {5 * ms, 10}, {20 * ms, 15}}}},
		together: [4]limits.Decision{allowed(6, 60*sec, 36*sec), allowed(2, 60*sec, 12*sec),
			denied(2, 60*sec, 60*sec), allowed(0, 60*sec, 60*sec)},
	})
}

// taking is an entry of the sliding log.
type taking struct {
	at, units int64
	value     uint64 // under a limit that counts values
	first     ticket // of the charge for which the value was new, if no other has had it since
}

type logModel struct{ rates }

func (logModel) inUse(u usage, x int64) int64 {
	sum := int64(0)
	for _, t := range u.takings {
		if x < t.at+micros(u.limit) {
			sum += t.units
		}
	}
	return sum
}

func (logModel) freshAt(u usage) int64 {
	if len(u.takings) == 0 {
		return u.at
	}
	return u.takings[len(u.takings)-1].at + micros(u.limit)
}

func (logModel) plus(u usage, x, n int64) usage {
	after := usage{limit: u.limit, at: x}
	for _, t := range u.takings {
		if x < t.at+micros(u.limit) {
			after.takings = append(after.takings, t)
		}
	}
	after.takings = append(after.takings, taking{at: x, units: n})
	return after
}

// again leaves out a taking of which all was returned. What had left by then has left.
func (m logModel) again(u usage, e event) usage {
	if floor(e.units) > 0 {
		return m.rates.again(u, e)
	}
	u.takings = slices.DeleteFunc(slices.Clone(u.takings),
		func(t taking) bool { return t.at+micros(e.limit) <= e.at })
	return u
}

func (logModel) refundable(u usage, i int, e backends.Ending, x int64) (least, most int64) {
	n := e.Taken - e.Final
	if x < u.events[i].at+micros(u.limit) {
		return n, n
	}
	return 0, 0
}
