package overload

import (
	"math"
	"reflect"
	"testing"
	"testing/synctest"
)

func simulate(t *testing.T, s *Scenario, l Limiter, o Options) *Result {
	t.Helper()
	var x *Result
	synctest.Test(t, func(*testing.T) { x = s.Run(l, o) })
	return x
}

func find(t *testing.T, name string) *Scenario {
	t.Helper()
	for _, s := range Scenarios() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return nil
}

func TestASeedSaysAll(t *testing.T) {
	s := find(t, "pool")
	one := simulate(t, s, &Fixed{Limit: 30}, Options{Load: 1.5, Seed: 7, Retries: 1})
	two := simulate(t, s, &Fixed{Limit: 30}, Options{Load: 1.5, Seed: 7, Retries: 1})
	if !reflect.DeepEqual(one, two) {
		t.Error("two runs with one seed differ")
	}
	other := simulate(t, s, &Fixed{Limit: 30}, Options{Load: 1.5, Seed: 8, Retries: 1})
	if other.Good == one.Good && other.Offered == one.Offered {
		t.Error("another seed makes no difference")
	}
}

func TestTheCapacityIsWhatIsDone(t *testing.T) {
	for _, name := range []string{"cpu", "pool", "bimodal", "health", "few"} {
		s := find(t, name)
		x := simulate(t, s, &Fixed{Limit: 3*s.Slots + 3}, Options{Load: 3, Seed: 1})
		if done := float64(len(x.Latencies)) / x.Seconds; math.Abs(done/s.Work()-1) > 0.05 {
			t.Errorf("%s at 3: %.1f requests a second done, want its capacity, %.1f", name, done, s.Work())
		}
	}
}

func TestWhatIsOfferedIsTheLoad(t *testing.T) {
	for _, s := range Scenarios() {
		if s.Name == "mix" || s.Name == "spike" { // these change with time
			continue
		}
		x := simulate(t, s, &Fixed{Limit: 1}, Options{Load: 2, Seed: 1})
		want := 2 * s.Work() * x.Seconds
		if s.From < s.Step && s.Length > 50e9 { // slow scenarios begin at their load
			continue
		}
		if math.Abs(float64(x.Offered)/want-1) > 0.1 {
			t.Errorf("%s: %d requests offered, want about %.0f", s.Name, x.Offered, want)
		}
	}
}

func TestAFixedLimitIsNeverExceededAndEveryRequestEnds(t *testing.T) {
	f := &Fixed{Limit: 25}
	x := simulate(t, find(t, "timeouts"), f, Options{Load: 3, Seed: 1, Retries: 1})
	if f.inFlight < 0 || f.inFlight > 25 {
		t.Errorf("%d in flight at the end", f.inFlight)
	}
	if got := len(x.Latencies) + x.Failed + x.Shed; math.Abs(float64(got-x.Tries)) > 25 {
		t.Errorf("%d of %d tries have an end", got, x.Tries)
	}
}

func TestRetriesAddToTheLoad(t *testing.T) {
	s := find(t, "pool")
	x := simulate(t, s, &Fixed{Limit: 25}, Options{Load: 3, Seed: 1, Retries: 1})
	if x.Tries < x.Offered*3/2 || x.Tries > x.Offered*2 {
		t.Errorf("%d tries of %d requests, of which two thirds are shed once", x.Tries, x.Offered)
	}
}

func TestNothingEndsWhileADependencyHangs(t *testing.T) {
	s := find(t, "hang")
	var good []int
	simulate(t, s, &Fixed{Limit: 40}, Options{Load: 1, Seed: 1, Each: func(x Second) { good = append(good, x.Good) }})
	for i := 20; i < 30; i++ {
		if good[i] != 0 {
			t.Errorf("%d good answers in second %d, while the dependency hangs", good[i], i)
		}
	}
	if good[15] == 0 || good[35] == 0 {
		t.Errorf("no good answers before or after: %v", good)
	}
}

func siege(t *testing.T, name string) *Scenario {
	t.Helper()
	for _, s := range Sieges() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return nil
}

func TestTheCapacityIsThatOfEveryOrder(t *testing.T) {
	for _, order := range []Order{FirstCome, AnyOrder, Sharing} {
		s := find(t, "pool")
		s.Order = order
		x := simulate(t, s, &Fixed{Limit: 60}, Options{Load: 3, Seed: 1})
		if done := float64(len(x.Latencies)) / x.Seconds; math.Abs(done/s.Work()-1) > 0.05 {
			t.Errorf("order %d at 3: %.1f requests a second done, want its capacity, %.1f", order, done, s.Work())
		}
		s.Length = s.From // half of the capacity
		s.From = 0
		x = simulate(t, s, &Nothing{}, Options{Load: 3, Seed: 1})
		if p99 := x.Quantile(0.99); p99 > 75*ms {
			t.Errorf("order %d at 0.5: 99%% of answers within %v, want hardly more than the 60ms that one takes", order, p99)
		}
	}
}

func TestRequestsThatShareTheSlotsEndInTheOrderOfTheirTimes(t *testing.T) {
	var p shared
	long, short := new(request), new(request)
	p.add(0, long, 1, 100*ms)
	p.add(50*ms, short, 1, 10*ms)
	at, q := p.next(50 * ms)
	if q != short || at.Round(ms) != 70*ms {
		t.Errorf("one of 10 ms that begins after half of one of 100 ms ends after %v, want 70ms", at)
	}
	if p.take(60*ms, short) != nil || p.take(at, short) != short {
		t.Error("it has to end then, and not before")
	}
	if at, q = p.next(at); q != long || at.Round(ms) != 110*ms {
		t.Errorf("the other one ends after %v, want 110ms", at)
	}
}

func TestASiegeKeepsItsConnectionsBusy(t *testing.T) {
	s := siege(t, "siege")
	x := simulate(t, s, &Nothing{}, Options{Load: 0.5, Seed: 1})
	if slow := x.Of["/slow"]; slow.Tries < 110 || slow.Tries > 120 || slow.Shed > 0 {
		t.Errorf("10 connections that ask for 5 s, for 60 s: %+v, want 120 requests, nearly", slow)
	}
	x = simulate(t, s, &Fixed{Limit: 0}, Options{Load: 0.5, Seed: 1})
	if slow := x.Of["/slow"]; slow.Tries < 29000 || slow.Shed != slow.Tries || x.Of["/a"].Refused() != 1 {
		t.Errorf("10 connections that ask again after 20 ms, for 60 s: %+v, want 30,000 requests, nearly", slow)
	}
}

func TestAPartHangsAlone(t *testing.T) {
	x := simulate(t, siege(t, "part hangs"), &Nothing{}, Options{Load: 0.5, Seed: 1})
	a, b := x.Of["/a"], x.Of["/b"]
	if float64(a.Good) < 0.99*float64(a.Tries) || float64(b.Good) > 0.7*float64(b.Tries) {
		t.Errorf("the route that goes on: %+v; the one that hangs for 10 of 30 s: %+v", a, b)
	}
}
