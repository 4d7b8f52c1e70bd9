package parity

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Requests that wait for their turn.

// testLeaving tests a client that leaves after its request has entered the queue.
func testLeaving[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](limits.LeakyQueue(limits.PerDay(1), 3))
	decided := make(chan core.Outcome, 2)
	limit.Observer = core.ObserverFuncs[R]{
		OnDecision: func(_ context.Context, _ R, o core.Outcome) { decided <- o },
		Next:       limit.Observer,
	}
	observed := func() (o core.Outcome) {
		select {
		case o = <-decided:
		case <-time.After(30 * time.Second): // reached only if OnDecision is never called
			t.Error("the limiter did not call OnDecision")
		}
		return o
	}
	var called atomic.Int32
	ended := make(chan int, 2) // the statuses of ended requests
	app := a.Serve(t, App[R]{Site: limit, Extra: map[string]http.Handler{
		"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }),
	}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log := &logged{w, http.StatusOK}
		app.ServeHTTP(log, r)
		ended <- log.status
	}))
	defer server.Close()

	wantStatus(t, get(t, server, "/extra"), http.StatusOK)
	observed()
	<-ended
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		if o := observed(); o.Delay() != 24*time.Hour {
			t.Errorf("delay %v", o.Delay())
		}
		leave()
	}()
	r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/extra", nil)
	if response, err := server.Client().Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want to have left", response, err)
	}
	if status := <-ended; status != http.StatusServiceUnavailable {
		t.Errorf("a log has %d for a client that left the queue, want 503", status)
	}
	if called.Load() != 1 {
		t.Errorf("%d requests were served, want 1", called.Load())
	}
	var b strings.Builder
	if limit.Backend.(*ledger).write(&b); b.String() != "= everybody: 1 of 3\n" {
		t.Errorf("left: %s", b.String())
	}
}

// logged is the writer of a middleware that logs the status.
type logged struct {
	http.ResponseWriter
	status int
}

func (l *logged) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *logged) WriteHeader(status int) {
	l.status = status
	l.ResponseWriter.WriteHeader(status)
}

// testFullQueue sends two requests for one place in the queue. One of them must be refused.
func testFullQueue[R any](sorry bool) func(*testing.T, Adapter[R]) {
	return func(t *testing.T, a Adapter[R]) {
		limit := everybody[R](limits.LeakyQueue(limits.PerDay(1), 9))
		limit.MaxWaiting, limit.Sorry = 1, sorry
		var called atomic.Int32
		server := serve(t, a, limit, func(http.ResponseWriter, *http.Request) { called.Add(1) })
		wantStatus(t, get(t, server, "/extra"), http.StatusOK)

		type answer struct {
			*http.Response
			body string
		}
		answers := make(chan *answer, 2)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for range 2 {
			go func() {
				r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/extra", nil)
				response, err := server.Client().Do(r)
				if err != nil {
					answers <- nil
					return
				}
				defer response.Body.Close()
				body, _ := io.ReadAll(response.Body)
				answers <- &answer{response, string(body)}
			}()
		}
		refused := <-answers
		leave()
		if waiting := <-answers; refused == nil || waiting != nil || called.Load() != 1 {
			t.Fatalf("answers %v and %v, %d served: want one answer, and one request in the queue until "+
				"it leaves", refused, waiting, called.Load())
		}
		want, body := http.StatusServiceUnavailable, "The service cannot decide on this request right "+
			"now: retry in 1 second."
		if sorry {
			body = "sorry, unavailable by everybody" // as Sorry answers
		}
		wantStatus(t, refused.Response, want)
		if h := refused.Header; h.Get("Retry-After") != "1" || h.Get("RateLimit") != "" ||
			h.Get("Cache-Control") != "no-store" || !strings.Contains(refused.body, body) {
			t.Errorf("fields %v, content %q", h, refused.body)
		}
		var left strings.Builder
		if limit.Backend.(*ledger).write(&left); left.String() != "= everybody: 6 of 9\n" {
			t.Errorf("left: %s, want the slots spent", &left)
		}
	}
}

// testDeadline sends a request that must wait for a day to a server with a deadline of a
// millisecond.
func testDeadline[R any](t *testing.T, a Adapter[R]) {
	var called atomic.Int32
	app := a.Serve(t, App[R]{
		Site: everybody[R](limits.LeakyQueue(limits.PerDay(1), 3)),
		Extra: map[string]http.Handler{
			"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) })},
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if called.Load() > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			defer cancel()
			r = r.WithContext(ctx)
		}
		app.ServeHTTP(w, r)
	}))
	defer server.Close()
	wantStatus(t, get(t, server, "/extra"), http.StatusOK)
	late := get(t, server, "/extra")
	wantStatus(t, late, http.StatusServiceUnavailable)
	if late.Header.Get("Retry-After") != "1" || late.Header.Get("Cache-Control") != "no-store" ||
		called.Load() != 1 {
		t.Errorf("fields %v, %d requests served", late.Header, called.Load())
	}
}
