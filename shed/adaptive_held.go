package shed

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	mostHeld = firstTimes * startLimit // held.bound without MaxInFlight: 400
	evenLife = 2 * time.Second         // held.usual doubles or halves in it, at most

	// A request is held from the age heldAge + heldTimes·held.usual on.
	heldAge, heldTimes = 200 * time.Millisecond, 4
)

// held counts requests that take much longer than others and that others have overtaken. They do
// not need what the others wait for. So they get places of their own, as requests that wait for
// their clients do. Otherwise a few slow requests of one client would fill a low limit.
//
// An example: 10 ms is usual, so an overtaken request is held at the age of 240 ms. With 30 of them
// and a limit of 6, 36 requests may be in flight.
type held struct {
	count int // requests that are held
	most  int // requests that may be held for now: see trust
	bound int // most in flight with their places: MaxInFlight, or mostHeld if that is not set

	// usual follows baselines.usual slowly, in seconds. So slow requests that end together do not
	// change what is slow.
	usual float64
}

// places returns how many places held requests get, if reach other requests may be in flight. They
// do not raise the limit above bound: when a dependency hangs, its requests would pile up.
func (h *held) places(reach float64) int {
	return max(0, min(h.count, h.bound-int(math.Round(reach))))
}

// piles reports that held requests have reached the bound, and are more than the others in flight.
// w leaves out held requests.
func (a *adaptive) piles(w *view) bool {
	count := a.held.count
	return float64(count) > w.inFlight && count+int(math.Round(a.reach())) >= a.held.bound
}

// hold counts the held requests, and takes them out of s. The ages of s may be those of a part of
// the requests in flight, so it counts ages and scales the number.
func (a *adaptive) hold(s *shedlimit.Sample) {
	a.held.count = 0
	if len(a.base.routes) == 0 || len(s.Ages) == 0 || s.InFlight <= 0 || s.Overtaken == 0 {
		return
	}
	n := min(older(s.Ages, max(s.Overtaken, a.heldFrom())), a.held.most*len(s.Ages)/s.InFlight)
	a.held.count = n * s.InFlight / len(s.Ages)
	s.InFlight -= a.held.count
	s.Ages = s.Ages[n:]
}

// heldFrom returns the age from which a request is held if others have overtaken it.
func (a *adaptive) heldFrom() time.Duration { return heldAge + seconds(heldTimes*a.held.usual) }

// leaveOutHeld takes the held requests out of the Sample of a window. Its peak and its mean lose
// only as many as hold has counted before, too: the others were not held for all of the window.
func (a *adaptive) leaveOutHeld(s *shedlimit.Sample) {
	before := a.held.count
	a.hold(s)
	both := min(before, a.held.count)
	s.PeakInFlight = max(s.InFlight, s.PeakInFlight-both)
	s.MeanInFlight = max(0, s.MeanInFlight-float64(both))
}

// bind sets bound.
func (h *held) bind(s *shedlimit.Sample) {
	if h.bound = mostHeld; s.Bounded {
		h.bound = s.MaxLimit
	}
}

// trust updates most and usual. While requests queue and wait alone (see waitsAlone), the held ones
// may be part of that queue, so their number may not rise. When no queue is left, it may again.
func (a *adaptive) trust(s *shedlimit.Sample, w *view) {
	switch {
	case w.waiting > w.room && w.waitsAlone():
		a.held.most = min(a.held.most, a.held.count)
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
