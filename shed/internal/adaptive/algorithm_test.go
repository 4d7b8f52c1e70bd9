package adaptive

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// While a slow route becomes more frequent, fewer requests complete, and as much is done.
func TestATrialIsJudgedByWork(t *testing.T) {
	fast := &baseline{figures: figures{low: 0.001, mean: 0.002, spread: 0.002, high: 0.003}}
	slow := &baseline{figures: figures{low: 0.08, mean: 0.1, spread: 0.1, high: 0.12}}
	a := New()
	a.trial = trial{inFlight: 40, rate: 1150, work: 8, low: map[*baseline]float64{fast: 0.02, slow: 0.1}}
	w := func(fasts, slows int) *view {
		return &view{completed: fasts + slows, rate: float64(fasts + slows), inFlight: 20, noise: 1, limited: true,
			busy: float64(fasts)*fast.mean + float64(slows)*slow.mean,
			routes: []seen{
				{figures: figures{low: 0.02}, base: fast, completed: fasts, rate: float64(fasts)},
				{figures: figures{low: 0.1}, base: slow, completed: slows, rate: float64(slows)},
			}}
	}
	if _, starved := a.trial.effect(w(300, 75), 1.5); starved {
		t.Error("375 requests of 8.1 s of work after 1,150 of 8 s: throughput is said to have fallen")
	}
	if _, starved := a.trial.effect(w(540, 29), 1.5); !starved {
		t.Error("half of the work of before: throughput is said not to have fallen")
	}
}

func TestNothingGrowsFastWhileRequestsAreOlderThanUsual(t *testing.T) {
	for _, c := range []struct {
		name               string
		known, peak, limit float64
		w                  view
		least, most        float64
	}{
		{"limited, all young", 0, 0, 13, view{limited: true, room: 4}, 20, 21},
		{"limited", 0, 0, 13, view{limited: true, room: 4, aged: 4}, 13, 15},
		{"below a known limit, all young", 20, 0, 12, view{limited: true, room: 4}, 17, 20},
		{"below a known limit", 20, 0, 12, view{limited: true, room: 4, aged: 4, typical: time.Second / 2}, 12, 13},
		{"unlimited, all young", 0, 14, 17, view{room: 4}, 20, 22},
		{"unlimited", 0, 14, 17, view{room: 4, aged: 4}, 17, 17},
	} {
		a := New()
		a.limit, a.queue.known, a.recent.peak = c.limit, c.known, c.peak
		a.grow(&shedlimit.Sample{Elapsed: time.Second}, &c.w)
		if a.limit < c.least || a.limit > c.most {
			t.Errorf("%s: limit %g becomes %.1f, want %g to %g", c.name, c.limit, a.limit, c.least, c.most)
		}
	}
}

// known returns an algorithm that knows one route, of requests that take 200 ms, and a function
// that tells it of windows of 2 s with so many completions of that latency.
func known(limit float64) (a *Algorithm, window func(completed int, latency time.Duration, inFlight, shed int)) {
	a = New()
	now := time.Unix(1e9, 0)
	a.now, a.base.sure, a.limit, a.loan.safe, a.loan.lent, a.base.ended = now, now, limit, 0, 0, 1000
	a.base.routes["/"] = &baseline{figures: figures{low: 0.2, mean: 0.2, spread: 0.2, high: 0.2}}
	return a, func(completed int, latency time.Duration, inFlight, shed int) {
		now = now.Add(2 * time.Second)
		latencies := make([]time.Duration, completed)
		for i := range latencies {
			latencies[i] = latency
		}
		ages := make([]time.Duration, inFlight)
		for i := range ages {
			ages[i] = latency
		}
		a.Update(shedlimit.Sample{
			Ages:         ages,
			Now:          now,
			Elapsed:      2 * time.Second,
			MaxLimit:     500,
			Completed:    completed,
			Shed:         shed,
			InFlight:     inFlight,
			PeakInFlight: inFlight,
			MeanInFlight: float64(inFlight),
			Routes:       []shedlimit.RouteSample{{Route: "/", Completed: completed, Latencies: latencies}},
		})
	}
}

func TestAQueueThatTheLimitDidNotBoundIsABurstUntilASecondWindow(t *testing.T) {
	a, window := known(20)
	window(10, 1200*time.Millisecond, 7, 0)
	if a.limit != 7 {
		t.Errorf("a queue in one window of 2 s: limit %.1f, want the 7 that are in flight", a.limit)
	}
	window(10, 1200*time.Millisecond, 7, 0)
	if a.limit > 5.5 {
		t.Errorf("a queue in two windows: limit %.1f, want 1 that is busy and 4 that wait", a.limit)
	}
	a, window = known(7)
	window(10, 1200*time.Millisecond, 7, 3)
	if a.limit > 5.5 {
		t.Errorf("a queue that fills the limit, in one window of 2 s: limit %.1f, want 1 that is busy and 4 that wait",
			a.limit)
	}
}

