package measure

import (
	"math"
	"runtime"
	"time"
)

// Pair measures the additional time of a loop relative to another loop without the measured part.
type Pair struct{ without, with *Meter }

// NewPair returns a pair of loops, on one goroutine.
func NewPair(without, with Loop) *Pair { return &Pair{NewMeter(without), NewMeter(with)} }

const (
	pairs    = 50
	pairTime = 2 * time.Millisecond // time of a piece
)

// Read takes one reading. Pieces of both loops alternate, and the fastest piece of each counts:
// other work of the machine makes a piece slower, never faster. If each operation takes less than a
// microsecond and allocates a kilobyte, a piece includes a garbage collection, which is part of the
// cost.
func (p *Pair) Read() Sample {
	p.without.warm()
	p.with.warm()
	n := max(1, int(float64(pairTime)/p.with.nanos))
	loops := [...]*Meter{p.without, p.with}
	var (
		right, ops [2]int
		mallocs    [2]float64
		fastest    = [2]float64{math.Inf(1), math.Inf(1)}
	)
	piece := func(i int) {
		m := loops[i]
		start := time.Now()
		right[i] += m.loop(m.at, n)
		fastest[i] = min(fastest[i], float64(time.Since(start))/float64(n))
		m.at += n
		ops[i] += n
	}
	runtime.GC()
	for turn := range pairs {
		piece(turn % 2)
		piece(1 - turn%2)
	}
	for i, m := range loops {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		right[i] += m.loop(m.at, n)
		runtime.ReadMemStats(&after)
		m.at += n
		ops[i] += n
		mallocs[i] = math.Round(float64(after.Mallocs-before.Mallocs) / float64(n))
	}
	return Sample{
		Nanos: fastest[1] - fastest[0], Without: fastest[0],
		Allocs: mallocs[1] - mallocs[0],
		Ops:    ops[0] + ops[1], Wrong: ops[0] + ops[1] - right[0] - right[1],
	}
}
