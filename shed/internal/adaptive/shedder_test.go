package adaptive_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/internal/proof/overload"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/shed/internal/adaptive"
)

// simulated is a Shedder in front of a simulated service.
type simulated struct {
	*shed.Shedder[overload.Request]
}

func (s simulated) Enter(r overload.Request) (func(bool), bool) {
	permit, _ := s.Acquire(context.Background(), r)
	if permit == nil {
		return nil, false
	}
	return func(failed bool) { permit.End(shed.Result{Route: r.Route, Failed: failed}) }, true
}

func scenario(t *testing.T, name string) *overload.Scenario {
	t.Helper()
	for _, s := range overload.Scenarios() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return nil
}

// simulate runs a scenario with seed 1, in a bubble.
func simulate(
	t *testing.T,
	name string,
	load float64,
	limiter func() overload.Limiter,
	each func(overload.Second),
) *overload.Result {
	t.Helper()
	var x *overload.Result
	synctest.Test(t, func(t *testing.T) {
		x = scenario(t, name).Run(limiter(), overload.Options{Load: load, Seed: 1, Each: each})
	})
	return x
}

func adaptively(options shed.Options[overload.Request]) func() overload.Limiter {
	return func() overload.Limiter { return simulated{shed.MustNew(options)} }
}

// mustNewUsing returns a Shedder whose limit a finds.
func mustNewUsing[R any](a shedlimit.Algorithm, options shed.Options[R]) *shed.Shedder[R] {
	s, err := shedlimit.New(options, a)
	if err != nil {
		panic(err)
	}
	return s.(*shed.Shedder[R])
}

type mutated = adaptive.Algorithm

func mutant(change func(*mutated) shedlimit.Algorithm) func() overload.Limiter {
	return func() overload.Limiter {
		return simulated{mustNewUsing(change(adaptive.New()), shed.Options[overload.Request]{})}
	}
}

func part(n, of int) float64 { return float64(n) / float64(max(1, of)) }

// The limits are the best ones of benchmarks/run.sh shed, which has all loads and more seeds.
func TestTheLimitFoundIsAsGoodAsTheBestFixedOne(t *testing.T) {
	cases := []struct {
		scenario string
		load     float64
		limit    int
		bar      float64
	}{
		{"pool", 3, 80, 0.95},
		{"few", 3, 7, 0.93},
		{"slow-for-good", 3, 40, 0.95},
		{"hang", 1.5, 56, 0.95},
		{"pool", 1, 80, 0.95},
		{"cpu", 3, 40, 0.95},
		{"bimodal", 1.5, 80, 0.93},
		{"mix", 1.5, 56, 0.95},
		{"slow-30s", 1.5, 28, 0.95},
		{"slow-for-good", 0.8, 40, 0.95},
		{"timeouts", 3, 80, 0.95},
		{"cold", 5, 80, 0.95},
		{"health", 1.5, 80, 0.95},
		{"spike", 5, 80, 0.95},
	}
	if !testrun.Full() {
		cases = cases[:4]
	}
	for _, c := range cases {
		limiter := func() overload.Limiter { return &overload.Fixed{Limit: c.limit} }
		fixed := simulate(t, c.scenario, c.load, limiter, nil)
		got := simulate(t, c.scenario, c.load, adaptively(shed.Options[overload.Request]{}), nil)
		if ratio := got.Goodput() / fixed.Goodput(); ratio < c.bar {
			t.Errorf("%s at %g: goodput %.1f, with a limit of %d %.1f: %.3f of it, want %.2f",
				c.scenario, c.load, got.Goodput(), c.limit, fixed.Goodput(), ratio, c.bar)
		}
	}
}

func TestNothingIsShedWhileAllFits(t *testing.T) {
	names := []string{"pool", "bimodal", "few", "cpu", "mix", "cold", "health"}
	if !testrun.Full() {
		names = names[:2]
	}
	for _, name := range names {
		x := simulate(t, name, 0.8, adaptively(shed.Options[overload.Request]{}), nil)
		if got := part(x.FalseSheds, x.Calm); got > 0.001 {
			t.Errorf("%s at 0.8: %.4f of requests shed, want at most 0.001", name, got)
		}
	}
}

