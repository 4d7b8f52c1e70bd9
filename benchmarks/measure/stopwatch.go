package measure

import "time"

// Stopwatch measures time without the time in which the system ran other processes.
type Stopwatch struct {
	wall      time.Time
	processor time.Duration
}

// Start returns a running stopwatch.
func Start() Stopwatch { return Stopwatch{time.Now(), processorTime()} }

// Elapsed returns the time since the start by the wall clock, or the time that threads of this
// process have run, if less. A stall caused by this process is in both, because one of its threads
// is busy then: it collects garbage, or sweeps a locked map.
func (s Stopwatch) Elapsed() time.Duration {
	processor := processorTime() - s.processor
	return min(time.Since(s.wall), processor)
}
