package shed_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/internal/http/watch"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
)

func ok(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) }

// full returns a shedder whose only place is taken.
func full(t *testing.T, options shed.Options[request]) *shed.Shedder[request] {
	t.Helper()
	options.Limit = 1
	s := shed.MustNew(options)
	if p, _ := s.Acquire(t.Context(), httptest.NewRequest("GET", "/", nil)); p == nil {
		t.Fatal("the first request was shed")
	}
	return s
}

func ask(h http.Handler, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// capacity is a limiter whose only rule is about the whole service, which is full.
func capacity(t *testing.T) *nethttp.Limiter {
	limit := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "service", Limit: limits.Concurrent(1), Key: keyfuncs.Constant[request]("everybody"), DenyAs503: true,
	}}})
	o := limit.Decide(httptest.NewRequest("GET", "/", nil))
	t.Cleanup(func() { o.End(core.Result{}) })
	return limit
}

func TestAShedRequestIsAnsweredAsByARuleWithCapacity(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"problem": func(*http.Request) {},
		"plain":   func(r *http.Request) { r.Header.Set("Accept", "text/plain") },
		"HEAD":    func(r *http.Request) { r.Method = "HEAD" },
	} {
		t.Run(name, func(t *testing.T) {
			want := ask(capacity(t).Handler(http.HandlerFunc(ok)), change)
			handler := shed.Handler(full(t, shed.Options[request]{}), http.HandlerFunc(ok))
			for {
				got := ask(handler, change)
				if got.Header().Get("Retry-After") != want.Header().Get("Retry-After") {
					continue // drawn from 1 to 4: wait for 1, which the rule always says
				}
				if got.Code != 503 || got.Code != want.Code || got.Body.String() != want.Body.String() {
					t.Errorf("%d %s, want %d %s", got.Code, got.Body, want.Code, want.Body)
				}
				if !maps.EqualFunc(got.Header(), want.Header(),
					func(a, b []string) bool { return strings.Join(a, ",") == strings.Join(b, ",") }) {
					t.Errorf("%v, want %v", got.Header(), want.Header())
				}
				return
			}
		})
	}
}

func TestRetryAfterIsOneToFourSecondsAtRandom(t *testing.T) {
	handler := shed.Handler(full(t, shed.Options[request]{}), http.HandlerFunc(ok))
	seen := map[string]int{}
	for range 400 {
		w := ask(handler)
		retry := w.Header().Get("Retry-After")
		seen[retry]++
		unit := " seconds."
		if retry == "1" {
			unit = " second."
		}
		if !strings.Contains(w.Body.String(), "retry in "+retry+unit) {
			t.Fatalf("Retry-After %s: %s", retry, w.Body)
		}
	}
	if len(seen) != 4 || seen["1"] == 0 || seen["2"] == 0 || seen["3"] == 0 || seen["4"] == 0 {
		t.Errorf("%v", seen)
	}
}

func TestA503HasNothingOfAnOuterLimiterOrHandler(t *testing.T) {
	outer := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "outer", Limit: limits.FixedWindow(limits.PerDay(10)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	inner := shed.Handler(full(t, shed.Options[request]{}), http.HandlerFunc(ok))
	w := ask(outer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w.Header().Get("RateLimit") == "" {
			t.Error("the outer limiter wrote no fields")
		}
		w.Header().Set("ETag", `"of what is not sent"`)
		inner.ServeHTTP(w, r)
	})))
	for _, field := range []string{"RateLimit", "RateLimit-Policy", "ETag"} {
		if got := w.Header().Get(field); w.Code != 503 || got != "" {
			t.Errorf("%d, %s: %s", w.Code, field, got)
		}
	}
}

