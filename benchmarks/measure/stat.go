// Package measure times code and reads memory.
package measure

import "slices"

// Median returns the median of v, or 0 if v is empty. It does not modify v.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Spread returns the median distance of the readings in v from their median, relative to the
// median.
func Spread(v []float64) float64 {
	m := Median(v)
	if m == 0 {
		return 0
	}
	var away []float64
	for _, x := range v {
		away = append(away, max(x-m, m-x)/m)
	}
	return Median(away)
}