func TestWindowsWithFewCompletionsConfirmBaselines(t *testing.T) {
	a, window := known(20)
	a.base.sure = time.Time{}
	for range 3 {
		window(fewest-1, 200*time.Millisecond, 1, 0)
	}
	if a.base.unsure(a.now, time.Second) {
		t.Error("after three windows without a queue the baseline still has to be tried")
	}
	if a.now = a.now.Add(time.Minute); !a.base.unsure(a.now, time.Second/4) {
		t.Error("after a minute under load the baseline need not be tried")
	}
	if a.base.unsure(a.now, 2*time.Second) {
		t.Error("a probe every minute, with windows of 2 s")
	}
}

// tried returns an algorithm in a trial that took half of those in flight away, and the view of a
// window since: requests of 50 ms, by a baseline of 20 ms.
func tried(t trial, completed int) (*Algorithm, *view) {
	a := New()
	a.now = time.Unix(1e9, 0)
	a.base.sure, a.limit, a.loan.lent = a.now, 10, 0
	base := &baseline{figures: figures{low: 0.02, mean: 0.02, spread: 0.02, high: 0.02}}
	t.ends = a.now.Add(time.Hour)
	t.limit, t.inFlight, t.rate, t.work = 20, 20, 400, 8
	t.low = map[*baseline]float64{base: 0.05}
	a.trial, a.state, a.after = t, trying, trying
	return a, &view{completed: completed, rate: 200, inFlight: 10, now: 10, noise: 1, limited: true, busy: 4, took: 1,
		routes: []seen{
			{
				figures:   figures{low: 0.05, mean: 0.05, spread: 0.05, high: 0.05},
				base:      base,
				completed: completed,
				rate:      200,
			},
		}}
}

func TestAnUndoneDecreaseGoesToWhatWasLearnedToBeNeeded(t *testing.T) {
	// 400 a second of 50 ms each are 20, and 0.6 of these may wait.
	for _, c := range []struct{ from, want float64 }{{100, 32}, {25, 25}, {15, 20}} {
		a, w := tried(trial{}, 200)
		a.trial.from, a.trial.full = c.from, 400
		a.state = a.trying(nil, w)
		if a.after != steady || math.Abs(a.limit-c.want) > 0.1 {
			t.Errorf("limit %g before several decreases, 20 before the last: undone to %.1f, want %g",
				c.from, a.limit, c.want)
		}
	}
}

// A probe may follow another one. The last of them, undone, goes back to before the first.
func TestProbesInARowRememberWhatWasBefore(t *testing.T) {
	a, w := tried(trial{}, 200)
	a.recent.rate, a.recent.work = 400, 8
	w.rate, w.inFlight, w.now = 400, 40, 40
	a.limit = 40
	a.probe(w)
	if a.trial.from != 40 || a.trial.full != 400 {
		t.Errorf("after a probe at 40 in flight and 400 a second: remembers %g and %g", a.trial.from, a.trial.full)
	}
	w.rate, w.inFlight, w.now = 300, 12, 12
	a.probe(w)
	if a.trial.from != 40 || a.trial.full != 400 {
		t.Errorf("after a second one at 12 in flight and 300 a second: remembers %g and %g, want 40 and 400",
			a.trial.from, a.trial.full)
	}
}

func TestALargeEffectIsJudgedAtOnce(t *testing.T) {
	for _, c := range []struct {
		completed int
		work      float64 // of 8 before
		undone    bool
	}{{20, 4, true}, {20, 6.4, false}, {fewest - 1, 4, false}} {
		a, w := tried(trial{}, c.completed)
		w.busy = c.work
		a.state = a.trying(nil, w)
		if (a.state == trying) == c.undone || (a.limit >= 20) != c.undone {
			t.Errorf("%d completions, work %g instead of 8: %v, limit %.1f; undone: want %t",
				c.completed, c.work, a.state, a.limit, c.undone)
		}
	}
}

func TestAProbeEndsOnceItsBaselineIsSeen(t *testing.T) {
	judged := func(change func(*Algorithm, *view)) *Algorithm {
		a, w := tried(trial{confirms: true}, 10)
		a.base.sure = a.now.Add(-time.Minute)
		w.busy = 8
		w.routes[0].low = 0.021
		change(a, w)
		a.state = a.probing(nil, w)
		return a
	}
	if a := judged(func(*Algorithm, *view) {}); a.state != steady || a.limit != 20 || a.base.sure != a.now {
		t.Errorf("requests as fast as the baseline: %v, limit %.1f, want the 20 of before", a.state, a.limit)
	}
	if a := judged(func(_ *Algorithm, w *view) { w.routes[0].low = 0.03 }); a.state != probing {
		t.Error("requests slower than the baseline: the probe has ended")
	}
	if a := judged(func(a *Algorithm, _ *view) { a.trial.confirms = false }); a.state != probing {
		t.Error("a baseline that was learned with a queue: the probe has ended")
	}
}

