package stats

import (
	"slices"

	"github.com/weir-go/weir/internal/ground/isnil"
)

// ShedderSnapshot is the state of a shedder, see [Stats.WatchShedder]. Limiters inside the shedder
// never see the requests that it sheds, so their counters do not include them.
type ShedderSnapshot struct {
	Name string
	ShedderState
}

// WatchShedder adds a shedder, of any framework, to snapshots. A shed.Shedder has the method State.
// Requests that it sheds are answered 503. They are counted by class, apart from requests that
// limiters deny. Lines are logged within five seconds, by a timer that reads the counters and keeps
// a reference to s until the program ends. A later call with the same name replaces the shedder, or
// removes it if shedder is nil.
func (s *Stats) WatchShedder(name string, shedder interface{ State() ShedderState }) {
	if isnil.Of(shedder) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.shedders, label(name))
		return
	}
	watched := newShedder(shedder.State)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shedders[label(name)] = watched
	s.logSheddersLocked()
}

func shedderSnapshot(name string, state ShedderState) ShedderSnapshot {
	classes := make([]ShedderClassState, 0, len(state.Classes))
	for _, c := range state.Classes {
		c.Name = label(c.Name)
		i := slices.IndexFunc(classes, func(other ShedderClassState) bool {
			return other.Name == c.Name
		})
		if i < 0 {
			classes = append(classes, c)
			continue
		}
		same := &classes[i] // exporters reject everything if two series have the same name
		same.InFlight += c.InFlight
		same.Waiting += c.Waiting
		same.Admitted += c.Admitted
		same.Shed += c.Shed
		same.Shadowed += c.Shadowed
		same.Ahead += c.Ahead
		same.Left += c.Left
	}
	state.Classes = classes
	return ShedderSnapshot{name, state}
}
