package shed

import (
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// glancer is an algorithm that may change its limit between two windows.
type glancer interface {
	// GlanceFrom says when the limiter calls Glance before it decides a request: if at least
	// inFlight are in flight, or too many for this request to enter. The oldest must also have been
	// in flight for at least age.
	GlanceFrom() (inFlight int, age time.Duration)
	// Glance returns the limit from now on. s is of this instant, and has nothing of the window.
	Glance(s shedlimit.Sample) (limit int)
	// LeastOvertaking returns how long a request must take, at least, to overtake others. Faster
	// requests may not need the scarce resource, so they prove nothing.
	LeastOvertaking() time.Duration
	// Places returns how many places of the limit make up for requests in flight that do not need
	// the scarce resource. Classes do not share these places: any class may fill them.
	Places() int
}

// glanceEvery is the least time between two calls of Glance.
const glanceEvery = 10 * time.Millisecond

// glanceLocked calls Glance, if it is time, before the limiter decides a request that may enter
// while fewer than full are in flight.
func (l *limiter) glanceLocked(full int, now instant) {
	g, ok := l.algorithm.(glancer)
	if !ok || now-l.glanced < glanceEvery {
		return
	}
	inFlight, age := g.GlanceFrom()
	if l.inFlight < min(inFlight, full) || l.oldestLocked(now) < age {
		return
	}
	l.glanced = now
	s := shedlimit.Sample{Now: l.epoch.Add(now), InFlight: l.inFlight, MaxLimit: l.maxLimit}
	l.agesLocked(&s, now)
	l.overtaking.describe(&s, now)
	limit := g.Glance(s)
	l.common = g.Places()
	l.setLimitLocked(limit)
}

// oldestLocked returns how long the oldest request has been in flight, or 0.
func (l *limiter) oldestLocked(now instant) time.Duration {
	if oldest := l.running.First; oldest != nil {
		return max(0, now-oldest.Of.start)
	}
	return 0
}
