package shed

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/proof/overload"
)

// The bounds of the limit in both algorithms, as in their most used implementation.
const (
	initialLimit = 20
	highestLimit = 200
	windowSize   = 10 // minimal number of completions in a window
)

// algorithm computes the limit from the latencies of a window.
type algorithm interface {
	// window returns the length of a window for the mean latency of the previous one.
	window(mean time.Duration) time.Duration
	update(limit float64, least, mean time.Duration, most int) float64
}

// windowed is a limiter that calls its algorithm once per window.
type windowed struct {
	algorithm algorithm
	limit     float64
	inFlight  int

	began time.Time
	mean  time.Duration // of the previous window
	least time.Duration
	sum   time.Duration
	n     int
	most  int
}

func newWindowed(a algorithm) overload.Limiter {
	return &windowed{algorithm: a, limit: initialLimit, began: time.Now()}
}

func (w *windowed) Enter(overload.Request) (func(bool), bool) {
	if w.inFlight >= int(w.limit) {
		return nil, false
	}
	w.inFlight++
	w.most = max(w.most, w.inFlight)
	start := time.Now()
	return func(failed bool) { w.ended(time.Since(start), failed) }, true
}

func (w *windowed) ended(took time.Duration, failed bool) {
	w.inFlight--
	if failed {
		return
	}
	if w.n == 0 || took < w.least {
		w.least = took
	}
	w.sum += took
	w.n++
	if w.n < windowSize || time.Since(w.began) < w.algorithm.window(w.mean) {
		return
	}
	w.mean = w.sum / time.Duration(w.n)
	w.limit = min(max(w.algorithm.update(w.limit, w.least, w.mean, w.most), 1), highestLimit)
	w.began, w.sum, w.n, w.most = time.Now(), 0, 0, w.inFlight
}

// vegas is TCP Vegas with requests in flight for the congestion window: Brakmo, O'Malley and
// Peterson, "TCP Vegas: New Techniques for Congestion Detection and Avoidance", SIGCOMM 1994. α is
// 2, β is 4, γ is 1.
type vegas struct {
	base    time.Duration
	steady  bool // slow start is over
	holding bool // slow start grows in every other round trip
}

func (v *vegas) window(mean time.Duration) time.Duration { return mean } // one round trip

func (v *vegas) update(limit float64, least, mean time.Duration, most int) float64 {
	if v.base == 0 || least < v.base {
		v.base = least
	}
	queued := limit * (1 - float64(v.base)/float64(mean))
	switch {
	case float64(most) < limit/2: // the window was not used
		return limit
	case !v.steady && queued > 1:
		v.steady = true
		return limit * 7 / 8
	case !v.steady:
		if v.holding = !v.holding; v.holding {
			return limit
		}
		return 2 * limit
	case queued < 2:
		return limit + 1
	case queued > 4:
		return limit - 1
	}
	return limit
}

// gradient2 is the algorithm that Netflix published with its library concurrency-limits, written
// from its description: a long and a short average of latencies, tolerance 1.5, a queue of 4,
// smoothing 0.2.
type gradient2 struct{ long float64 }

func (g *gradient2) window(time.Duration) time.Duration { return time.Second }

func (g *gradient2) update(limit float64, _, mean time.Duration, most int) float64 {
	const age, tolerance, queue, smoothing = 600, 1.5, 4, 0.2
	short := float64(mean)
	if g.long == 0 {
		g.long = short
	}
	g.long += (short - g.long) * 2 / (age + 1)
	if g.long/short > 2 { // recovers from overload
		g.long *= 0.95
	}
	if float64(most) < limit/2 {
		return limit
	}
	gradient := math.Max(0.5, math.Min(1, tolerance*g.long/short))
	return max(initialLimit, limit*(1-smoothing)+(limit*gradient+queue)*smoothing)
}
