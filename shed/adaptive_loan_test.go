package shed

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// inFlightFor is what glance is told of requests of these ages, the oldest first.
func inFlightFor(ages ...time.Duration) shedlimit.Sample {
	return shedlimit.Sample{InFlight: len(ages), MaxLimit: 500, Ages: ages}
}

func repeated(n int, age time.Duration) []time.Duration {
	ages := make([]time.Duration, n)
	for i := range ages {
		ages[i] = age
	}
	return ages
}

// lender returns an algorithm with a limit of 20, which may lend up to 100. Requests take 200 ms.
func lender() *adaptive {
	a, _ := known(20)
	a.loan.safe, a.base.usual = 100, 0.2
	return a
}

func TestWhatIsSafeIsLentWhileNobodyWaits(t *testing.T) {
	const young, aged = 250 * time.Millisecond, 270 * time.Millisecond
	for _, c := range []struct {
		name string
		s    shedlimit.Sample
		want int
	}{
		{"all are young", inFlightFor(repeated(20, young)...), 100},
		{"one is old", inFlightFor(append([]time.Duration{aged}, repeated(19, young)...)...), 20},
		{"all are old", inFlightFor(repeated(20, aged)...), 20},
		{"all are old, and were overtaken", shedlimit.Sample{InFlight: 20, MaxLimit: 500, Ages: repeated(20, aged), Overtaken: young}, 120},
		{"all are old, and were not when a request last completed", shedlimit.Sample{InFlight: 20, MaxLimit: 500, Ages: repeated(20, aged), Quiet: 50 * time.Millisecond}, 100},
		{"all are old, and nothing completes", shedlimit.Sample{InFlight: 20, MaxLimit: 500, Ages: repeated(20, time.Second), Quiet: time.Second}, 21},
	} {
		if got := lender().glance(c.s); got != c.want {
			t.Errorf("%s: a limit of %d, want %d", c.name, got, c.want)
		}
	}
}

func TestALoanIsTakenBackAndNotGivenAgainWhileRequestsWait(t *testing.T) {
	a := lender()
	if got := a.glance(inFlightFor(repeated(20, 0)...)); got != 100 {
		t.Fatalf("limit %d, want 100", got)
	}
	waiting := append(repeated(60, time.Second), repeated(40, 0)...)
	if got := a.glance(inFlightFor(waiting...)); got != 53 { // 40, and an eighth of all
		t.Errorf("60 of 100 wait: limit %d, want 53", got)
	}
	if got := a.glance(inFlightFor(repeated(53, 0)...)); got != 53 {
		t.Errorf("a moment later: limit %d, want 53", got)
	}
	a.believe(&view{waiting: 5})
	if got := a.glance(inFlightFor(repeated(53, 0)...)); got != 53 {
		t.Errorf("after a window in which requests waited: limit %d, want 53", got)
	}
	a.believe(&view{})
	if got := a.glance(inFlightFor(repeated(53, 0)...)); got != 100 {
		t.Errorf("after a window in which none did: limit %d, want 100", got)
	}
}

func TestADecreaseSaysWhatIsSafe(t *testing.T) {
	a := lender()
	a.loan.lent = 100
	a.cut(&view{now: 100, limited: true, rate: 100}, 40)
	a.state = draining
	a.believe(&view{limited: true})
	if a.reach() != 40 || a.loan.safe != 40 {
		t.Errorf("limit %g with the loan, %g safe, want 40 and 40", a.reach(), a.loan.safe)
	}
	a.state = steady
	a.limit = 50
	a.believe(&view{limited: true})
	if a.loan.safe != 50 {
		t.Errorf("%g safe, want the 50 that requests have reached", a.loan.safe)
	}
}

func TestAllowancesUntilTheFirstRequestCompletes(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 100, 100 * time.Millisecond: 200, time.Hour: 400} {
		a := newAdaptive()
		a.Update(shedlimit.Sample{MaxLimit: 500})
		if got := a.glance(inFlightFor(repeated(100, age)...)); got != want {
			t.Errorf("%v after the first request: limit %d, want %d", age, got, want)
		}
	}
}

