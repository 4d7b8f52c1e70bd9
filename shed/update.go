package shed

import (
	"cmp"
	"slices"
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

// updateLocked asks the algorithm for the limit and begins a window.
func (l *limiter) updateLocked(now instant) {
	limit := l.limit
	if !returns(func() { limit = l.algorithm.Update(l.sampleLocked(now)) }) {
		l.panics++
	}
	l.updates++
	l.common = 0
	if g, ok := l.algorithm.(glancer); ok {
		l.common, l.overtaking.least = g.Places(), g.LeastOvertaking()
	}
	l.setLimitLocked(limit)
	l.window.begin(now, l.inFlight)
	l.window.bounds = l.boundsLocked()
}

// boundsLocked returns the bounds of the next window.
func (l *limiter) boundsLocked() bounds {
	b := usualBounds
	a, ok := l.algorithm.(shedlimit.Windower)
	if !ok {
		return b
	}
	if !returns(func() { b.least, b.most, b.enough = a.Window() }) {
		l.panics++
	}
	// With less than a millisecond, each request could end a window.
	b.least, b.most = max(b.least, time.Millisecond), max(b.most, time.Millisecond)
	return b
}

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

// setLimitLocked puts a limit into force.
func (l *limiter) setLimitLocked(limit int) {
	l.limit = min(max(limit, l.classes.least()), l.maxLimit)
	l.classes.divide(l.limit, l.common)
}

// glanceLocked calls Glance, if it is time, before the limiter decides a request that may enter
// while fewer than full are in flight.
func (l *limiter) glanceLocked(full int, now instant) {
	g, ok := l.algorithm.(glancer)
	if !ok || now-l.glanced < glanceEvery {
		return
	}
	inFlight, age := g.GlanceFrom()
	if l.inFlight < min(inFlight, full) || l.oldestLocked(now) < age {
		return
	}
	l.glanced = now
	s := shedlimit.Sample{Now: l.epoch.Add(now), InFlight: l.inFlight, MaxLimit: l.maxLimit}
	l.agesLocked(&s, now)
	l.overtaking.describe(&s, now)
	limit := g.Glance(s)
	l.common = g.Places()
	l.setLimitLocked(limit)
}

// oldestLocked returns how long the oldest request has been in flight, or 0.
func (l *limiter) oldestLocked(now instant) time.Duration {
	if oldest := l.running.First; oldest != nil {
		return max(0, now-oldest.Of.start)
	}
	return 0
}

// sampleLocked returns what the window has seen until now.
func (l *limiter) sampleLocked(now instant) shedlimit.Sample {
	w := &l.window
	s := shedlimit.Sample{
		Now: l.epoch.Add(now), Elapsed: now - w.start,
		Limit: l.limit, MinLimit: l.classes.least(), MaxLimit: l.maxLimit, Bounded: l.bounded,
		SLO:      l.slo,
		InFlight: l.inFlight, PeakInFlight: w.peak,
		Admitted: w.admitted, Shed: w.shed,
		Completed: w.completed, Failed: w.failed, Left: w.left,
		Routes: w.sampleRoutes(),
	}
	w.addTime(l.inFlight, now)
	l.agesLocked(&s, now) // brings w.atClients up to now
	l.overtaking.describe(&s, now)
	if s.Elapsed > 0 {
		s.MeanInFlight = w.inFlightTime / float64(s.Elapsed)
		s.MeanAtClients = min(float64(w.atClients)/float64(s.Elapsed), s.MeanInFlight)
	}
	return s
}

// agesLocked sets AtClients and Ages of s. It calls noteClient for each request in flight.
func (l *limiter) agesLocked(s *shedlimit.Sample, now instant) {
	w := &l.window
	w.ages = w.ages[:0]
	for n := l.running.First; n != nil; n = n.Next {
		if w.noteClient(n.Of, now) {
			s.AtClients++
			continue
		}
		w.ages = append(w.ages, n.Of.age(now))
	}
	s.Ages = thin(w.ages)
	longestFirst := func(a, b time.Duration) int { return cmp.Compare(b, a) }
	slices.SortFunc(s.Ages, longestFirst)
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