func TestDeniedAnswersInsteadWithTheFieldsSet(t *testing.T) {
	s := full(t, shed.Options[request]{Denied: func(w http.ResponseWriter, _ *http.Request, e shed.Event) error {
		if w.Header().Get("Retry-After") == "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%v", w.Header())
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, err := w.Write([]byte(e.Verdict.String() + " " + e.Class))
		return err
	}})
	w := ask(shed.Handler(s, http.HandlerFunc(ok)))
	if w.Code != 503 || w.Body.String() != "shed all" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHandlerRefusesNil(t *testing.T) {
	for name, call := range map[string]func(){
		"no shedder":   func() { shed.Handler(nil, http.HandlerFunc(ok)) },
		"zero shedder": func() { shed.Handler(new(shed.Shedder[request]), http.HandlerFunc(ok)) },
		"no handler":   func() { shed.Handler(shed.MustNew(shed.Options[request]{}), nil) },
		"mistake":      func() { shed.MustNew(shed.Options[request]{SLO: -1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

// A context also ends by the server's own deadline, or because the server shuts down and its
// BaseContext ends. Its client still listens, and must not take an empty 200 for the answer.
func TestAWaiterWhoseContextEndsIsAnswered503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := shed.Handler(full(t, shed.Options[request]{MaxWait: time.Second}), http.HandlerFunc(ok))
		within := func(ctx context.Context) func(*http.Request) {
			return func(r *http.Request) { *r = *r.WithContext(ctx) }
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if w := ask(handler, within(ctx)); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("deadline: %d %v", w.Code, w.Header())
		}
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, leave)
		if w := ask(handler, within(ctx)); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("left: %d %v %s", w.Code, w.Header(), w.Body)
		}
	})
}

// hijackable is a writer of HTTP/1.
type hijackable struct {
	*httptest.ResponseRecorder
	err error
}

func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, h.err }

func TestAHijackTakesTheRequestOutOfFlightUnlessItFails(t *testing.T) {
	for _, err := range []error{nil, errors.New("refused")} {
		s := shed.MustNew(shed.Options[request]{})
		shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Hijacker).Hijack()
			state, streams := s.State(), 0
			if err == nil {
				streams = 1
			}
			if state.Streams != streams || state.InFlight != 1-streams {
				t.Errorf("%v: %+v", err, state)
			}
		})).ServeHTTP(&hijackable{httptest.NewRecorder(), err}, httptest.NewRequest("GET", "/", nil))
		if state := s.State(); state.InFlight != 0 || state.Streams != 0 {
			t.Errorf("%+v", state)
		}
	}
}

func TestAHandlerMaySayThatItStreams(t *testing.T) {
	s := shed.MustNew(shed.Options[request]{})
	ask(shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !shed.Stream(w) || shed.Stream(w) {
			t.Error("told another number of times than once")
		}
		if state := s.State(); state.InFlight != 0 || state.Streams != 1 {
			t.Errorf("%+v", state)
		}
	})))
	if state := s.State(); state.InFlight != 0 || state.Streams != 0 || shed.Stream(httptest.NewRecorder()) {
		t.Errorf("%+v", state)
	}
}

// Whether a client asks for an upgrade is its own choice.
func TestAnUpgradeThatIsOnlyAskedForIsShed(t *testing.T) {
	w := ask(shed.Handler(full(t, shed.Options[request]{}), http.HandlerFunc(ok)), func(r *http.Request) {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
	})
	if w.Code != 503 {
		t.Errorf("%d", w.Code)
	}
}

// A goroutine may outlive its handler, and write through a writer that allows that.
func TestAWriterThatIsUsedAfterTheEndChangesNothing(t *testing.T) {
	s := shed.MustNew(shed.Options[request]{})
	var late http.ResponseWriter
	ask(shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { late = w })))
	late.(http.Flusher).Flush()
	late.Write([]byte("x"))
	if state := s.State(); state.InFlight != 0 || state.Streams != 0 {
		t.Errorf("%+v", state)
	}
}

func TestStatusAndRouteOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted{limits: []int{10, 10}}
		s := using(t, a, shed.Options[request]{})
		mux := http.NewServeMux()
		mux.HandleFunc("GET /answer/{status}", func(w http.ResponseWriter, r *http.Request) {
			switch r.PathValue("status") {
			case "none":
			case "gone":
				w.WriteHeader(http.StatusGone)
			case "early":
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusInternalServerError)
			case "panic":
				panic("oops")
			}
		})
		mux.HandleFunc("GET /left", ok)
		handler := shed.Handler(s, mux)
		get := func(path string, change ...func(*http.Request)) {
			defer func() { _ = recover() }()
			ask(handler, append(change, func(r *http.Request) { r.URL.Path = path })...)
		}
		for _, status := range []string{"none", "written", "gone", "early", "panic"} {
			get("/answer/" + status)
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		get("/left", func(r *http.Request) { *r = *r.WithContext(left) })
		get("/nowhere")
		time.Sleep(time.Minute)
		s.Acquire(t.Context(), httptest.NewRequest("GET", "/", nil))
		got := a.last()
		if got.Completed != 2 || got.Failed != 4 || got.Left != 1 || got.Admitted != 7 {
			t.Errorf("%+v", got)
		}
		for i, want := range []shedlimit.RouteSample{
			{Route: "GET /answer/{status}", Completed: 2, Failed: 3},
			{Route: "GET /left", Failed: 1},
			{Route: "", Failed: 1},
		} {
			if r := got.Routes[i]; r.Route != want.Route || r.Completed != want.Completed || r.Failed != want.Failed {
				t.Errorf("%+v, want %+v", r, want)
			}
		}
	})
}

