package stats

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts durations. The zero Histogram is empty.
type Histogram struct {
	// Bounds are the inclusive upper bounds of all buckets except the last. They are the same in
	// all histograms, from 0.25 ms to a minute.
	Bounds []time.Duration
	// Counts has one element more than Bounds: Counts[i] is the number of durations above
	// Bounds[i-1] and at most Bounds[i]. Unlike the buckets of Prometheus, they are not cumulative.
	Counts []int64
	Sum    time.Duration
}

// Count returns the number of durations.
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

// histogram is a Histogram for concurrent use.
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
