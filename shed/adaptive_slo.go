package shed

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// punctuality judges each route by the SLO: a route is late if a tenth of its answers are. It sets
// what goal and grow read: w.excess is by how much the requests in flight should fall, w.needed
// bounds the fall, and w.nearly keeps the limit from growing.
//
// A lower limit shortens queues, and nothing else. seen.wait estimates how long requests of a route
// wait in queues: 10 ms if its fast ones take 30 ms, and 20 ms in its baseline. If a route would be
// late even without that wait, no request is shed for it. Otherwise a client could have others shed
// by asking for slow work on purpose.
func (w *view) punctuality(s *shedlimit.Sample) {
	withoutExcess := 0.0    // mean number of requests in flight on routes that have no excess
	var rest seen           // routes with few completions, together
	var few []time.Duration // their latencies; no Ends, which are of requests that failed or left
	judge := func(r *seen, p90 time.Duration) {
		over := func(slo time.Duration) float64 {
			late := (p90 - slo).Seconds()
			if late > r.wait { // it would be late without a queue
				return 0
			}
			return max(0, late)
		}
		excess := over(s.SLO)
		w.excess += r.rate * excess
		w.nearly = w.nearly || over(s.SLO*9/10) > 0
		if excess == 0 {
			withoutExcess += r.rate * r.mean
		} else {
			w.needed += r.rate * (r.mean - r.wait) // in flight if none waited
		}
	}
	i := 0 // in w.routes, which has only the routes with latencies
	for at := range s.Routes {
		sample := &s.Routes[at]
		if len(sample.Latencies) == 0 {
			continue
		}
		r := &w.routes[i]
		i++
		if r.completed < fewest {
			few = append(few, sample.Latencies...)
			rest.rate += r.rate // mean and wait are sums by rate, until they are divided below
			rest.mean += r.rate * r.mean
			rest.wait += r.rate * r.wait
			continue
		}
		judge(r, ninth(sample.Latencies, sample.Ends))
	}
	if len(few) >= fewest {
		slices.Sort(few)
		rest.mean /= rest.rate
		rest.wait /= rest.rate
		judge(&rest, ninth(few, nil))
	} else {
		withoutExcess += rest.mean // still a sum by rate
	}
	if n := withoutExcess; n > 0 {
		w.needed += n + 3*math.Sqrt(n) + 1 // three standard deviations for chance, and one more
	}
}

// ninth returns the ninth decile of a and b together, both of which are sorted: of n latencies the
// one at index n*9/10. So at least a tenth of them are that long or longer.
func ninth(a, b []time.Duration) time.Duration {
	// Drop the latencies above it, the longest first.
	for above := (len(a) + len(b)) - (len(a)+len(b))*9/10 - 1; above > 0; above-- {
		if len(a) == 0 || len(b) > 0 && b[len(b)-1] > a[len(a)-1] {
			b = b[:len(b)-1]
		} else {
			a = a[:len(a)-1]
		}
	}
	switch {
	case len(a) == 0:
		return b[len(b)-1]
	case len(b) == 0:
		return a[len(a)-1]
	}
	return max(a[len(a)-1], b[len(b)-1])
}
