package adaptive

import "time"

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
	lent  float64 // limit for now, if it is above Algorithm.limit
	safe  float64 // most that may be lent
	few   float64 // requests that may wait meanwhile
	doubt bool    // a loan was taken back, and requests have waited since
}

// takeBack lowers the loan, if more than a few requests wait, to those that do not and a few.
func (l *loan) takeBack(waiting float64, inFlight int) {
	if few := max(l.few, fewOfThose*float64(inFlight)); waiting > few {
		l.lent = min(l.lent, float64(inFlight)-waiting+few)
		l.doubt = true
	}
}