func TestTheFirstDecreaseDoesNotWaitForTheQueueToComplete(t *testing.T) {
	// Requests take 200 ms without a queue. Those in flight are older.
	a, window := known(18)
	if window(10, 300*time.Millisecond, 18, 5); a.limit > 6 {
		t.Errorf("limit %.1f before the first decrease, want 1 that is busy and 4 that wait, nearly", a.limit)
	}
	a, window = known(18)
	a.queue.known = 30
	if window(10, 300*time.Millisecond, 18, 5); a.limit < 18 {
		t.Errorf("limit %.1f after an earlier decrease, want to wait whether a queue stands", a.limit)
	}
}

// An SLO of 300 ms. A baseline says what a route takes without a queue, a latency what it takes
// now.
func TestARouteIsLateIfItWouldBeOnTimeWithoutAQueue(t *testing.T) {
	const ms = time.Millisecond
	type route struct {
		baseline, latency time.Duration
		completed         int // in a second
	}
	fast := route{5 * ms, 5 * ms, 100}
	for _, c := range []struct {
		name           string
		routes         []route
		excess, needed float64
		nearly         bool
	}{
		{"all are on time", []route{fast}, 0, 0.5 + 3*math.Sqrt(0.5) + 1, false},
		{"one waits for too long", []route{{50 * ms, 400 * ms, 100}}, 10, 5, true},
		{"and the other is on time", []route{{50 * ms, 400 * ms, 100}, fast}, 10, 5 + 0.5 + 3*math.Sqrt(0.5) + 1, true},
		{"one nearly waits for too long", []route{{50 * ms, 280 * ms, 100}}, 0, 28 + 3*math.Sqrt(28) + 1, true},
		{"one is as slow as that", []route{{400 * ms, 400 * ms, 100}, fast}, 0, 40.5 + 3*math.Sqrt(40.5) + 1, false},
		{"one would be late without waiting, too", []route{{350 * ms, 400 * ms, 100}}, 0, 40 + 3*math.Sqrt(40) + 1, false},
		{"few together wait for too long", []route{{50 * ms, 400 * ms, 4}, {50 * ms, 400 * ms, 4}}, 0.8, 0.4, true},
		{"one of few does", []route{{5 * ms, 400 * ms, 1}, {5 * ms, 5 * ms, 4}}, 0, 0.42 + 3*math.Sqrt(0.42) + 1, false},
	} {
		a := New()
		s := shedlimit.Sample{SLO: 300 * ms, Elapsed: time.Second, MeanInFlight: 10}
		for i, r := range c.routes {
			name := string(rune('a' + i))
			a.base.routes[name] = &baseline{
				figures: figures{low: r.baseline.Seconds(), mean: r.baseline.Seconds(), spread: r.baseline.Seconds()},
			}
			sample := shedlimit.RouteSample{Route: name, Completed: r.completed}
			for range r.completed {
				sample.Latencies = append(sample.Latencies, r.latency)
			}
			s.Routes = append(s.Routes, sample)
		}
		w := newView(&s, &a.base, a.reach(), 0)
		if math.Abs(w.excess-c.excess) > 1e-9 || math.Abs(w.needed-c.needed) > 1e-9 || w.nearly != c.nearly {
			t.Errorf("%s: excess %.2f, needed %.2f, nearly %v, want %.2f, %.2f and %v",
				c.name, w.excess, w.needed, w.nearly, c.excess, c.needed, c.nearly)
		}
	}
}

func TestTheNinthDecileIsThatOfBoth(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var both, a, b []time.Duration
		for range 1 + random.IntN(30) {
			d := time.Duration(random.IntN(20))
			both = append(both, d)
			if random.IntN(2) == 0 {
				a = append(a, d)
			} else {
				b = append(b, d)
			}
		}
		slices.Sort(both)
		slices.Sort(a)
		slices.Sort(b)
		if got, want := ninth(a, b), both[len(both)*9/10]; got != want {
			t.Fatalf("%v and %v: %d, want %d", a, b, got, want)
		}
	}
}

