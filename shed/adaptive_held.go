package shed

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	mostHeld  = firstTimes * startLimit // see held.bound
	leastHeld = 200 * time.Millisecond  // a request may be held from this age on,
	heldTimes = 4                       // and so many times what is usual
	evenLife  = 2 * time.Second         // in which held.usual doubles or halves, at most
)

// held counts requests that take much longer than others and that others have overtaken. They do
// not need what the others wait for. So they get places of their own, as requests that wait for
// their clients do. Otherwise a few slow requests of one client would fill a low limit.
//
// An example: 10 ms is usual, so an overtaken request is held at the age of 240 ms. With 30 of them
// and a limit of 6, 36 requests may be in flight.
type held struct {
	now   int // requests
	most  int // requests that may be held for now
	bound int // their places raise the limit to this at most: MaxInFlight, or mostHeld without it

	// usual follows baselines.usual slowly, so that slow requests that end together do not change
	// what is slow.
	usual float64
}

// places returns how many places are for held requests, if reach others may be in flight. Beyond
// bound there are none: when a dependency hangs, its requests would pile up.
func (h *held) places(reach float64) int {
	return max(0, min(h.now, h.bound-int(math.Round(reach))))
}

// piles reports that held requests have reached the bound.
func (a *adaptive) piles(w *view) bool {
	return float64(a.held.now) > w.inFlight && a.held.now+int(math.Round(a.reach())) >= a.held.bound
}

// hold counts the held requests, and takes them out of s.
func (a *adaptive) hold(s *shedlimit.Sample) {
	a.held.now = 0
	// A request may stop waiting for its client while ages are read. Then there is an age too many.
	if len(a.base.routes) == 0 || len(s.Ages) == 0 || s.InFlight <= 0 || s.Overtaken == 0 {
		return
	}
	n := min(older(s.Ages, max(s.Overtaken, a.heldFrom())), a.held.most*len(s.Ages)/s.InFlight)
	a.held.now = n * s.InFlight / len(s.Ages)
	s.InFlight -= a.held.now
	s.Ages = s.Ages[n:]
}

// heldFrom is how old a request has to be at least before it is held.
func (a *adaptive) heldFrom() time.Duration { return leastHeld + seconds(heldTimes*a.held.usual) }

// leaveOutHeld takes the held requests out of the Sample of a window.
func (a *adaptive) leaveOutHeld(s *shedlimit.Sample) {
	before := a.held.now
	a.hold(s)
	both := min(before, a.held.now)
	s.PeakInFlight = max(s.InFlight, s.PeakInFlight-both)
	s.MeanInFlight = max(0, s.MeanInFlight-float64(both))
}

// bind sets the bound.
func (h *held) bind(s *shedlimit.Sample) {
	if h.bound = mostHeld; s.Bounded {
		h.bound = s.MaxLimit
	}
}

// trust updates how many requests may be held. While a route waits alone, held requests may be part
// of its queue, so their number may not rise.
func (a *adaptive) trust(s *shedlimit.Sample, w *view) {
	switch {
	case w.waiting > w.room && w.waitsAlone():
		a.held.most = min(a.held.most, a.held.now)
	case w.completed >= fewest && w.waiting <= w.room:
		a.held.most = a.held.bound
	}
	if w.completed > 0 {
		if a.held.usual == 0 {
			a.held.usual = a.base.usual
		}
		step := math.Exp2(float64(s.Elapsed) / float64(evenLife))
		a.held.usual = min(max(a.base.usual, a.held.usual/step), a.held.usual*step)
	}
}
