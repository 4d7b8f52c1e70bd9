package parity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Requests that end in the queue, in which they already hold units.

// queueing is ending with a queue and enough slots.
func queueing[R any]() (*Config[R], *endings) {
	limit, ends := ending[R]()
	limit.Rules[0].Limit = limits.Concurrent(9)
	limit.Rules = append(limit.Rules, core.Rule[R]{
		Name: "queue", Limit: limits.LeakyQueue(limits.PerDay(1), 9), Key: limit.Rules[0].Key,
	})
	return limit, ends
}

func testQueueLeaverEnds[R any](t *testing.T, a Adapter[R]) {
	limit, ends := queueing[R]()
	ctx, leave := context.WithCancel(t.Context())
	limit.Observer = core.ObserverFuncs[R]{OnDecision: func(_ context.Context, _ R, o core.Outcome) {
		if o.Delay() > 0 {
			leave()
		}
	}, Next: limit.Observer}
	server := httptest.NewServer(a.Serve(t, App[R]{Site: limit}))
	t.Cleanup(server.Close)
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 5})
	r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/hello", nil)
	if response, err := server.Client().Do(r); err == nil {
		t.Errorf("answered %s", response.Status)
	}
	ends.wantEnd(t, core.Result{Status: http.StatusServiceUnavailable, Left: true})
}

// twoInQueue sends two requests for one place in the queue. It returns the answer to the refused
// one, and a function by which the other leaves.
func twoInQueue(t *testing.T, server *httptest.Server) (refused *http.Response, leave func()) {
	t.Helper()
	answers := make(chan *http.Response, 2)
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		go func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/hello", nil)
			response, err := server.Client().Do(r)
			if err != nil {
				response = nil
			} else {
				response.Body.Close()
			}
			answers <- response
		}()
	}
	if refused = next(t, answers); refused == nil {
		t.Fatal("no answer")
	}
	return refused, func() {
		cancel()
		next(t, answers)
	}
}

func testFullQueueEnds[R any](t *testing.T, a Adapter[R]) {
	limit, ends := queueing[R]()
	limit.MaxWaiting = 1
	server := httptest.NewServer(a.Serve(t, App[R]{Site: limit}))
	t.Cleanup(server.Close)
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 5})
	refused, leave := twoInQueue(t, server)
	wantStatus(t, refused, http.StatusServiceUnavailable)
	ends.wantEnd(t, core.Result{Status: http.StatusServiceUnavailable})
	leave()
	ends.wantEnd(t, core.Result{Status: http.StatusServiceUnavailable, Left: true})
}

// deadline is a context whose deadline a test triggers.
type deadline struct {
	context.Context
	ended chan struct{}
}

func (d *deadline) Done() <-chan struct{} { return d.ended }

func (d *deadline) Err() error {
	select {
	case <-d.ended:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func testDeadlineEnds[R any](t *testing.T, a Adapter[R]) {
	limit, ends := queueing[R]()
	ended := make(chan struct{})
	limit.Observer = core.ObserverFuncs[R]{OnDecision: func(_ context.Context, _ R, o core.Outcome) {
		if o.Delay() > 0 {
			close(ended)
		}
	}, Next: limit.Observer}
	app := a.Serve(t, App[R]{Site: limit})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.ServeHTTP(w, r.WithContext(&deadline{r.Context(), ended}))
	}))
	t.Cleanup(server.Close)
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 5})
	wantStatus(t, get(t, server, "/hello"), http.StatusServiceUnavailable)
	ends.wantEnd(t, core.Result{Status: http.StatusServiceUnavailable, Left: true})
}
