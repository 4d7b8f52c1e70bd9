package stats

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts durations. The zero Histogram has counted nothing.
type Histogram struct {
	// Bounds are the upper bounds of all buckets but the last, inclusive. All histograms
	// have the same, from 0.25 ms to a minute.
	Bounds []time.Duration
	// Counts has one more: Counts[i] is how many durations were above Bounds[i-1] and not
	// above Bounds[i]. They do not add up, unlike the buckets of Prometheus.
	Counts []int64
	Sum    time.Duration
}

// Count returns how many durations were counted.
func (h Histogram) Count() int64 {
	var n int64
	for _, c := range h.Counts {
		n += c
	}
	return n
}

var histogramBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

// histogram counts durations from many goroutines at once.
type histogram struct {
	counts [len(histogramBounds) + 1]atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

func (h *histogram) add(d time.Duration) {
	i := 0
	for i < len(histogramBounds) && d > histogramBounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *histogram) snapshot() Histogram {
	shot := Histogram{
		Bounds: slices.Clone(histogramBounds[:]),
		Counts: make([]int64, len(h.counts)),
		Sum:    time.Duration(h.sum.Load()),
	}
	for i := range h.counts {
		shot.Counts[i] = h.counts[i].Load()
	}
	return shot
}
