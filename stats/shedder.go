package stats

import (
	"slices"

	"github.com/weir-go/weir/internal/ground/isnil"
)

// ShedderSnapshot is what a shedder does and has done, see [Stats.WatchShedder]. Its
// requests are none of those of limiters: a shed request reaches no limiter inside the
// shedder.
type ShedderSnapshot struct {
	Name string
	ShedderState
}

// WatchShedder has snapshots show the state of a shedder, of any framework: a
// shed.Shedder has the method State. Requests that it sheds are answered 503; they are
// counted by class, apart from requests that limiters deny. The log is written within five
// seconds, by a timer that looks at counters and keeps s until the program ends. A later
// call with the same name watches another shedder instead, or none if shedder is nil.
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
		i := slices.IndexFunc(classes, func(other ShedderClassState) bool { return other.Name == c.Name })
		if i < 0 {
			classes = append(classes, c)
			continue
		}
		same := &classes[i] // an exporter fails as a whole on two series of one name
		same.InFlight += c.InFlight
		same.Waiting += c.Waiting
		same.Admitted += c.Admitted
		same.Shed += c.Shed
		same.Shadowed += c.Shadowed
		same.Left += c.Left
	}
	state.Classes = classes
	return ShedderSnapshot{name, state}
}
