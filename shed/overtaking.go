package shed

import (
	"time"

	"github.com/weir-go/weir/internal/ground/list"
	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// overtaking notes which requests in flight were overtaken. A request that completes overtakes
// those in flight that began before it, unless it took less than least. The limiter's lock guards
// it.
type overtaking struct {
	least       time.Duration // see glancer.LeastOvertaking
	latestStart instant       // of requests that overtook others, or could have
	lastEnd     instant       // of these requests
}

// note notes that a request completed after d. before is the one in flight that began just before
// it.
func (o *overtaking) note(d time.Duration, before *list.Node[*Permit], now instant) {
	if d < o.least {
		return
	}
	start := now - d // d is without the time at the client, as Sample.Ages are
	o.latestStart, o.lastEnd = max(o.latestStart, start), now
	// The oldest ones may be marked already: then all that began before them are.
	for n := before; n != nil && n.Of.overtakenAt == 0; n = n.Prev {
		n.Of.overtakenAt = now
	}
}

// describe sets Overtaken and Quiet of s.
func (o *overtaking) describe(s *shedlimit.Sample, now instant) {
	if o.latestStart > 0 {
		s.Overtaken = now - o.latestStart
	}
	s.Quiet = now - o.lastEnd
}