// The longer requests take, the longer they are in flight, and the more of those in flight are
// such.
func TestWhatIsUsualIsThatOfRequestsInFlight(t *testing.T) {
	fast := &baseline{figures: figures{mean: 0.001, spread: 0.001}}
	slow := &baseline{figures: figures{mean: 0.1, spread: 0.1}}
	a := newAdaptive()
	if got := a.leastOvertaking(); got != 0 {
		t.Errorf("before anything has completed, one of %v overtakes others, want all to", got)
	}
	a.base.routes["/"] = fast
	a.expect(&shedlimit.Sample{}, &view{completed: 100, routes: []seen{{base: fast, rate: 90}, {base: slow, rate: 10}}})
	if math.Abs(a.base.usual-0.0918) > 0.0001 {
		t.Errorf("90 requests of 1 ms and 10 of 100 ms: those in flight take %.4f s, want 0.0918", a.base.usual)
	}
	if got := a.leastOvertaking(); got < 40*time.Millisecond || got > 50*time.Millisecond {
		t.Errorf("one of %v overtakes others, want half of what is usual", got)
	}
}

// What completes first is the fastest of what began. So while fewer have completed than are in
// flight, the ages of those say more, more may be lent, and a baseline of enoughKnown goes on to
// grow.
func TestTheFirstThatCompleteAreTheFastest(t *testing.T) {
	a := newAdaptive()
	a.Update(shedlimit.Sample{MaxLimit: 500})
	now := time.Unix(1e9, 0)
	window := func(inFlight int, latency, age time.Duration) {
		now = now.Add(100 * time.Millisecond)
		a.Update(shedlimit.Sample{
			Now:          now,
			Elapsed:      100 * time.Millisecond,
			MaxLimit:     500,
			Completed:    20,
			InFlight:     inFlight,
			PeakInFlight: inFlight,
			MeanInFlight: float64(inFlight),
			Ages:         repeated(inFlight, age),
			Routes:       []shedlimit.RouteSample{{Route: "/", Completed: 20, Latencies: repeated(20, latency)}},
		})
	}
	window(60, 10*time.Millisecond, 90*time.Millisecond)
	if !a.base.early || math.Abs(a.base.usual-0.09) > 1e-9 {
		t.Errorf("20 have taken 10 ms, and 60 are 90 ms old: early %t, %.3f s are usual, want 0.090",
			a.base.early, a.base.usual)
	}
	if got := a.glance(inFlightFor(repeated(60, 100*time.Millisecond)...)); got != 200 {
		t.Errorf("100 ms after the first has begun: limit %d, want 200", got)
	}
	window(60, 20*time.Millisecond, 90*time.Millisecond)
	if b := a.base.routes["/"]; !a.base.early || b.mean < 0.0099 || b.completed != 40 {
		t.Errorf("40 have completed: early %t, a baseline of %d", a.base.early, b.completed)
	}
	window(60, 20*time.Millisecond, 90*time.Millisecond)
	if a.base.early || a.base.usual > 0.05 {
		t.Errorf("60 have completed: early %t, %.3f s are usual, want what completions say", a.base.early, a.base.usual)
	}
}

// A service with hardly anything to do gets 60 requests at once.
func TestABurstIsNotShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[int]{})
		for range 100 {
			p, _ := s.Acquire(t.Context(), 0)
			time.Sleep(50 * time.Millisecond)
			p.End(Result{})
			time.Sleep(250 * time.Millisecond)
		}
		if limit := s.State().Limit; limit > mostIdle {
			t.Errorf("limit %d of an idle service, want at most %g", limit, mostIdle)
		}
		var permits []*Permit
		for i := range 60 {
			p, _ := s.Acquire(t.Context(), 0)
			if p == nil {
				t.Fatalf("request %d of 60 at once is shed, with a limit of %d", i+1, s.State().Limit)
			}
			permits = append(permits, p)
		}
		for _, p := range permits {
			p.End(Result{})
		}
	})
}
