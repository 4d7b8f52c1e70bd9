package adaptive

import (
	"math"
	"time"
)

// trial is a decrease whose effect shows whether requests wait. If they do, latency falls and
// throughput does not. If they do not, throughput falls and latency does not; then the decrease is
// undone, and the latencies of now become the baselines. So a slower dependency is learned.
//
// An example: 100 requests are in flight, 500 complete a second in 200 ms each, and the baseline is
// 100 ms. So 50 seem to wait. 10 may, so the limit falls to 60. Then there are two cases:
//
//	500 a second complete in 120 ms   they had waited: the limit stays
//	300 a second complete in 200 ms   they had not: the limit is 100 again, the baseline 200 ms
type trial struct {
	from     float64 // limit before the first of several decreases or probes in a row
	full     float64 // completions a second then, or before a later decrease if that is more
	confirms bool    // it is a probe of baselines that were confirmed before
	ends     time.Time
	limit    float64 // before
	inFlight float64 // before
	rate     float64 // completions a second, before
	work     float64 // see view.busy, before
	low      map[*baseline]float64
	seen     *view // all windows since then
}

const (
	deepCut  = 0.75 // part of the requests in flight; a decrease to more shows nothing
	enough   = 0.2  // part of the requests in flight that a trial must take away
	longWait = 10 * time.Second
	judged   = 40.0 // completions that show a small difference, if all take the same time
)

// verdict says what a trial has shown.
type verdict uint8

const (
	early   verdict = iota // nothing yet
	untried                // nothing: the load has fallen meanwhile
	starved                // the service had too few requests to be busy
	busy                   // the service had enough
)

// judge compares the windows under the lower limit with the time before. latency is how many times
// as long fast requests take.
func (t *trial) judge(now time.Time, w *view) (v verdict, latency float64) {
	if t.seen != nil {
		t.seen.join(w)
		w = t.seen
	}
	t.seen = w
	tried := w.limited && t.inFlight-w.inFlight >= enough*t.inFlight
	if now.Before(t.ends) && float64(w.completed) < judged*w.noise {
		// These are too few to show a small difference. A large one shows at once, and so does a
		// baseline that holds.
		if w.completed < fewest || !tried {
			return early, 1
		}
		confirmed := t.confirms && w.pace() < 1.1
		if _, starved := t.effect(w, 2); !starved && !confirmed {
			return early, 1
		}
	}
	if w.completed < fewest || !tried {
		return untried, 1
	}
	latency, few := t.effect(w, 1.5)
	if few {
		return starved, latency
	}
	return busy, latency
}

// effect returns how many times as long fast requests take as before, and whether the service had
// too few requests to be busy, by more than that many standard deviations.
//
// Throughput is in work: fewer requests complete if more of them are slow ones.
func (t *trial) effect(w *view, deviations float64) (latency float64, starved bool) {
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
	waited := (before - low) / rate * t.rate / fewer // 1: all that are gone had waited
	noise := deviations * math.Sqrt(w.noise/float64(w.completed))
	return low / before, waited < 0.7 && fell > max(0.12, 0.3*fewer/t.inFlight, noise)
}
