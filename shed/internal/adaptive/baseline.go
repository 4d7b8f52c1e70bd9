package adaptive

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	lowQuantile = 0.1
	enoughKnown = 20  // completions make a baseline
	fall        = 0.3 // part of the way that a baseline moves towards a faster window

	// A baseline is believed for so long while requests are limited, or for so many windows if that
	// is longer: a probe lasts some windows.
	believed, believedWindows = 30 * time.Second, 60
)

// baselines say how long requests take without a queue.
//
// An example: the fast requests of a route took 20 ms while nothing was limited. That is its
// baseline. Now requests are limited and take 50 ms, so they seem to wait for 30 ms; or a
// dependency has become slower. After 30 s a probe halves the requests in flight. If they now
// take 25 ms, they had waited, and 20 ms stays. If they still take 50 ms and fewer complete, they
// had not waited, and 50 ms becomes the baseline.
type baselines struct {
	routes map[string]*baseline
	usual  float64   // seconds that the requests in flight take, on average
	sure   time.Time // when the baselines were last confirmed; zero: never
	calm   int       // windows in a row that the limit did not bound
	ended  int       // requests that have ever completed
	early  bool      // fewer have completed than are in flight: only the fastest
}

// figures describe the latencies of a route, in seconds.
type figures struct {
	low    float64 // lowQuantile of them
	mean   float64
	spread float64 // their mean square over their mean
	high   float64 // the 99th percentile
}

// measure returns the figures of sorted latencies.
func measure(sorted []time.Duration) figures {
	sum, squares := 0.0, 0.0
	for _, l := range sorted {
		sum += l.Seconds()
		squares += l.Seconds() * l.Seconds()
	}
	last := float64(len(sorted) - 1)
	f := figures{
		low:  sorted[int(lowQuantile*last)].Seconds(),
		mean: sum / float64(len(sorted)),
		high: sorted[int(0.99*last)].Seconds(),
	}
	if sum > 0 {
		f.spread = squares / sum
	}
	return f
}

// baseline says how long requests of a route take without a queue.
type baseline struct {
	figures
	mixture   mixture // of which figures are
	completed int     // requests that it was made of, until there are enough
}

// like returns the figures to compare a window with, whose fastest requests took low seconds and of
// which rate completed a second. sheds reports whether requests were shed in it. If only the slow
// requests of the baseline have come, these are the figures of slow ones. Otherwise they are those
// of b: nil.
//
// An example: 300 requests a second of one client took 1 ms, and 50 of others 400 ms. The client
// leaves, and 50 a second take 400 ms. They have not waited for 399.
func (b *baseline) like(rate, low float64, sheds bool) *figures {
	if low <= b.low {
		return nil
	}
	if from := b.mixture.slow(rate, low, b.low, sheds); from > 0 {
		f := b.mixture.figures(from)
		f.low, f.mean = max(f.low, b.low), max(f.mean, b.mean)
		f.spread, f.high = max(f.spread, b.spread), b.high
		return &f
	}
	return nil
}

// gather adds a window to a baseline that has few completions, or early ones. wait is the mean wait
// of all routes.
func (b *baseline) gather(r seen, wait float64, early bool) {
	if b.completed >= enoughKnown && !early {
		return
	}
	b.completed += r.completed
	part := float64(r.completed) / float64(b.completed)
	b.mixture.learn(&r.mixture, part)
	b.low = min(b.low, r.low)
	b.mean += (max(r.mean-wait, b.low) - b.mean) * part
	b.spread += (max(r.spread-wait, b.mean) - b.spread) * part
	b.high = max(b.high, r.high)
}

// learn moves the baseline towards a window: by the given part if the window was slower, quickly if
// it was faster.
func (b *baseline) learn(r seen, rise float64) {
	part := rise
	if r.low < b.low {
		part = fall // as low does: what is learned of fast requests says how many they are
	}
	b.mixture.learn(&r.mixture, part*float64(r.completed)/float64(r.completed+10))
	toward := func(old *float64, to float64) {
		part := rise
		if to < *old {
			part = fall
		}
		*old += (to - *old) * part * float64(r.completed) / float64(r.completed+10)
	}
	toward(&b.low, r.low)
	toward(&b.mean, max(r.mean-r.wait, b.low))
	toward(&b.spread, max(r.spread-r.wait, b.mean))
	toward(&b.high, r.high)
}

