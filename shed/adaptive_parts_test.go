package shed

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/internal/proof/overload"
)

// goodFrom returns how many are answered well in the seconds after from, to to, over some seeds, as
// a part of how many are with a fixed limit.
func goodFrom(t *testing.T, name string, load float64, seeds []uint64, from, to, limit int) float64 {
	t.Helper()
	sum := func(limiter func() overload.Limiter) (good int) {
		for _, seed := range seeds {
			synctest.Test(t, func(t *testing.T) {
				each := func(s overload.Second) {
					if s.At > from && s.At <= to {
						good += s.Good
					}
				}
				scenario(t, name).Run(limiter(), overload.Options{Load: load, Seed: seed, Each: each})
			})
		}
		return good
	}
	fixed := sum(func() overload.Limiter { return &overload.Fixed{Limit: limit} })
	return float64(sum(adaptively(Options[overload.Request]{}))) / float64(fixed)
}

// With these seeds the limit once stayed as the hang had left it for five seconds, in which a queue
// stood: 0.74.
func TestWhatAHangLeftIsSoonForgotten(t *testing.T) {
	if ratio := goodFrom(t, "hang", 1, []uint64{8, 10, 12}, 31, 37, 56); ratio < 0.9 {
		t.Errorf("in the 6 s after a hang goodput is %.3f of that with a limit of 56, want 0.9", ratio)
	}
}

// Two probes in a row once took two of these seconds, since the first was compared with the slow
// time before: 0.84.
func TestARecoveredDependencyIsSoonUsed(t *testing.T) {
	if ratio := goodFrom(t, "slow-30s", 1.5, []uint64{1, 2, 3, 301, 302, 303}, 50, 53, 28); ratio < 0.875 {
		t.Errorf("in the 3 s after a dependency recovered goodput is %.3f of that with a limit of 28, want 0.875",
			ratio)
	}
}

// While a slow route becomes more frequent, fewer requests complete, and as much is done.
func TestATrialIsJudgedByWork(t *testing.T) {
	fast := &baseline{figures: figures{low: 0.001, mean: 0.002, spread: 0.002, high: 0.003}}
	slow := &baseline{figures: figures{low: 0.08, mean: 0.1, spread: 0.1, high: 0.12}}
	a := newAdaptive()
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
		a := newAdaptive()
		a.limit, a.queue.known, a.recent.peak = c.limit, c.known, c.peak
		a.grow(&shedlimit.Sample{Elapsed: time.Second}, &c.w)
		if a.limit < c.least || a.limit > c.most {
			t.Errorf("%s: limit %g becomes %.1f, want %g to %g", c.name, c.limit, a.limit, c.least, c.most)
		}
	}
}

// known returns an algorithm that knows one route, of requests that take 200 ms, and a function
// that tells it of windows of 2 s with so many completions of that latency.
func known(limit float64) (a *adaptive, window func(completed int, latency time.Duration, inFlight, shed int)) {
	a = newAdaptive()
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
	if a.unsure(time.Second) {
		t.Error("after three windows without a queue the baseline still has to be tried")
	}
	if a.now = a.now.Add(time.Minute); !a.unsure(time.Second / 4) {
		t.Error("after a minute under load the baseline need not be tried")
	}
	if a.unsure(2 * time.Second) {
		t.Error("a probe every minute, with windows of 2 s")
	}
}

// tried returns an algorithm in a trial that took half of those in flight away, and the view of a
// window since: requests of 50 ms, by a baseline of 20 ms.
func tried(t trial, completed int) (*adaptive, *view) {
	a := newAdaptive()
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
	judged := func(change func(*adaptive, *view)) *adaptive {
		a, w := tried(trial{confirms: true}, 10)
		a.base.sure = a.now.Add(-time.Minute)
		w.busy = 8
		w.routes[0].low = 0.021
		change(a, w)
		a.state = a.probing(nil, w)
		return a
	}
	if a := judged(func(*adaptive, *view) {}); a.state != steady || a.limit != 20 || a.base.sure != a.now {
		t.Errorf("requests as fast as the baseline: %v, limit %.1f, want the 20 of before", a.state, a.limit)
	}
	if a := judged(func(_ *adaptive, w *view) { w.routes[0].low = 0.03 }); a.state != probing {
		t.Error("requests slower than the baseline: the probe has ended")
	}
	if a := judged(func(a *adaptive, _ *view) { a.trial.confirms = false }); a.state != probing {
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
		a := newAdaptive()
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
		w := a.look(&s)
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
	a := newAdaptive()
	for _, c := range []struct{ sheds, busy, want float64 }{{0, 16, 1}, {0.15, 16, 0.625}, {0.3, 16, 0.25}, {0.9, 16, 0.25}, {0.9, 0.5, 1}} {
		a.recent.sheds = c.sheds
		if got := a.gaps(&view{busy: c.busy}); math.Abs(got-c.want) > 1e-9 {
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
