package shed

import "time"

// baselines are what is known of routes without a queue.
type baselines struct {
	routes map[string]*baseline
	usual  float64   // seconds that a request takes that is in flight, on average
	sure   time.Time // when they were last confirmed; zero: never
	calm   int       // windows in a row that were not limited
	ended  int       // requests that have ever completed
	early  bool      // fewer have than are in flight: the fastest of those that began
}

// figures are what latencies of a route amount to, in seconds.
type figures struct {
	low    float64 // lowQuantile of them
	mean   float64
	spread float64 // their mean square over their mean
	high   float64 // few are longer
}

const lowQuantile = 0.1

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

// baseline is what is known of a route without a queue.
type baseline struct {
	figures
	completed int // that it was made of, as long as they are few
}

// enoughKnown is how many completions make a baseline. The first ones alone are the fastest.
const enoughKnown = 20

// gather adds what a window saw to a baseline of few, or of early ones. wait is for how long a request of any route waits.
func (b *baseline) gather(r seen, wait float64, early bool) {
	if b.completed >= enoughKnown && !early {
		return
	}
	b.completed += r.completed
	part := float64(r.completed) / float64(b.completed)
	b.low = min(b.low, r.low)
	b.mean += (max(r.mean-wait, b.low) - b.mean) * part
	b.spread += (max(r.spread-wait, b.mean) - b.spread) * part
	b.high = max(b.high, r.high)
}

// learn moves the baseline towards what a window saw: by the given part if that is slower, quickly
// if it is faster.
func (b *baseline) learn(r seen, rise float64) {
	toward := func(old *float64, to float64) {
		part := rise
		if to < *old {
			part = 0.3
		}
		*old += (to - *old) * part * float64(r.completed) / float64(r.completed+10)
	}
	toward(&b.low, r.low)
	toward(&b.mean, max(r.mean-r.wait, b.low))
	toward(&b.spread, max(r.spread-r.wait, b.mean))
	toward(&b.high, r.high)
}

// set makes what a window without a queue saw the baseline.
func (b *baseline) set(r seen) { b.figures = r.figures }

// lower does so if it was faster, with a queue or without.
func (b *baseline) lower(r seen) {
	if r.low < b.low {
		b.figures = figures{r.low, min(r.mean, b.mean), min(r.spread, b.spread), r.high}
	}
}

// learn takes the latencies of a window into the baselines.
func (a *adaptive) learn(w *view) {
	if w.limited {
		// A dependency has recovered. How fast it is without a queue, a trial will show.
		for _, r := range w.routes {
			gain := r.base.low - r.low
			if r.completed >= 20 && gain > 0.3*r.base.low && gain > 0.3*r.base.mean {
				r.base.learn(r, 0)
				a.base.sure = time.Time{}
				a.recent.rate, a.recent.work = 0, 0 // of a slower service
			}
		}
		return
	}
	free := max(0, 1-w.waiting/w.room)
	for _, r := range w.routes {
		r.base.learn(r, 0.05*free*free)
	}
	if a.base.calm++; a.base.calm >= 3 {
		a.base.sure = a.now
	}
}