// set makes a window without a queue the baseline.
func (b *baseline) set(r seen) { b.figures, b.mixture = r.figures, r.mixture }

// lower lowers a baseline to a window that was faster, with a queue or without.
func (b *baseline) lower(r seen) {
	if r.low < b.low {
		b.figures = figures{r.low, min(r.mean, b.mean), min(r.spread, b.spread), r.high}
		b.mixture = r.mixture
	}
}

// known reports whether a request has completed.
func (b *baselines) known() bool { return len(b.routes) > 0 }

// learn moves the baselines towards a window without a queue.
func (b *baselines) learn(w *view, now time.Time) {
	free := max(0, 1-w.waiting/w.room)
	for _, r := range w.routes {
		r.base.learn(r, 0.05*free*free)
	}
	if b.calm++; b.calm >= 3 {
		b.sure = now
	}
}

// recover lowers the baselines of routes that are faster than they say although requests are
// limited: a dependency has recovered. A trial will show how fast it is without a queue. It reports
// whether there is such a route.
func (b *baselines) recover(w *view) (faster bool) {
	for _, r := range w.routes {
		gain := r.base.low - r.low
		if r.completed >= 20 && gain > 0.3*r.base.low && gain > 0.3*r.base.mean {
			r.base.learn(r, 0)
			b.sure = time.Time{}
			faster = true
		}
	}
	return faster
}

// unsure reports that a probe has to confirm the baselines: they were learned with a queue, or long
// ago. took is the length of the window.
func (b *baselines) unsure(now time.Time, took time.Duration) bool {
	return b.sure.IsZero() || now.Sub(b.sure) > max(believed, believedWindows*took)
}

// expect sets usual. Slow requests stay in flight longer, so the mean of those in flight
// is the mean square over the mean: if 9 of 10 requests take 10 ms and one 110 ms, it is 65 ms, not
// 20. Requests in flight take at least as long as their ages say. Early on, that is longer.
func (b *baselines) expect(s *shedlimit.Sample, w *view) {
	mean, square := w.moments()
	if w.completed < fewest || mean == 0 {
		return
	}
	b.usual = square / mean
	if b.early && len(s.Ages) > 0 {
		b.usual = max(b.usual, measure(s.Ages).spread)
	}
}

// quietFor returns how long no request may complete before those in flight hang, or are slow.
func (b *baselines) quietFor() time.Duration { return 2 * (mostQuiet + seconds(b.usual)) }

// aged returns how many requests wait, by their ages when a request last completed: they are older
// than usual, and no request that began later has completed. A request that others have overtaken
// is slow, and does not wait.
func (b *baselines) aged(s *shedlimit.Sample) float64 {
	if len(s.Ages) == 0 {
		return 0
	}
	n := older(s.Ages, seconds(old*b.usual)+min(s.Quiet, mostQuiet))
	if s.Overtaken > 0 {
		n -= older(s.Ages, s.Overtaken)
	}
	return float64(max(0, n)*s.InFlight) / float64(len(s.Ages))
}

// overdue returns how many requests have been in flight for twice as long as the slowest request
// of any route. Those that have just completed count among the slowest: in a long queue all are
// old. So a hang shows although nothing completes. A request that others have overtaken is slow,
// and shows no hang.
func (b *baselines) overdue(s *shedlimit.Sample, w *view) int {
	if !b.known() || len(s.Ages) == 0 {
		return 0
	}
	slowest := 0.0
	for _, of := range b.routes {
		slowest = max(slowest, of.high)
	}
	for _, r := range w.routes {
		slowest = max(slowest, r.high)
	}
	n := 0
	for _, age := range s.Ages {
		if age.Seconds() > 2*slowest+0.2 && (s.Overtaken == 0 || age <= s.Overtaken) {
			n++
		}
	}
	return n * s.InFlight / len(s.Ages)
}

// older returns how many ages, the longest first, are above than.
func older(ages []time.Duration, than time.Duration) int {
	n, _ := slices.BinarySearchFunc(ages, than, func(age, t time.Duration) int {
		return cmp.Compare(t, age)
	})
	return n
}
