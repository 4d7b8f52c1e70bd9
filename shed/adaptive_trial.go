package shed

import (
	"math"
	"time"
)

// trial is a decrease whose effect shows whether requests wait. If they do, latency falls and throughput does not. If
// they do not, throughput falls and latency does not; then the decrease is undone, and what requests take now becomes
// their baseline. That is how a slower dependency is learned.
type trial struct {
	on       bool
	probe    bool // only to learn
	ends     time.Time
	limit    float64 // before
	inFlight float64 // before
	rate     float64 // completions a second, before
	work     float64 // see view.busy, before
	low      map[*baseline]float64
	seen     *view // since
}

const (
	deepCut  = 0.75 // part of those in flight; a decrease to more says nothing
	enough   = 0.2  // part of those in flight that a trial must take away
	longWait = 10 * time.Second
	judged   = 40.0 // completions that show a small difference, if all take the same
)

// try lowers the limit because too many wait.
func (a *adaptive) try(w *view, goal float64) {
	a.calm = 0
	a.known = a.limit
	a.begin(w, goal)
}

// probe lowers the limit because it is not known how many wait.
func (a *adaptive) probe(w *view) {
	a.begin(w, min(w.busy, w.inFlight/2))
	a.trial.probe = true
}

func (a *adaptive) begin(w *view, goal float64) {
	a.from = max(a.from, a.reached(w))
	a.full = max(a.full, min(w.rate, a.rate))
	a.trial = trial{
		on:       max(goal, mostCut*w.now) < deepCut*w.inFlight,
		ends:     a.now.Add(longWait + 4*w.typical),
		limit:    a.reached(w),
		inFlight: w.inFlight, rate: min(w.rate, a.rate), work: min(w.busy, a.work),
		low: make(map[*baseline]float64, len(w.routes)),
	}
	for _, r := range w.routes {
		a.trial.low[r.base] = r.low
	}
	a.cut(w, goal)
}

// judge compares what is seen under the lower limit with what was before.
func (a *adaptive) judge(w *view) {
	t := &a.trial
	if t.seen != nil {
		t.seen.join(w)
		w = t.seen
	}
	t.seen = w
	tried := w.limited && t.inFlight-w.inFlight >= enough*t.inFlight
	if a.now.Before(t.ends) && float64(w.completed) < judged*w.noise {
		// Too few for a small difference. A large one shows at once, and so does a baseline that still holds.
		if w.completed < fewest || !tried {
			return
		}
		confirmed := t.probe && !a.sure.IsZero() && w.pace() < 1.1
		if _, starved := a.effect(w, 2); !starved && !confirmed {
			return
		}
	}
	switch {
	case w.completed < fewest, !tried:
		t.on = false // load has fallen: nothing was tried
		if t.probe {
			a.limit = t.limit
		}
		return
	}
	t.on = false
	switch latency, starved := a.effect(w, 1.5); {
	case latency > 1.1 && !t.probe:
		// The service has become slower meanwhile. If the trial has cost throughput, try again what is so now.
		if starved {
			a.limit = t.limit
		}
	case starved:
		for _, r := range w.routes {
			r.base.set(r)
		}
		a.sure = a.now
		a.limit = max(t.limit, min(a.from, a.needs(w)))
		a.from, a.full = 0, 0
		a.drain.left, a.drain.cleanAt = w.now, a.now.Add(w.typical)
	case !t.probe:
		a.sure = a.now
	default:
		pace := w.pace()
		for _, r := range w.routes {
			r.base.lower(r)
		}
		// While latency falls there may be less of a queue still, unless what was known holds.
		if !a.sure.IsZero() || latency > 0.9 || pace > 0.85 && pace < 1.1 || a.limit < 4 {
			a.sure = a.now
			a.limit = t.limit
		}
	}
}

// needs returns the limit with which as many complete as before several decreases, by what they take now.
func (a *adaptive) needs(w *view) float64 {
	t := &a.trial
	work, wait := 0.0, 0.0
	for _, r := range w.routes {
		work += r.rate * r.base.mean
		wait += r.rate * (evenWait*r.base.mean + unevenWait*w.gaps*max(0, r.base.spread-r.base.mean))
	}
	if w.rate == 0 {
		return 0
	}
	return a.full / w.rate * (work + wait) * max(1, t.limit/t.inFlight)
}

// effect returns how many times as long fast requests take as before, and whether the service had
// too few requests to be busy, by more than that many standard deviations.
//
// Throughput is in work, since fewer requests complete if more of them are of a slow route.
func (a *adaptive) effect(w *view, deviations float64) (latency float64, starved bool) {
	t := &a.trial
	low, before, rate := 0.0, 0.0, 0.0
	for _, r := range w.routes {
		if l, ok := t.low[r.base]; ok {
			low += r.rate * r.low
			before += r.rate * l
			rate += r.rate
		}
	}
	if rate == 0 || before == 0 || t.work == 0 {
		return 1, false
	}
	fewer := t.inFlight - w.inFlight
	fell := 1 - w.busy/t.work
	waited := (before - low) / rate * t.rate / fewer // 1: all that are fewer had waited
	noise := deviations * math.Sqrt(w.noise/float64(w.completed))
	return low / before, waited < 0.7 && fell > max(0.12, 0.3*fewer/t.inFlight, noise)
}

// pace returns how many times as long fast requests take as their baselines say.
func (w *view) pace() float64 {
	low, base := 0.0, 0.0
	for _, r := range w.routes {
		low += r.rate * r.low
		base += r.rate * r.base.low
	}
	if base == 0 {
		return 1
	}
	return low / base
}