func TestASlowerDependencyIsLearned(t *testing.T) {
	// Three times slower, a quarter of the capacity is three quarters of what is left.
	offered, refused := 0, 0
	last := func(s overload.Second) {
		if s.At > 40 {
			offered, refused = offered+s.Offered, refused+s.Shed
		}
	}
	simulate(t, "slow-for-good", 0.25, adaptively(shed.Options[overload.Request]{}), last)
	if got := part(refused, offered); offered == 0 || got > 0.001 {
		t.Errorf("20 s after the dependency became slower %.4f of %d requests are shed, want at most 0.001",
			got, offered)
	}
}

func TestAHungDependencyIsSeen(t *testing.T) {
	x := simulate(t, "hang", 0.8, adaptively(shed.Options[overload.Request]{}), nil)
	if x.FirstShed < 0 || x.FirstShed > 2*time.Second {
		t.Errorf("first shed %v after the dependency hung, want at most 2s", x.FirstShed)
	}
	if x.LastShed > 5*time.Second {
		t.Errorf("last shed %v after it answered again, want at most 5s", x.LastShed)
	}
}

func TestASpikeIsShedAndForgotten(t *testing.T) {
	x := simulate(t, "spike", 5, adaptively(shed.Options[overload.Request]{}), nil)
	if x.FirstShed < 0 || x.FirstShed > 2*time.Second {
		t.Errorf("first shed %v after the spike began, want at most 2s", x.FirstShed)
	}
	if x.LastShed > 5*time.Second {
		t.Errorf("last shed %v after the spike, want at most 5s", x.LastShed)
	}
}

func TestCriticalRequestsPassWhileTheyFit(t *testing.T) {
	options := shed.Options[overload.Request]{
		Classes:  []shed.Class{{Name: "critical"}, {Name: "normal"}, {Name: "sheddable"}},
		Classify: func(r overload.Request) int { return r.Class },
	}
	for _, name := range []string{"cpu", "pool", "cold"} {
		synctest.Test(t, func(t *testing.T) {
			limiter := simulated{shed.MustNew(options)}
			x := scenario(t, name).Run(limiter, overload.Options{Load: 3, Seed: 1, Classes: [2]float64{0.2, 0.5}})
			if got := x.Available(0); got < 0.99 {
				t.Errorf("%s at 3: %.4f of critical requests are answered, want 0.99", name, got)
			}
			if rest := x.Goodput() / scenario(t, name).Capacity(0); rest < 0.93 {
				t.Errorf("%s at 3: goodput %.3f of the capacity, want 0.93", name, rest)
			}
		})
	}
}

func TestAnSLOIsHonoured(t *testing.T) {
	// Three times slower for good, 150 ms is usual. What is usual does not matter.
	x := simulate(t, "slow-for-good", 3, adaptively(shed.Options[overload.Request]{SLO: 200 * time.Millisecond}), nil)
	if got := x.Quantile(0.9); got > 230*time.Millisecond {
		t.Errorf("90%% of answers within %v, want the SLO of 200ms, nearly", got)
	}
	if x.Good == 0 {
		t.Error("nothing was answered")
	}
}

// Three times slower for good, 150 ms is what requests take. No limit makes these 100 ms.
func TestAnSLOThatNoLimitCanKeepShedsNobody(t *testing.T) {
	offered, refused := 0, 0
	last := func(s overload.Second) {
		if s.At > 40 {
			offered, refused = offered+s.Offered, refused+s.Shed
		}
	}
	simulate(t, "slow-for-good", 0.25, adaptively(shed.Options[overload.Request]{SLO: 100 * time.Millisecond}), last)
	if got := part(refused, offered); offered == 0 || got > 0.001 {
		t.Errorf(
			"20 s after the dependency became slower than the SLO %.4f of %d requests are shed, want at most 0.001",
			got, offered)
	}
}

