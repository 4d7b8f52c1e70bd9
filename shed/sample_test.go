package shed_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/shed"
)

// asked returns an algorithm with the same limit for ever.
func asked(limit int) *scripted { return &scripted{limits: slices.Repeat([]int{limit}, 10_000)} }

// run runs a request that takes d.
func (s *story) run(d time.Duration, result shed.Result) {
	s.t.Helper()
	p := s.admitted(1, 0)
	time.Sleep(d)
	p[0].End(result)
}

func TestTheFirstUpdateIsAskedForTheLimitToStartWith(t *testing.T) {
	a := asked(5)
	s := byIndexUsing(t, a, shed.Options[int]{SLO: time.Second, MaxInFlight: 50})
	if got := a.last(); len(a.samples) != 1 || got.Elapsed != 0 || got.Limit != 0 || got.MaxLimit != 50 || got.SLO != time.Second {
		t.Errorf("%+v", a.samples)
	}
	if state := s.State(); state.Limit != 5 || state.MaxInFlight != 50 || state.Updates != 1 {
		t.Errorf("%+v", state)
	}
}

func TestLimitsAreOneToMaxInFlight(t *testing.T) {
	for limit, want := range map[int]int{-5: 1, 0: 1, 1: 1, 50: 50, 51: 50} {
		s := byIndexUsing(t, asked(limit), shed.Options[int]{MaxInFlight: 50})
		if got := s.State().Limit; got != want {
			t.Errorf("limit %d: %d, want %d", limit, got, want)
		}
	}
}

func TestAWindowEndsByItsCompletionsOrAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asked(100)
		s := byIndexUsing(t, a, shed.Options[int]{})
		for range 249 {
			s.run(time.Millisecond, shed.Result{})
		}
		if len(a.samples) != 1 {
			t.Fatalf("%d updates after 249 ms", len(a.samples))
		}
		s.run(time.Millisecond, shed.Result{})
		if got := a.last(); len(a.samples) != 2 || got.Elapsed != 250*time.Millisecond || got.Completed != 250 || got.Admitted != 250 {
			t.Fatalf("%d updates, %+v", len(a.samples), got)
		}
		for range 19 {
			s.run(50*time.Millisecond, shed.Result{})
		}
		s.run(49*time.Millisecond, shed.Result{})
		if got := a.last(); len(a.samples) != 3 || got.Elapsed != 999*time.Millisecond || got.Completed != 20 {
			t.Fatalf("%d updates, %+v", len(a.samples), got)
		}
		s.run(time.Second-1, shed.Result{})
		p := s.admitted(1, 0)
		time.Sleep(time.Nanosecond)
		s.run(0, shed.Result{})
		if got := a.last(); len(a.samples) != 4 || got.Elapsed != time.Second || got.Completed != 1 || got.InFlight != 1 {
			t.Fatalf("%d updates, %+v", len(a.samples), got)
		}
		end(p...)
	})
}

func TestTheMeanInFlightIsThatOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asked(10)
		s := byIndexUsing(t, a, shed.Options[int]{})
		p := s.admitted(4, 0)
		time.Sleep(time.Second / 2)
		end(p[:2]...)
		time.Sleep(time.Second / 2)
		p[2].Stream()
		if got := a.last(); got.MeanInFlight != 3 || got.PeakInFlight != 4 || got.InFlight != 1 {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Second)
		end(p...)
		if got := a.last(); got.MeanInFlight != 1 || got.PeakInFlight != 1 || got.InFlight != 0 || got.Admitted != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A dependency that hangs completes nothing: requests that arrive show it.
func TestAHungDependencyIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asked(3)
		s := byIndexUsing(t, a, shed.Options[int]{})
		s.admitted(1, 0)
		time.Sleep(100 * time.Millisecond)
		s.admitted(2, 0)
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			s.shed(0)
		}
		got := a.last()
		if want := []time.Duration{time.Second, 900 * time.Millisecond, 900 * time.Millisecond}; !slices.Equal(got.Ages, want) {
			t.Errorf("ages %v, want %v", got.Ages, want)
		}
		if got.Completed != 0 || got.Shed != 8 || got.InFlight != 3 || got.PeakInFlight != 3 || got.MeanInFlight != 2.8 {
			t.Errorf("%+v", got)
		}
		if oldest := s.State().Oldest; oldest != 1100*time.Millisecond {
			t.Errorf("oldest %v", oldest)
		}
	})
}

func TestASampleHasLatenciesByRouteAndResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asked(10)
		s := byIndexUsing(t, a, shed.Options[int]{})
		ms := time.Millisecond
		s.run(30*ms, shed.Result{Route: "/b"})
		s.run(10*ms, shed.Result{Route: "/a"})
		s.run(20*ms, shed.Result{Route: "/b"})
		s.run(60*ms, shed.Result{Route: "/b", Failed: true})
		s.run(50*ms, shed.Result{Route: "/b", Left: true})
		s.run(40*ms, shed.Result{Route: "/a", Failed: true, Left: true})
		stream := s.admitted(1, 0)[0]
		stream.Stream()
		time.Sleep(800 * ms)
		stream.End(shed.Result{Route: "/stream"})
		s.endWindow(t, a)
		got := a.last()
		if got.Completed != 3 || got.Failed != 1 || got.Left != 2 || got.Shed != 0 {
			t.Errorf("%+v", got)
		}
		exported := func(routes []shedlimit.RouteSample) (text string) {
			for _, r := range routes {
				text += fmt.Sprintln(r.Route, r.Completed, r.Failed, r.Total, r.Latencies, r.Ends)
			}
			return text
		}
		want := exported([]shedlimit.RouteSample{
			{Route: "/b", Completed: 2, Failed: 2, Total: 50 * ms, Latencies: []time.Duration{20 * ms, 30 * ms}, Ends: []time.Duration{50 * ms, 60 * ms}},
			{Route: "/a", Completed: 1, Failed: 1, Total: 10 * ms, Latencies: []time.Duration{10 * ms}, Ends: []time.Duration{40 * ms}},
		})
		if exported(got.Routes) != want {
			t.Errorf("%+v, want %v", got.Routes, want)
		}
		time.Sleep(time.Second)
		s.run(0, shed.Result{})
		if got := a.last(); got.Completed != 1 || len(got.Routes) != 1 || got.Routes[0].Route != "" {
			t.Errorf("the next window has %+v", got)
		}
	})
}

// endWindow ends the window by a request, which is part of the next one.
func (s *story) endWindow(t *testing.T, a *scripted) {
	t.Helper()
	before := len(a.samples)
	end(s.admitted(1, 0)...)
	if len(a.samples) != before+1 {
		t.Fatalf("%d updates, want %d", len(a.samples), before+1)
	}
}

func TestRoutesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asked(10)
		s := byIndexUsing(t, a, shed.Options[int]{})
		for i := range 1000 {
			s.run(0, shed.Result{Route: fmt.Sprint("/", i)})
		}
		time.Sleep(time.Second)
		s.endWindow(t, a)
		got := a.last()
		if last := got.Routes[256]; len(got.Routes) != 257 || last.Route != "other" || last.Completed != 744 || len(last.Latencies) != 16 {
			t.Errorf("%d routes, the last %+v", len(got.Routes), last)
		}
		s.run(0, shed.Result{Route: "/255"})
		s.run(0, shed.Result{Route: "/256"})
		time.Sleep(time.Second)
		s.endWindow(t, a)
		if got := a.last().Routes; len(got) != 2 || got[0].Route != "other" || got[0].Completed != 2 || got[1].Route != "/255" {
			t.Errorf("%+v", got)
		}
		if routes := s.State().Routes; routes != 257 {
			t.Errorf("%d routes", routes)
		}
	})
}

func TestLatenciesAreDrawnFromAllOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asked(10)
		s := byIndexUsing(t, a, shed.Options[int]{})
		var total time.Duration
		for i := range time.Duration(2400) {
			s.run(i, shed.Result{})
			total += i
		}
		time.Sleep(time.Second)
		s.endWindow(t, a)
		r := a.last().Routes[0]
		if len(r.Latencies) != 256 || r.Completed != 2400 || r.Total != total || !slices.IsSorted(r.Latencies) {
			t.Fatalf("%d drawn of %d", len(r.Latencies), r.Completed)
		}
		// The draw is fixed by the seed, so no bar here is a matter of luck.
		if median := r.Latencies[128]; median < 1000 || median > 1400 {
			t.Errorf("median %v of 0 to 2399 ns", median)
		}
	})
}

func TestAgesAreThinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n, want := range map[int]int{1024: 1024, 1025: 513, 5000: 1000} {
			a := asked(10_000)
			s := byIndexUsing(t, a, shed.Options[int]{})
			s.admitted(1, 0)
			time.Sleep(time.Millisecond)
			s.admitted(n-1, 0)
			time.Sleep(2 * time.Second)
			s.admitted(1, 0)
			got := a.last()
			if len(got.Ages) != want || got.InFlight != n || got.Ages[0] != 2001*time.Millisecond || got.Ages[want-1] != 2*time.Second {
				t.Errorf("%d in flight: %d ages, want %d", n, len(got.Ages), want)
			}
		}
	})
}

// impatient is an algorithm that chooses its windows.
type impatient struct {
	*scripted
	window func() (least, most time.Duration, completed int)
}

func (i impatient) Window() (least, most time.Duration, completed int) { return i.window() }

func TestAnAlgorithmMayChooseItsWindows(t *testing.T) {
	for _, tt := range []struct {
		window func() (time.Duration, time.Duration, int)
		at     []time.Duration
		panics int64
	}{
		{func() (time.Duration, time.Duration, int) { return 20 * time.Millisecond, time.Second, 2 }, []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}, 0},
		{func() (time.Duration, time.Duration, int) { return time.Second, 30 * time.Millisecond, 1 }, []time.Duration{30 * time.Millisecond, 60 * time.Millisecond}, 0},
		{func() (time.Duration, time.Duration, int) { return 0, -1, 0 }, []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}, 0},
		{func() (time.Duration, time.Duration, int) { panic("oops") }, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond}, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := impatient{asked(10), tt.window}
			s := byIndexUsing(t, a, shed.Options[int]{})
			start := time.Now()
			for len(a.samples) < 3 {
				s.run(10*time.Millisecond, shed.Result{})
			}
			for i, want := range tt.at {
				if got := a.samples[i+1].Now.Sub(start); got != want {
					t.Errorf("update %d after %v, want %v", i, got, want)
				}
			}
			if state := s.State(); state.Panics != tt.panics {
				t.Errorf("%+v", state)
			}
		})
	}
}
