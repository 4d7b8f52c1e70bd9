package adaptive

import (
	"math"
	"testing"
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
func lender() *Algorithm {
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
		if got := lender().Glance(c.s); got != c.want {
			t.Errorf("%s: a limit of %d, want %d", c.name, got, c.want)
		}
	}
}

func TestALoanIsTakenBackAndNotGivenAgainWhileRequestsWait(t *testing.T) {
	a := lender()
	if got := a.Glance(inFlightFor(repeated(20, 0)...)); got != 100 {
		t.Fatalf("limit %d, want 100", got)
	}
	waiting := append(repeated(60, time.Second), repeated(40, 0)...)
	if got := a.Glance(inFlightFor(waiting...)); got != 53 { // 40, and an eighth of all
		t.Errorf("60 of 100 wait: limit %d, want 53", got)
	}
	if got := a.Glance(inFlightFor(repeated(53, 0)...)); got != 53 {
		t.Errorf("a moment later: limit %d, want 53", got)
	}
	a.believe(&view{waiting: 5})
	if got := a.Glance(inFlightFor(repeated(53, 0)...)); got != 53 {
		t.Errorf("after a window in which requests waited: limit %d, want 53", got)
	}
	a.believe(&view{})
	if got := a.Glance(inFlightFor(repeated(53, 0)...)); got != 100 {
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
		a := New()
		a.Update(shedlimit.Sample{MaxLimit: 500})
		if got := a.Glance(inFlightFor(repeated(100, age)...)); got != want {
			t.Errorf("%v after the first request: limit %d, want %d", age, got, want)
		}
	}
}

// The longer requests take, the longer they are in flight, and the more of those in flight are
// such.
func TestWhatIsUsualIsThatOfRequestsInFlight(t *testing.T) {
	fast := &baseline{figures: figures{mean: 0.001, spread: 0.001}}
	slow := &baseline{figures: figures{mean: 0.1, spread: 0.1}}
	a := New()
	if got := a.LeastOvertaking(); got != 0 {
		t.Errorf("before anything has completed, one of %v overtakes others, want all to", got)
	}
	a.base.routes["/"] = fast
	routes := []seen{{base: fast, rate: 90}, {base: slow, rate: 10}}
	a.base.expect(&shedlimit.Sample{}, &view{completed: 100, routes: routes})
	if math.Abs(a.base.usual-0.0918) > 0.0001 {
		t.Errorf("90 requests of 1 ms and 10 of 100 ms: those in flight take %.4f s, want 0.0918", a.base.usual)
	}
	if got := a.LeastOvertaking(); got < 40*time.Millisecond || got > 50*time.Millisecond {
		t.Errorf("one of %v overtakes others, want half of what is usual", got)
	}
}

// What completes first is the fastest of what began. So while fewer have completed than are in
// flight, the ages of those say more, more may be lent, and a baseline of enoughKnown goes on to
// grow.
func TestTheFirstThatCompleteAreTheFastest(t *testing.T) {
	a := New()
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
	if got := a.Glance(inFlightFor(repeated(60, 100*time.Millisecond)...)); got != 200 {
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

func TestARouteWaitsAloneIfOthersOvertookIt(t *testing.T) {
	slow := &seen{figures: figures{mean: 5}, rate: 2, wait: 4.9}
	of := func(first time.Duration) float64 {
		return slow.behind(&shedlimit.RouteSample{Completed: 10, UntilOvertaken: 10 * first}, 10)
	}
	if got := of(5 * time.Second); got != 2*4.9 {
		t.Errorf("never Overtaken: %g waited behind others, want all %g", got, 2*4.9)
	}
	if got := of(10 * time.Millisecond); got > 0.021 {
		t.Errorf("overtaken after 10 ms: %g waited behind others, want 0.02", got)
	}
	w := &view{room: 4, waiting: 9.8}
	for behind, want := range map[float64]bool{0.02: true, 2.4: true, 2.5: false, 9.8: false} {
		if w.behind = behind; w.waitsAlone() != want {
			t.Errorf("of 9.8 that wait %g wait behind others: alone %v, want %v", behind, !want, want)
		}
	}
}

func TestHeldRequestsRaiseTheLimitToABound(t *testing.T) {
	a, _ := known(20)
	a.base.usual, a.held.usual = 0.1, 0.1
	for _, c := range []struct{ old, young, places, limit int }{{10, 5, 10, 30}, {500, 5, 380, 400}, {0, 5, 0, 20}} {
		s := shedlimit.Sample{MaxLimit: 10_000, InFlight: c.old + c.young,
			Overtaken: 100 * time.Millisecond,
			Ages:      append(repeated(c.old, time.Second), repeated(c.young, 10*time.Millisecond)...)}
		a.held.hold(&s, true)
		a.loan.lent, a.loan.safe = 0, 0
		if got := a.inForce(10_000); a.Places() != c.places || got != c.limit {
			t.Errorf("%d of a second and %d of 10 ms: %d places, limit %d, want %d and %d",
				c.old, c.young, a.Places(), got, c.places, c.limit)
		}
	}
	s := shedlimit.Sample{InFlight: 10, Ages: repeated(10, time.Second)}
	if a.held.hold(&s, true); a.held.count != 0 || s.InFlight != 10 {
		t.Errorf("%d are held that no other has overtaken, want none", a.held.count)
	}
	s = shedlimit.Sample{InFlight: 0, Overtaken: 1, Ages: repeated(1, time.Second)}
	if a.held.hold(&s, true); a.held.count != 0 {
		t.Errorf("%d are held of none in flight", a.held.count)
	}
	a.held.bind(&shedlimit.Sample{MaxLimit: 2000, Bounded: true})
	if a.held.count = 1000; a.Places() != 1000 {
		t.Errorf("with a MaxInFlight of 2,000 there are %d places for 1,000 that are held", a.Places())
	}
}

func TestOneMoreKnocksInEachGlanceWhileNothingCompletes(t *testing.T) {
	a, _ := known(20)
	a.base.usual = 0.1
	at := func(quiet time.Duration, inFlight int) int {
		return a.Glance(shedlimit.Sample{InFlight: inFlight, MaxLimit: 500, Quiet: quiet, Ages: repeated(inFlight, quiet)})
	}
	if got := at(399*time.Millisecond, 20); got != 20 {
		t.Errorf("after 399 ms without a completion: limit %d, want 20", got)
	}
	for inFlight := 20; inFlight < 45; inFlight++ {
		if got, want := at(time.Second, inFlight), min(inFlight+1, 40); got != want {
			t.Fatalf("%d in flight, nothing completes: limit %d, want %d", inFlight, got, want)
		}
	}
	a.loan.lent, a.state = 0, draining
	if got := at(time.Second, 20); got != 20 {
		t.Errorf("after a decrease: limit %d, want 20", got)
	}
}
