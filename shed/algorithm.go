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

// fixed is the algorithm of Options.Limit.
type fixed int

func (f fixed) Update(shedlimit.Sample) int { return int(f) }

// returns calls f, which calls the algorithm, and reports whether it returned instead of panicking.
// A mistake in the algorithm must cost no request its permit, and leave no Replace half done.
func returns(f func()) (ok bool) {
	defer func() {
		if !ok {
			_ = recover()
		}
	}()
	f()
	return true
}

// thin returns every k-th of ages, the first included, for the smallest k that leaves at most
// maxAges. It overwrites ages.
func thin(ages []time.Duration) []time.Duration {
	k := max(1, (len(ages)+maxAges-1)/maxAges)
	kept := ages[:0]
	for i := 0; i < len(ages); i += k {
		kept = append(kept, ages[i])
	}
	return kept
}