// The first completions of a route are the fastest: of requests that take 10 to 400 ms, those of 10
// ms.
func TestABaselineOfFewRequestsGrows(t *testing.T) {
	b := &baseline{figures: figures{low: 0.01, mean: 0.01, spread: 0.01, high: 0.01}}
	window := func(completed int, mean float64) {
		b.gather(seen{figures: figures{low: 0.01, mean: mean, spread: mean, high: mean}, completed: completed},
			0.05, false)
	}
	window(4, 0.06)
	window(4, 0.25)
	if math.Abs(b.mean-0.105) > 1e-9 || b.low != 0.01 || b.high != 0.25 {
		t.Errorf("4 of 10 ms and 4 of 200 ms, all of which waited 50 ms: %+v, want a mean of 105 ms", b.figures)
	}
	window(12, 0.155)
	if window(100, 1); math.Abs(b.mean-0.105) > 1e-9 {
		t.Errorf("a baseline of 20 completions has become %+v", b.figures)
	}
}

func TestALongQueueIsForServicesThatShedLittle(t *testing.T) {
	for _, c := range []struct{ sheds, busy, want float64 }{{0, 16, 1}, {0.15, 16, 0.625}, {0.3, 16, 0.25}, {0.9, 16, 0.25}, {0.9, 0.5, 1}} {
		w := view{busy: c.busy}
		if got := w.gapsAt(c.sheds); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%g shed, %g busy: %g, want %g", c.sheds, c.busy, got, c.want)
		}
	}
}

// What is known of before would make each trial of the slower service too small.
func TestATrialDuringWhichTheServiceBecameSlowerIsRepeated(t *testing.T) {
	a, w := tried(trial{}, 200)
	w.routes[0].low = 0.06
	low := w.routes[0].base.low
	if a.state = a.trying(nil, w); a.state != steady || a.limit != 20 || w.routes[0].base.low != low {
		t.Errorf("limit %.1f, baseline %g, want the 20 and %g of before", a.limit, w.routes[0].base.low, low)
	}
}

func TestTheAdaptiveLimitGoesOnFromTheOneBefore(t *testing.T) {
	if got := New().Update(shedlimit.Sample{MaxLimit: 1000}); got != startLimit {
		t.Errorf("first limit %d, want %d", got, startLimit)
	}
	if got := New().Update(shedlimit.Sample{MaxLimit: 1000, Limit: 37}); got != 37 {
		t.Errorf("first limit after one of 37 is %d", got)
	}
	if got := New().Update(shedlimit.Sample{MaxLimit: 50}); got != 50 {
		t.Errorf("first limit %d, want at most MaxLimit 50", got)
	}
}

// What samples may be like at their worst must not lead to a limit that is no number, or to one out
// of range.
func FuzzTheAdaptiveLimitStaysInRange(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte{255, 0, 255, 0, 255, 0, 255, 0, 200, 0, 0, 0, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		a := New()
		now := time.Unix(1e9, 0)
		limit := a.Update(shedlimit.Sample{MaxLimit: 500, Now: now})
		for len(data) >= 8 {
			b := data[:8]
			data = data[8:]
			s := shedlimit.Sample{
				MaxLimit:     500,
				Limit:        limit,
				Elapsed:      time.Duration(1 + int(b[0])*int(b[1])*1e5),
				InFlight:     int(b[2]),
				PeakInFlight: int(b[2]) + int(b[3]),
				MeanInFlight: float64(b[3]),
				Shed:         int(b[4] / 64),
				SLO:          time.Duration(b[5]/128) * 1e8,
			}
			now = now.Add(s.Elapsed)
			s.Now = now
			if n := int(b[6]); n > 0 {
				latency := time.Duration(b[7]) * time.Millisecond
				s.Completed = n
				s.Routes = []shedlimit.RouteSample{
					{
						Route:     string(b[1:2]),
						Completed: n,
						Latencies: []time.Duration{latency, 2 * latency, 3 * latency},
					},
				}
			}
			for range min(s.InFlight, 8) {
				s.Ages = append(s.Ages, time.Duration(b[7])*time.Second)
			}
			s.Overtaken, s.Quiet, s.Bounded = time.Duration(b[4])*1e7, time.Duration(b[5])*1e7, b[6]%2 == 0
			for i := range s.Routes {
				s.Routes[i].UntilOvertaken = time.Duration(b[3]) * time.Millisecond
			}
			if got := a.Glance(s); got < 1 || got > 500 {
				t.Fatalf("limit %d of a glance at %+v", got, s)
			}
			limit = a.Update(s)
			if limit < 1 || limit > 500 {
				t.Fatalf("limit %d after %+v", limit, s)
			}
			if least, most, _ := a.Window(); least <= 0 || most < least {
				t.Fatalf("window %v to %v after %+v", least, most, s)
			}
		}
	})
}
