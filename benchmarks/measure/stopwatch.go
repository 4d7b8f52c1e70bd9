package measure

import "time"

// Stopwatch measures how long this process takes for something, without the
// time in which the system ran something else instead.
type Stopwatch struct {
	wall      time.Time
	processor time.Duration
}

// Start returns a stopwatch that has just been started.
func Start() Stopwatch { return Stopwatch{time.Now(), processorTime()} }

// Elapsed returns the time since the start, by the clock on the wall, or the
// time for which threads of this process have run since, if that is less. A
// stall of this process's own making is in both, for one of its threads is then
// busy: it collects garbage, or sweeps a map that is locked meanwhile.
func (s Stopwatch) Elapsed() time.Duration {
	processor := processorTime() - s.processor
	return min(time.Since(s.wall), processor)
}
