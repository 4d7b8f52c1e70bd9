package shed_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/shed"
)

func TestTheFirstEndOfAPermitCounts(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Limit: 2})
	p := s.admitted(2, 0)
	end(p[0], p[0], p[0])
	s.inFlight(1)
	p[0].Stream()
	s.inFlight(1)
	p[1].Stream()
	p[1].Stream()
	s.inFlight(0)
	if streams := s.State().Streams; streams != 1 {
		t.Errorf("%d streams", streams)
	}
	s.admitted(2, 0)
	end(p...)
	s.inFlight(2)
	if streams := s.State().Streams; streams != 0 {
		t.Errorf("%d streams", streams)
	}
}

// lost runs handler under a shedder, in a goroutine of its own, and returns the state after it.
func after(t *testing.T, options shed.Options[request], handler http.HandlerFunc) shed.State {
	t.Helper()
	s, err := shed.New(options)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		shed.Handler(s, handler).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}()
	<-done
	return s.State()
}

func TestNoPermitIsLostWhateverTheHandlerDoes(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"returns":            func(http.ResponseWriter, *http.Request) {},
		"panics":             func(http.ResponseWriter, *http.Request) { panic("oops") },
		"aborts":             func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"exits":              func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
		"panics with nil":    func(http.ResponseWriter, *http.Request) { panic(nil) },
		"streams and panics": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); panic("oops") },
		"streams and exits":  func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); runtime.Goexit() },
	} {
		state := after(t, shed.Options[request]{}, handler)
		if state.InFlight != 0 || state.Streams != 0 || state.Classes[0].Admitted != 1 {
			t.Errorf("%s: %+v", name, state)
		}
	}
}

func TestNoPermitIsLostByFunctionsOfTheProgram(t *testing.T) {
	for name, fail := range map[string]func(){"panics": func() { panic("oops") }, "exits": runtime.Goexit} {
		for field, options := range map[string]shed.Options[request]{
			"Observe":           {Observe: func(context.Context, request, shed.Event) { fail() }},
			"Observe of exempt": {Exempt: func(request) bool { return true }, Observe: func(context.Context, request, shed.Event) { fail() }},
			"Exempt":            {Exempt: func(request) bool { fail(); return true }},
			"Classify":          {Classify: func(request) int { fail(); return 0 }},
			"Route":             {Route: func(request) string { fail(); return "" }},
		} {
			if state := after(t, options, func(http.ResponseWriter, *http.Request) {}); state.InFlight != 0 || state.Exempt != 0 {
				t.Errorf("%s %s: %+v", field, name, state)
			}
		}
	}
}

func TestAnAlgorithmThatPanicsKeepsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := byIndexUsing(t, &scripted{limits: []int{3}}, shed.Options[int]{})
		p := s.admitted(3, 0)
		time.Sleep(time.Minute)
		s.shed(0)
		end(p...)
		time.Sleep(time.Minute)
		s.admitted(3, 0)
		s.shed(0)
		if state := s.State(); state.Limit != 3 || state.Updates != 3 || state.Panics != 2 {
			t.Errorf("%+v", state)
		}
	})
}

func TestAStreamIsNotInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted{limits: []int{1, 1}}
		s := using(t, a, shed.Options[request]{})
		handler := shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if state := s.State(); state.InFlight != 1 {
				t.Errorf("%+v", state)
			}
			http.NewResponseController(w).Flush()
			http.NewResponseController(w).Flush()
			if state := s.State(); state.InFlight != 0 || state.Streams != 1 {
				t.Errorf("%+v", state)
			}
			time.Sleep(time.Hour)
		}))
		go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		synctest.Wait()
		p, e := s.Acquire(t.Context(), nil)
		if e.Verdict != shed.Admitted {
			t.Errorf("beside a stream: %+v", e)
		}
		p.End(shed.Result{})
		time.Sleep(2 * time.Hour)
		if state := s.State(); state.InFlight != 0 || state.Streams != 0 {
			t.Errorf("%+v", state)
		}
		s.Acquire(t.Context(), nil)
		if got := a.last(); got.Completed != 1 || got.Failed != 0 || got.Admitted != 2 {
			t.Errorf("a stream taught %+v", got)
		}
	})
}

// scripted returns its limits one after the other, and panics when there is none left.
type scripted struct {
	limits  []int
	samples []shedlimit.Sample
}

func (a *scripted) Update(s shedlimit.Sample) int {
	s.Routes = append([]shedlimit.RouteSample(nil), s.Routes...)
	for i := range s.Routes {
		r := &s.Routes[i]
		r.Latencies = append([]time.Duration(nil), r.Latencies...)
		r.Ends = append([]time.Duration(nil), r.Ends...)
	}
	s.Ages = append([]time.Duration(nil), s.Ages...)
	a.samples = append(a.samples, s)
	limit := a.limits[0] // panics if there is none
	a.limits = a.limits[1:]
	return limit
}

func (a *scripted) last() shedlimit.Sample { return a.samples[len(a.samples)-1] }
