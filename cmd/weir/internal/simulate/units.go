package simulate

import (
	"fmt"

	"github.com/weir-go/weir/limits"
)

// withUnits returns a limit of so many units, and a burst in proportion.
func withUnits(l limits.Limit, units int64) (limits.Limit, error) {
	rate := l.Rate()
	burst := func() int64 {
		return max(1, int64(float64(l.Burst())*float64(units)/float64(rate.Units)+0.5))
	}
	scaled := limits.Rate{Units: units, Period: rate.Period}
	var result limits.Limit
	switch l.Algorithm() {
	case limits.AlgorithmTokenBucket:
		result = limits.TokenBucket(scaled, burst())
	case limits.AlgorithmLeakyBucket:
		result = limits.LeakyBucket(scaled, burst())
	case limits.AlgorithmLeakyQueue:
		result = limits.LeakyQueue(scaled, burst())
	case limits.AlgorithmFixedWindow:
		result = limits.FixedWindow(scaled)
	case limits.AlgorithmSlidingWindow:
		result = limits.SlidingWindow(scaled)
	case limits.AlgorithmSlidingLog:
		result = limits.SlidingLog(scaled)
	case limits.AlgorithmAnchoredWindow:
		result = limits.AnchoredWindow(scaled)
	case limits.AlgorithmConcurrent:
		result = limits.Concurrent(units)
	case limits.AlgorithmBan:
		result = limits.Ban(scaled, l.Lasting())
	case limits.AlgorithmCalendar:
		result = limits.Calendar(units, l.Period())
	default:
		return limits.Limit{}, fmt.Errorf("no other number of units is known for %s", l)
	}
	return result, result.Validate()
}

// unitsOf returns the number that withUnits changes.
func unitsOf(l limits.Limit) int64 {
	if l.Algorithm() == limits.AlgorithmConcurrent {
		return l.Burst()
	}
	return l.Rate().Units
}