// Each is the algorithm without one of its properties, and a scenario that shows what that is good
// for.
func TestEachPropertyIsNeeded(t *testing.T) {
	t.Run("a low quantile, not an average", func(t *testing.T) {
		x := simulate(t, "bimodal", 0.8, mutant(func(a *mutated) shedlimit.Algorithm { return average{a} }), nil)
		if got := part(x.FalseSheds, x.Calm); got <= 0.002 {
			t.Errorf("with averages %.4f of requests are shed that fit: this test shows nothing", got)
		}
	})
	t.Run("trials that are undone", func(t *testing.T) {
		fixed := simulate(t, "slow-for-good", 3, func() overload.Limiter { return &overload.Fixed{Limit: 40} }, nil)
		x := simulate(t, "slow-for-good", 3, mutant(func(a *mutated) shedlimit.Algorithm { return noTrials{a} }), nil)
		if ratio := x.Goodput() / fixed.Goodput(); ratio > 0.9 {
			t.Errorf("without trials goodput is %.3f of that with a fixed limit: this test shows nothing", ratio)
		}
	})
	t.Run("ages", func(t *testing.T) {
		with := simulate(t, "hang", 3, adaptively(shed.Options[overload.Request]{}), nil)
		x := simulate(t, "hang", 3, mutant(func(a *mutated) shedlimit.Algorithm { return noAges{a} }), nil)
		if ratio := x.Goodput() / with.Goodput(); ratio > 0.98 {
			t.Errorf("without ages goodput is %.3f of that with them: this test shows nothing", ratio)
		}
	})
}

// average sees the average of latencies where the algorithm looks for a low quantile.
type average struct{ *adaptive.Algorithm }

func (m average) Update(s shedlimit.Sample) int {
	routes := make([]shedlimit.RouteSample, len(s.Routes))
	for i, r := range s.Routes {
		sum := time.Duration(0)
		for _, l := range r.Latencies {
			sum += l
		}
		if len(r.Latencies) > 0 {
			r.Latencies = []time.Duration{sum / time.Duration(len(r.Latencies))}
		}
		routes[i] = r
	}
	s.Routes = routes
	return m.Algorithm.Update(s)
}

// noTrials never looks what a decrease did.
type noTrials struct{ *adaptive.Algorithm }

func (m noTrials) Update(s shedlimit.Sample) int {
	m.ForgetTrial()
	return m.Algorithm.Update(s)
}

// noAges sees what completed only.
type noAges struct{ *adaptive.Algorithm }

func (m noAges) Update(s shedlimit.Sample) int {
	s.Ages = nil
	return m.Algorithm.Update(s)
}

func (noAges) GlanceFrom() (inFlight int, age time.Duration) { return 0, math.MaxInt64 }

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
	return float64(sum(adaptively(shed.Options[overload.Request]{}))) / float64(fixed)
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

// A service with hardly anything to do gets 60 requests at once.
func TestABurstIsNotShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shed.MustNew(shed.Options[int]{})
		for range 100 {
			p, _ := s.Acquire(t.Context(), 0)
			time.Sleep(50 * time.Millisecond)
			p.End(shed.Result{})
			time.Sleep(250 * time.Millisecond)
		}
		if limit := s.State().Limit; limit > adaptive.MostIdle {
			t.Errorf("limit %d of an idle service, want at most %g", limit, adaptive.MostIdle)
		}
		var permits []*shed.Permit
		for i := range 60 {
			p, _ := s.Acquire(t.Context(), 0)
			if p == nil {
				t.Fatalf("request %d of 60 at once is shed, with a limit of %d", i+1, s.State().Limit)
			}
			permits = append(permits, p)
		}
		for _, p := range permits {
			p.End(shed.Result{})
		}
	})
}
