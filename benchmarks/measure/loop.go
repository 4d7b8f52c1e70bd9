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
	Nanos   float64 // per operation, by the wall clock, all goroutines together
	Allocs  float64 // per operation
	Ops     int     // operations timed
	Wrong   int     // those that came out other than they should
	Without float64 // of a Pair: per operation without what is measured; Nanos and Allocs are in addition
}

// Loop does n operations, starting with the one numbered at, and returns how
// many of them came out as they should. The loop is the caller's so that it
// costs every contestant the same one indirect call.
type Loop func(at, n int) (right int)

// Meter takes readings of a loop.
type Meter struct {
	loop  Loop
	at    int     // number of the next operation
	nanos float64 // per operation, about; 0 if not known yet
}

// NewMeter returns a meter of loop on one goroutine.
func NewMeter(loop Loop) *Meter { return &Meter{loop: loop} }

// NewParallelMeter returns a meter of loops, each on a goroutine of its own and
// starting a distance of stride from the next. They share out the operations
// among them in small lots, so that one that the machine holds up does not hold
// up the rest.
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
	warmTime  = 40 * time.Millisecond // untimed, before a reading: caches are full of what others did
	pieceTime = 10 * time.Millisecond
	pieces    = 6  // that make a reading
	tries     = 12 // to find pieces in which the machine did nothing else
)

// Read takes one reading. It is made of short pieces, of which those count in
// which the system took processors away from this process least often, at best
// never, and of these the median: what else runs on the machine says nothing
// about the loop.
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
	preempted int64   // how often
}

// calmest returns the median of the pieces that were preempted least.
func calmest(taken []piece) float64 {
	slices.SortStableFunc(taken, func(a, b piece) int { return cmp.Compare(a.preempted, b.preempted) })
	var nanos []float64
	for _, p := range taken[:min(pieces, len(taken))] {
		nanos = append(nanos, p.nanos)
	}
	return Median(nanos)
}

// warm runs the loop for warmTime and finds out how fast it is.
func (m *Meter) warm() {
	const lot = 1024
	start, n := time.Now(), 0
	for n == 0 || time.Since(start) < warmTime {
		from := time.Now()
		more := max(n, lot) // twice as many each time, so that the last is long enough to go by
		m.loop(m.at, more)
		m.nanos = float64(time.Since(from)) / float64(more)
		m.at += more
		n += more
	}
}
