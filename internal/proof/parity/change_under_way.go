package parity

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// testReplacedInQueue puts rules into force that deny a request while it waits in a queue.
func testReplacedInQueue[R any](t *testing.T, a Adapter[R]) {
	synctest.Test(t, func(t *testing.T) {
		queue := daily[R]("queue", 1)
		queue.Limit = limits.LeakyQueue(limits.PerMinute(1), 9)
		limit, made := changing(queue)
		app := a.Serve(t, App[R]{Site: limit})
		send(t, app, "/hello")
		waiting := make(chan reply)
		began := time.Now()
		go func() { waiting <- send(t, app, "/hello") }()
		synctest.Wait()
		must(t, (*made).Replace([]core.Rule[R]{daily[R]("new", 1)}))
		send(t, app, "/hello")
		if denied := send(t, app, "/hello"); denied.status != http.StatusTooManyRequests {
			t.Errorf("by the new rule: %d", denied.status)
		}
		got := <-waiting
		if waited := time.Since(began); got.status != http.StatusOK || got.body != "hello" ||
			waited != time.Minute {
			t.Errorf("after %v: %d, %q", waited, got.status, got.body)
		}
		for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
			if v := got.header.Get(field); !strings.HasPrefix(v, `"queue";`) || strings.Contains(v, "new") {
				t.Errorf("%s %s", field, v)
			}
		}
	})
}

// testHiddenInQueue hides a rule while a request waits for its turn, and shows it again while the next
// one waits.
func testHiddenInQueue[R any](t *testing.T, a Adapter[R]) {
	synctest.Test(t, func(t *testing.T) {
		queue := daily[R]("queue", 1)
		queue.Limit = limits.LeakyQueue(limits.PerMinute(1), 9)
		hidden := queue
		hidden.Hidden = true
		limit, made := changing(queue)
		app := a.Serve(t, App[R]{Site: limit})
		send(t, app, "/hello")
		for _, next := range []core.Rule[R]{hidden, queue} {
			waiting := make(chan reply)
			go func() { waiting <- send(t, app, "/hello") }()
			synctest.Wait()
			must(t, (*made).Replace([]core.Rule[R]{next}))
			got := <-waiting
			if shown := got.header.Get("RateLimit") != ""; got.status != http.StatusOK || shown != next.Hidden {
				t.Errorf("decided while Hidden was %t: %d, fields %v", !next.Hidden, got.status, got.header)
			}
		}
	})
}

// testReplacedUnderWay removes the rules of a request that holds a slot and whose cost is an
// estimate.
func testReplacedUnderWay[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	before := limit.Rules
	var made Limiter[R]
	limit.Made = func(l Limiter[R]) { made = l }
	began, proceed := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(a.Serve(t, App[R]{Site: limit, Extra: map[string]http.Handler{
		"/extra": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(began)
			<-proceed
			w.WriteHeader(http.StatusAccepted)
			io.WriteString(w, "late")
		}),
	}}))
	t.Cleanup(server.Close)
	answered := make(chan *http.Response, 1)
	go func() {
		response, err := server.Client().Get(server.URL + "/extra")
		if err != nil {
			t.Error(err)
			close(answered)
			return
		}
		response.Body.Close()
		answered <- response
	}()
	next(t, began)
	must(t, made.Replace([]core.Rule[R]{daily[R]("new", 9)}))
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	if held := made.State().Held; held != 1 {
		t.Errorf("%d units are held after their rule is gone, want 1", held)
	}
	ends.wantNoEnd(t)
	close(proceed)
	wantStatus(t, next(t, answered), http.StatusAccepted)
	ends.wantEnd(t, core.Result{Status: http.StatusAccepted, Bytes: 4})
	if held := made.State().Held; held != 0 {
		t.Errorf("%d units are held after the end", held)
	}
	must(t, made.Replace(before))
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 5})
}
