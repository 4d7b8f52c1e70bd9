package measure

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Sample is one reading of one column.
type Sample struct {
	Nanos  float64 // per operation, by the wall clock, over all goroutines
	Allocs float64 // per operation
	Ops    int     // operations timed
	Wrong  int     // operations with a wrong result
	// of a Pair: time per operation of the loop without; Nanos and Allocs are differences
	Without float64
}

// Loop does n operations, starting with number at, and returns how many had the right result. The
// caller supplies the loop, so that every contestant pays for only one indirect call.
type Loop func(at, n int) (right int)

// Meter takes readings of a loop.
type Meter struct {
	loop  Loop
	at    int     // number of the next operation
	nanos float64 // approximate time per operation; 0: not known yet
}

// NewMeter returns a meter of loop on one goroutine.
func NewMeter(loop Loop) *Meter { return &Meter{loop: loop} }

// NewParallelMeter returns a meter of loops, each on a goroutine of its own and starting a distance
// of stride from the next. They share the operations in small lots, so that a loop that the machine
// delays does not delay the others.
func NewParallelMeter(loops []Loop, stride int) *Meter {
	const lot = 1024
	return NewMeter(func(at, n int) int {
		var left, right atomic.Int64
		var done sync.WaitGroup
		left.Store(int64(n))
		for i, loop := range loops {
			done.Go(func() {
				at, ok := at+i*stride, 0
				for {
					rest := left.Add(-lot) + lot
					if rest <= 0 {
						break
					}
					m := int(min(rest, lot))
					ok += loop(at, m)
					at += m
				}
				right.Add(int64(ok))
			})
		}
		done.Wait()
		return int(right.Load())
	})
}

const (
	warmTime  = 40 * time.Millisecond // untimed, before a reading: caches are full of other data
	pieceTime = 10 * time.Millisecond
	pieces    = 6  // pieces of a reading
	tries     = 12 // attempts to find pieces without preemption
)

// Read takes one reading in short pieces. Only the pieces with the fewest preemptions count, at
// best none, and Read returns their median: other work of the machine says nothing about the loop.
func (m *Meter) Read() Sample {
	m.warm()
	n := max(1, int(float64(pieceTime)/m.nanos))
	var taken []piece
	var before, after runtime.MemStats
	right, calm := 0, 0
	runtime.ReadMemStats(&before)
	for len(taken) < tries && calm < pieces {
		switches := preemptions()
		start := time.Now()
		right += m.loop(m.at, n)
		p := piece{float64(time.Since(start)) / float64(n), preemptions() - switches}
		m.at += n
		if p.preempted == 0 {
			calm++
		}
		taken = append(taken, p)
	}
	runtime.ReadMemStats(&after)
	ops := len(taken) * n
	return Sample{
		Nanos:  calmest(taken),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(ops),
		Ops:    ops,
		Wrong:  ops - right,
	}
}

// piece is a part of a reading.
type piece struct {
	nanos     float64 // per operation
	preempted int64   // number of preemptions
}

// calmest returns the median of the pieces with the fewest preemptions.
func calmest(taken []piece) float64 {
	slices.SortStableFunc(taken, func(a, b piece) int {
		return cmp.Compare(a.preempted, b.preempted)
	})
	var nanos []float64
	for _, p := range taken[:min(pieces, len(taken))] {
		nanos = append(nanos, p.nanos)
	}
	return Median(nanos)
}

// warm runs the loop for warmTime and estimates its speed.
func (m *Meter) warm() {
	const lot = 1024
	start, n := time.Now(), 0
	for n == 0 || time.Since(start) < warmTime {
		from := time.Now()
		more := max(n, lot) // double each time, so that the last one is long enough to measure
		m.loop(m.at, more)
		m.nanos = float64(time.Since(from)) / float64(more)
		m.at += more
		n += more
	}
}
