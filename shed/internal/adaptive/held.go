package adaptive

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
func (h *held) piles(w *view, reach float64) bool {
	return float64(h.count) > w.inFlight && h.count+int(math.Round(reach)) >= h.bound
}

// hold counts the held requests, and takes them out of s. The ages of s may be those of a part of
// the requests in flight, so it counts ages and scales the number. known reports whether it is known
// what is usual.
func (h *held) hold(s *shedlimit.Sample, known bool) {
	h.count = 0
	if !known || len(s.Ages) == 0 || s.InFlight <= 0 || s.Overtaken == 0 {
		return
	}
	n := min(older(s.Ages, max(s.Overtaken, h.from())), h.most*len(s.Ages)/s.InFlight)
	h.count = n * s.InFlight / len(s.Ages)
	s.InFlight -= h.count
	s.Ages = s.Ages[n:]
}

// from returns the age from which a request is held if others have overtaken it.
func (h *held) from() time.Duration { return heldAge + seconds(heldTimes*h.usual) }

// leaveOut takes the held requests out of the Sample of a window. Its peak and its mean lose
// only as many as hold has counted before, too: the others were not held for all of the window.
func (h *held) leaveOut(s *shedlimit.Sample, known bool) {
	before := h.count
	h.hold(s, known)
	both := min(before, h.count)
	s.PeakInFlight = max(s.InFlight, s.PeakInFlight-both)
	s.MeanInFlight = max(0, s.MeanInFlight-float64(both))
}

// bind sets bound.
func (h *held) bind(s *shedlimit.Sample) {
	if h.bound = mostHeld; s.Bounded {
		h.bound = s.MaxLimit
	}
}

// trust updates most, and held.usual towards usual, that of baselines. While requests queue and wait
// alone (see waitsAlone), the held ones may be part of that queue, so their number may not rise.
// When no queue is left, it may again.
func (h *held) trust(s *shedlimit.Sample, w *view, usual float64) {
	switch {
	case w.waiting > w.room && w.waitsAlone():
		h.most = min(h.most, h.count)
	case w.completed >= fewest && w.waiting <= w.room:
		h.most = h.bound
	}
	if w.completed > 0 {
		if h.usual == 0 {
			h.usual = usual
		}
		step := math.Exp2(float64(s.Elapsed) / float64(evenLife))
		h.usual = min(max(usual, h.usual/step), h.usual*step)
	}
}
