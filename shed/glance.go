package shed

import (
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// glancer is an algorithm that may change its limit between two windows.
type glancer interface {
	// glanceFrom says when the limiter calls glance before it decides a request: if at least
	// inFlight are in flight, or too many for this request to enter. The oldest must also have been
	// in flight for at least age.
	glanceFrom() (inFlight int, age time.Duration)
	// glance returns the limit from now on. s is of this instant, and has nothing of the window.
	glance(s shedlimit.Sample) (limit int)
	// leastOvertaking returns how long a request must take, at least, to overtake others. Faster
	// requests may not need the scarce resource, so they prove nothing.
	leastOvertaking() time.Duration
	// places returns how many places of the limit make up for requests in flight that do not need
	// the scarce resource. Classes do not share these places: any class may fill them.
	places() int
}

// glanceEvery is the least time between two calls of glance.
const glanceEvery = 10 * time.Millisecond

// glanceLocked calls glance, if it is time, before the limiter decides a request that may enter
// while fewer than full are in flight.
func (l *limiter) glanceLocked(full int, now instant) {
	g, ok := l.algorithm.(glancer)
	if !ok || now-l.glanced < glanceEvery {
		return
	}
	inFlight, age := g.glanceFrom()
	if l.inFlight < min(inFlight, full) || l.oldestLocked(now) < age {
		return
	}
	l.glanced = now
	s := shedlimit.Sample{Now: l.epoch.Add(now), InFlight: l.inFlight, MaxLimit: l.maxLimit}
	l.agesLocked(&s, now)
	l.overtaking.describe(&s, now)
	limit := g.glance(s)
	l.common = g.places()
	l.setLimitLocked(limit)
}

// oldestLocked returns how long the oldest request has been in flight, or 0.
func (l *limiter) oldestLocked(now instant) time.Duration {
	if oldest := l.running.First; oldest != nil {
		return max(0, now-oldest.Of.start)
	}
	return 0
}
