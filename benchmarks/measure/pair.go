package measure

import (
	"math"
	"runtime"
	"time"
)

// Pair measures what a loop takes in addition to another one that does the same without
// what is measured.
type Pair struct{ without, with *Meter }

// NewPair returns a pair of loops, on one goroutine.
func NewPair(without, with Loop) *Pair { return &Pair{NewMeter(without), NewMeter(with)} }

const (
	pairs    = 50
	pairTime = 2 * time.Millisecond // of a piece
)

// Read takes one reading. Pieces of both loops take turns, and the fastest piece of each
// counts: whatever else the machine does makes a piece slower, never faster. In a piece, a loop that
// allocates a kilobyte in each operation of less than a microsecond causes a garbage collection, which is
// part of what it costs.
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
