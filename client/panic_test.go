package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// panicking is a Backend that panics once.
type panicking struct {
	*memory.Memory
	once bool
}

func (p *panicking) Take(ctx context.Context, charges []backends.Charge, decisions []limits.Decision) error {
	if !p.once {
		p.once = true
		panic("a bug")
	}
	return p.Memory.Take(ctx, charges, decisions)
}

type brokenBody struct{ closed bool }

func (*brokenBody) Read([]byte) (int, error) { panic("a bug") }
func (b *brokenBody) Close() error           { b.closed = true; return nil }

// A server recovers from the panic of one request and goes on: what that request has
// counted must not be counted for ever.
func TestAPanicLeavesNothingCounted(t *testing.T) {
	broken := &brokenBody{}
	bug := func(int, *http.Request) *http.Response { panic("a bug") }
	forbidden := func(n int, _ *http.Request) *http.Response {
		a := answer(403, "Content-Type", "application/json")
		a.Body = broken
		return a
	}
	on := func(kind client.EventKind) func(client.Event) {
		return func(e client.Event) {
			if e.Kind == kind {
				panic("a bug")
			}
		}
	}
	once := func(observe func(client.Event)) func(client.Event) {
		var told sync.Once
		return func(e client.Event) { told.Do(func() { observe(e) }) }
	}
	for name, test := range map[string]struct {
		first   answers
		dialect client.Dialect
		observe func(client.Event)
		getBody func() (io.ReadCloser, error)
		backend backends.Backend
	}{
		"Base": {first: bug},
		"Base ends the goroutine": {first: func(int, *http.Request) *http.Response {
			runtime.Goexit()
			return nil
		}},
		"Base returns nothing": {first: func(int, *http.Request) *http.Response { return nil }},
		"a body that is read":  {first: forbidden, dialect: client.GitHub},
		"Observe, limited":     {first: always(429, "Retry-After", "0.001"), observe: on(client.Limited)},
		"Observe, repeated":    {first: always(429, "Retry-After", "0.001"), observe: on(client.Repeated)},
		"Observe, gave up":     {first: always(429, "Retry-After", "60"), observe: on(client.GaveUp)},
		"Observe, held":        {first: always(429, "Retry-After", "0.001"), observe: on(client.Held)},
		"Observe, paused": {
			first:   always(200, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "0.001"),
			observe: on(client.Paused),
		},
		"Observe, resumed": {first: always(429, "Retry-After", "0.001"), observe: on(client.Resumed)},
		"Observe, alone": {first: always(200), observe: once(on(client.Alone)),
			backend: undecided{memory.MustNew(memory.Options{})}},
		"GetBody": {first: always(429, "Retry-After", "0.001"),
			getBody: func() (io.ReadCloser, error) { panic("a bug") }},
		"Backend": {first: always(200), backend: &panicking{Memory: memory.MustNew(memory.Options{})}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(n int, r *http.Request) *http.Response {
					if n == 1 {
						return test.first(n, r)
					}
					return answer(200)
				})
				c := newClient(t, returning{server}, client.Options{
					MaxInFlight: 1, Limit: limits.Concurrent(1), MaxWait: 10 * time.Second,
					Dialect: test.dialect, Observe: test.observe, Backend: test.backend,
				})
				r := request(t, "POST", "http://a/", strings.NewReader("hello"))
				if test.getBody != nil {
					r.GetBody = test.getBody
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { recover() }()
					do(c, r)
				}()
				<-done
				time.Sleep(5 * time.Minute) // what a denial asked for has passed
				start := time.Now()
				func() {
					defer func() { recover() }() // what Observe does once more
					get(c, "http://a/")
				}()
				for range 2 {
					if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 200 {
						t.Errorf("later: %v, %v", response, err)
					}
				}
				if waited := time.Since(start); waited > 2*time.Second {
					t.Errorf("later requests waited %v", waited)
				}
			})
		})
	}
	if !broken.closed {
		t.Error("the body of an answer that nobody gets is not closed")
	}
}

// wild is a context one of whose methods panics, and then no longer.
type wild struct {
	context.Context
	method string
	done   *bool
	calls  *int // that do not panic before
}

func (w wild) panics(method string) {
	if method == w.method && !*w.done {
		if *w.calls--; *w.calls < 0 {
			*w.done = true
			panic("a bug")
		}
	}
}

func (w wild) Err() error            { w.panics("Err"); return w.Context.Err() }
func (w wild) Done() <-chan struct{} { w.panics("Done"); return w.Context.Done() }
func (w wild) Deadline() (d time.Time, ok bool) {
	w.panics("Deadline")
	return w.Context.Deadline()
}

func TestAContextThatPanicsLocksNothing(t *testing.T) {
	for _, method := range []string{"Err", "Done", "Deadline"} {
		for quiet := range 4 {
			t.Run(fmt.Sprintf("%s, call %d", method, quiet+1), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := scripted(once("Retry-After", "2"))
					c := newClient(t, server, client.Options{MaxInFlight: 1, Limit: limits.Concurrent(1)})
					go get(c, "http://a/") // is denied, so that the next one waits
					synctest.Wait()
					panicked, calls := false, quiet
					func() {
						defer func() { recover() }()
						get2(c, wild{t.Context(), method, &panicked, &calls})
					}()
					time.Sleep(5 * time.Second)
					start := time.Now()
					if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 200 {
						t.Errorf("later: %v, %v", response, err)
					}
					if waited := time.Since(start); waited > 0 || !panicked && quiet == 0 {
						t.Errorf("panicked %v; the next request waited %v", panicked, waited)
					}
				})
			})
		}
	}
}

// undecided is a Backend that can decide every limit, and does not.
type undecided struct{ *memory.Memory }

func (undecided) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.New("no connection")
}

// returning is a script that may return no answer.
type returning struct{ *script }

func (s returning) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.at = append(s.at, time.Since(s.began))
	n := len(s.at)
	s.mu.Unlock()
	return s.f(n, r), nil
}
