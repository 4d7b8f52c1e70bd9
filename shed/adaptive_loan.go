package shed

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// Before a service is busy, its limit follows the requests in flight of late. If more come at once,
// the next window is too late. So the limiter asks before it sheds. As long as no request waits, by
// the ages of those in flight, the algorithm lends as many places as were safe before, and takes
// them back at once if requests wait.
//
// An example: 5 requests of 20 ms were in flight of late, so the limit is 20. 80 at once were
// safe before. 60 come at one instant. At the 21st no request in flight is older than 26 ms,
// 1.3 times what is usual, so 80 places are lent and all 60 begin. If 40 of them wait soon after,
// the loan falls to the 20 that do not, and an eighth of the 60.

const (
	firstUsual  = 1.0                   // seconds; see baselines.usual
	firstWindow = 25 * time.Millisecond // until a request has completed
	firstGrowth = 100 * time.Millisecond
	firstTimes  = 4 // times startLimit may be lent early on: one more each firstGrowth

	notable    = 0.5 // times baselines.usual: a faster request overtakes none
	mostQuiet  = 100 * time.Millisecond
	knocked    = 2       // times the limit may be lent while nothing completes
	fewOfThose = 1.0 / 8 // part of the requests in flight that may wait while a loan lasts
)

// loan is a limit that is higher for now.
type loan struct {
	lent  float64 // limit for now, if it is above adaptive.limit
	safe  float64 // most that may be lent
	few   float64 // requests that may wait meanwhile
	doubt bool    // a loan was taken back, and requests have waited since
}

// glanceFrom implements glancer.
func (a *adaptive) glanceFrom() (inFlight int, age time.Duration) {
	inFlight = int(math.Round(a.limit)) + a.places()
	lends := len(a.base.routes) == 0 || a.limit < max(a.loan.safe, a.loan.lent)
	if lends && !a.lowered() {
		return inFlight, 0
	}
	if a.held.count > 0 {
		return inFlight, 0
	}
	return inFlight, min(a.quietFor(), a.heldFrom())
}

// glance implements glancer.
func (a *adaptive) glance(s shedlimit.Sample) int {
	s.InFlight -= s.AtClients
	a.hold(&s)
	waiting := a.aged(&s)
	a.takeBack(waiting, s.InFlight)
	free := waiting < 1 && !a.loan.doubt && !a.lowered()
	switch {
	case (len(a.base.routes) == 0 || a.base.early && free) && len(s.Ages) > 0:
		times := min(firstTimes, 1+s.Ages[0].Seconds()/firstGrowth.Seconds())
		a.loan.lent = max(a.loan.lent, startLimit*times)
	case free:
		a.loan.lent = max(a.loan.lent, a.loan.safe)
	}
	if a.knocks(s.Quiet) {
		most := max(a.loan.safe, knocked*a.limit)
		a.loan.lent = max(a.loan.lent, min(float64(s.InFlight+1), most))
	}
	return a.inForce(s.MaxLimit)
}

// knocks reports that nothing has completed for so long that the requests in flight hang, or are
// slow. One more request per glance shows which: if the service answers, it completes and overtakes
// the others.
func (a *adaptive) knocks(quiet time.Duration) bool {
	if len(a.base.routes) == 0 || a.after != steady || a.state == draining {
		return false
	}
	return quiet > a.quietFor()
}

// quietFor returns after which time without a completion knocks is true.
func (a *adaptive) quietFor() time.Duration { return 2 * (mostQuiet + seconds(a.base.usual)) }

// takeBack lowers the loan, if more than a few requests wait, to those that do not and a few.
func (a *adaptive) takeBack(waiting float64, inFlight int) {
	if few := max(a.loan.few, fewOfThose*float64(inFlight)); waiting > few {
		a.loan.lent = min(a.loan.lent, float64(inFlight)-waiting+few)
		a.loan.doubt = true
	}
}

// believe updates what is safe, and ends a loan that is not needed.
func (a *adaptive) believe(w *view) {
	switch {
	case a.lowered() && a.state != stuck: // stuck decides nothing
		a.loan.safe = min(a.loan.safe, a.limit)
	case w.limited:
		a.loan.safe = max(a.loan.safe, a.limit)
	case w.waiting+w.aged <= leastQueue:
		a.loan.safe = max(a.loan.safe, w.inFlight)
		a.loan.doubt = false
	}
	if !w.limited && w.completed > 0 && a.limit >= min(a.loan.lent, headroom*a.recent.peak) {
		a.loan.lent = 0
	}
}

// leastOvertaking implements glancer. Until baselines.usual is known, all requests overtake others.
func (a *adaptive) leastOvertaking() time.Duration {
	if len(a.base.routes) == 0 {
		return 0
	}
	return seconds(notable * a.base.usual)
}
