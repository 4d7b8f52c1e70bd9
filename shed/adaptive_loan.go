package shed

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Before a service is busy, its limit follows what was in flight of late. If more come at once, the next window is too late.
// So the limiter asks before it sheds. As long as nobody waits, by the ages of those in flight, it lends as much as was safe
// before, and takes that back at once if requests wait.

const (
	firstUsual  = 1.0                   // seconds; see baselines.usual
	firstWindow = 25 * time.Millisecond // until a request has completed
	firstGrowth = 100 * time.Millisecond
	firstTimes  = 4 // startLimit may be lent until then and while it is early, one more each firstGrowth

	old        = 1.3 // times baselines.usual
	notable    = 0.5 // times that
	mostQuiet  = 100 * time.Millisecond
	fewOfThose = 1.0 / 8 // in flight may wait while a loan lasts
)

// loan is what is lent.
type loan struct {
	lent  float64 // limit for now, if that is more: see glance
	safe  float64 // may be lent
	few   float64 // may wait meanwhile
	doubt bool    // one was taken back, and requests have waited since
}

// glanceFrom is of a glancer.
func (a *adaptive) glanceFrom() (inFlight int, ok bool) {
	lends := len(a.base.routes) == 0 || a.limit < max(a.loan.safe, a.loan.lent)
	return int(math.Round(a.limit)) + a.places(), lends && !a.lowered()
}

// glance is of a glancer.
func (a *adaptive) glance(s Sample) int {
	s.InFlight -= s.AtClients
	waiting := a.aged(&s)
	a.takeBack(waiting, s.InFlight)
	free := waiting < 1 && !a.loan.doubt
	switch {
	case (len(a.base.routes) == 0 || a.base.early && free) && len(s.Ages) > 0:
		a.loan.lent = max(a.loan.lent, startLimit*min(firstTimes, 1+s.Ages[0].Seconds()/firstGrowth.Seconds()))
	case free:
		a.loan.lent = max(a.loan.lent, a.loan.safe)
	}
	return a.inForce(s.MaxLimit)
}

// takeBack lowers the loan to what is in flight without waiting, if more than a few wait.
func (a *adaptive) takeBack(waiting float64, inFlight int) {
	if few := max(a.loan.few, fewOfThose*float64(inFlight)); waiting > few {
		a.loan.lent = min(a.loan.lent, float64(inFlight)-waiting+few)
		a.loan.doubt = true
	}
}

// believe takes from a window what is safe, and ends a loan that is not needed.
func (a *adaptive) believe(w *view) {
	switch {
	case a.lowered():
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

// expect takes from a window what is usual. The longer requests take, the more of those in flight are such. So it
// is their mean square over their mean. Those in flight take at least as long as they have: early on, that is longer.
func (a *adaptive) expect(s *Sample, w *view) {
	mean, square := w.moments()
	if w.completed < fewest || mean == 0 {
		return
	}
	a.base.usual = square / mean
	if a.base.early && len(s.Ages) > 0 {
		a.base.usual = max(a.base.usual, measure(s.Ages).spread)
	}
}

// aged returns how many wait, by their ages when a request has last completed: they are older than usual, and none that
// began later has completed. One that others have overtaken is slow, and waits for nobody.
func (a *adaptive) aged(s *Sample) float64 {
	if len(s.Ages) == 0 {
		return 0
	}
	older := func(than time.Duration) int {
		n, _ := slices.BinarySearchFunc(s.Ages, than, func(age, t time.Duration) int { return cmp.Compare(t, age) })
		return n
	}
	n := older(seconds(old*a.base.usual) + min(s.quiet, mostQuiet))
	if s.overtaken > 0 {
		n -= older(s.overtaken)
	}
	return float64(max(0, n)*s.InFlight) / float64(len(s.Ages))
}

// overtakes is of a glancer. Until it is known what is usual, all requests overtake others.
func (a *adaptive) overtakes() time.Duration {
	if len(a.base.routes) == 0 {
		return 0
	}
	return seconds(notable * a.base.usual)
}