// http.ServeMux takes the path for the pattern where it redirects, for CONNECT or in Go 1.25
// for any method. A client could fill the table of routes.
func TestRedirectsAreNoRoutesOfTheirOwn(t *testing.T) {
	s := shed.MustNew(shed.Options[request]{})
	mux := http.NewServeMux()
	mux.HandleFunc("/users/{id}/", ok)
	handler := shed.Handler(s, mux)
	for i := range 50 {
		for _, method := range []string{"CONNECT", "GET"} {
			for _, path := range []string{"/users/%d", "//users/%d", "/users/./%d/.", "/users/%d/", "/users/%d/x"} {
				ask(handler, func(r *http.Request) { r.Method, r.URL.Path = method, fmt.Sprintf(path, i) })
			}
		}
	}
	if routes := s.State().Routes; routes > 2 {
		t.Errorf("%d routes", routes)
	}
}

func TestRouteOfTheOptionsNamesRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted{limits: []int{10, 10}}
		s := using(t, a, shed.Options[request]{Route: func(r *http.Request) string { return r.Method }})
		ask(shed.Handler(s, http.HandlerFunc(ok)))
		time.Sleep(time.Minute)
		s.Acquire(t.Context(), httptest.NewRequest("GET", "/", nil))
		if routes := a.last().Routes; len(routes) != 1 || routes[0].Route != "GET" {
			t.Errorf("%+v", routes)
		}
	})
}

func TestAResponseThatHasBegunIsNotAnsweredAgain(t *testing.T) {
	gate := shedgate.New(full(t, shed.Options[request]{}), shedgate.Config[request]{
		Committed: func(request) bool { return true },
	})
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	err := gate.Serve(w, r, r, func(http.ResponseWriter, *http.Request) error { t.Error("it went on"); return nil })
	if err != nil || w.Body.Len() > 0 || len(w.Header()) > 0 {
		t.Errorf("%v, %v, %s", err, w.Header(), w.Body)
	}
}

func TestAGateBelievesItsFramework(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted{limits: []int{10, 10}}
		oops := errors.New("oops")
		s := using(t, a, shed.Options[request]{})
		gate := shedgate.New(s, shedgate.Config[request]{
			Route: func(r *http.Request) string { return "framework's" },
			Answered: func(r *http.Request, err error) (int, int64, bool) {
				if err == oops {
					return 302, 0, false
				}
				return 500, 0, true
			},
		})
		for _, want := range []error{oops, nil} {
			r := httptest.NewRequest("GET", "/", nil)
			if err := gate.Serve(httptest.NewRecorder(), r, r, func(http.ResponseWriter, *http.Request) error { return want }); err != want {
				t.Errorf("%v, want %v", err, want)
			}
		}
		time.Sleep(time.Minute)
		s.Acquire(t.Context(), nil)
		if got := a.last(); got.Completed != 1 || got.Failed != 1 || got.Routes[0].Route != "framework's" {
			t.Errorf("%+v", got)
		}
	})
}

func TestACallOfAGateThatAsksNothingFailsByItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted{limits: []int{10, 10}}
		s := using(t, a, shed.Options[int]{})
		gate := shedgate.New(s, shedgate.Config[int]{})
		oops := errors.New("oops")
		for _, want := range []error{oops, nil, nil} {
			denial, err := gate.ServeCall(t.Context(), 0, func(context.Context, watch.Listener) error { return want })
			if denial != nil || err != want {
				t.Errorf("%v, %v, want %v", denial, err, want)
			}
		}
		time.Sleep(time.Minute)
		s.Acquire(t.Context(), 0)
		if got := a.last(); got.Completed != 2 || got.Failed != 1 {
			t.Errorf("%+v", got)
		}
	})
}
