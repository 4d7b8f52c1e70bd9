package simulate

import (
	"fmt"

	"github.com/weir-go/weir/core"
)

// withUnits returns a limit of so many units, and a burst in proportion.
func withUnits(l core.Limit, units int64) (core.Limit, error) {
	rate := l.Rate()
	burst := func() int64 {
		return max(1, int64(float64(l.Burst())*float64(units)/float64(rate.Units)+0.5))
	}
	scaled := core.Rate{Units: units, Period: rate.Period}
	var result core.Limit
	switch l.Algorithm() {
	case core.AlgorithmTokenBucket:
		result = core.TokenBucket(scaled, burst())
	case core.AlgorithmLeakyBucket:
		result = core.LeakyBucket(scaled, burst())
	case core.AlgorithmLeakyQueue:
		result = core.LeakyQueue(scaled, burst())
	case core.AlgorithmFixedWindow:
		result = core.FixedWindow(scaled)
	case core.AlgorithmSlidingWindow:
		result = core.SlidingWindow(scaled)
	case core.AlgorithmSlidingLog:
		result = core.SlidingLog(scaled)
	case core.AlgorithmAnchoredWindow:
		result = core.AnchoredWindow(scaled)
	case core.AlgorithmConcurrent:
		result = core.Concurrent(units)
	case core.AlgorithmBan:
		result = core.Ban(scaled, l.Lasting())
	default:
		return core.Limit{}, fmt.Errorf("no other number of units is known for %s", l)
	}
	return result, result.Validate()
}

// unitsOf returns the number that withUnits changes.
func unitsOf(l core.Limit) int64 {
	if l.Algorithm() == core.AlgorithmConcurrent {
		return l.Burst()
	}
	return l.Rate().Units
}
