package simulate

import "github.com/weir-go/weir/limits"

// withUnits returns a limit with the given units, and a burst in proportion.
func withUnits(l limits.Limit, units int64) (limits.Limit, error) {
	scaled := l.WithUnits(units)
	return scaled, scaled.Validate()
}

// unitsOf returns the number that withUnits changes.
func unitsOf(l limits.Limit) int64 {
	if l.Algorithm().Holds() {
		return l.Burst()
	}
	return l.Rate().Units
}
