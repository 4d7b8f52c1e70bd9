package shed

import "github.com/weir-go/weir/stats"

// State is what a [Shedder] does now and has done, for gauges, counters and pages. Its fields are
// those of [stats.ShedderState].
type State = stats.ShedderState

// state returns the State without the mode.
func (l *limiter) state() State {
	now := l.lock()
	defer l.mu.Unlock()
	s := State{
		Limit: l.limit, MaxInFlight: l.maxLimit, InFlight: l.inFlight,
		Streams: l.streams, Exempt: l.exempt, Shadowed: l.shadowed, Waiting: l.waiting,
		Routes: len(l.window.routes), Updates: l.updates, Panics: l.panics,
		ExemptTotal: l.exemptTotal, Oldest: l.oldestLocked(now),
	}
	if l.tenants != nil {
		s.Tenants = len(l.tenants.list)
	}
	for _, c := range l.classes {
		s.Classes = append(s.Classes, stats.ShedderClassState{
			Name: c.name, Share: c.share, Entry: c.full,
			InFlight: c.inFlight, Waiting: c.waiting.Size,
			Admitted: c.admitted, Shed: c.shed, Shadowed: c.shadowed, Left: c.left,
			Ahead: c.ahead,
		})
	}
	return s
}
