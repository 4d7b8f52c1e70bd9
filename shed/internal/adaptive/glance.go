package adaptive

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// GlanceFrom says when the shedder calls Glance before it decides a request: if at least inFlight
// are in flight, or too many for this request to enter. The oldest must also have been in flight
// for at least age.
func (a *Algorithm) GlanceFrom() (inFlight int, age time.Duration) {
	inFlight = int(math.Round(a.limit)) + a.Places()
	lends := !a.base.known() || a.limit < max(a.loan.safe, a.loan.lent)
	if lends && !a.lowered() {
		return inFlight, 0
	}
	if a.held.count > 0 {
		return inFlight, 0
	}
	return inFlight, min(a.base.quietFor(), a.held.from())
}

// Glance returns the limit from now on. s is of this instant, and has nothing of the window.
func (a *Algorithm) Glance(s shedlimit.Sample) int {
	s.InFlight -= s.AtClients
	a.held.hold(&s, a.base.known())
	waiting := a.base.aged(&s)
	a.loan.takeBack(waiting, s.InFlight)
	free := waiting < 1 && !a.loan.doubt && !a.lowered()
	switch {
	case (!a.base.known() || a.base.early && free) && len(s.Ages) > 0:
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
func (a *Algorithm) knocks(quiet time.Duration) bool {
	if !a.base.known() || a.after != steady || a.state == draining {
		return false
	}
	return quiet > a.base.quietFor()
}

// believe updates what is safe, and ends a loan that is not needed.
func (a *Algorithm) believe(w *view) {
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

// LeastOvertaking returns how long a request must take, at least, to overtake others. Faster
// requests may not need the scarce resource, so they prove nothing. Until it is known what is usual,
// all requests overtake others.
func (a *Algorithm) LeastOvertaking() time.Duration {
	if !a.base.known() {
		return 0
	}
	return seconds(notable * a.base.usual)
}
