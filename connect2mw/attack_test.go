package connect2mw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connect2mw"
	"github.com/weir-go/weir/internal/proof/bypass"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// A procedure without side effects is called by GET as well.
func TestNoSpellingOfAMethodPassesALimit(t *testing.T) {
	bypass.Calls(t, func(t *testing.T, file string) func(method, path string) bool {
		rules := bypass.Rules(t, file, policy.Names[*connect2mw.Call]{Request: (*connect2mw.Call).Request})
		l := newLimiter(t, connect2mw.Config{Rules: rules})
		var served atomic.Int32
		method := unary("/parity.v1.First/Unary", func(context.Context, string) (string, error) {
			served.Add(1)
			return "hello", nil
		})
		method.Spec.IdempotencyLevel = connect.IdempotencyNoSideEffects
		c, server := start(t, mounted(serving(l.Interceptor(), method)), false)
		return func(method, target string) bool {
			before := served.Load()
			r, err := http.NewRequest(method, server, strings.NewReader(`"x"`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.URL.Opaque = target
			if method == "GET" {
				r.Body, r.ContentLength = nil, 0
				r.URL.RawQuery = url.Values{"connect": {"v1"}, "encoding": {"json"}, "message": {`"x"`}}.Encode()
			}
			if response, err := c.Do(r); err == nil {
				response.Body.Close()
			}
			return served.Load() > before
		}
	})
}

var chat = connect.Spec{Procedure: "/greet.v1.Greeter/Chat", StreamType: connect.StreamTypeBidi}

// target is a server with a limiter that allows 50 calls, 4 at once.
type target struct {
	*connect.Server
	limiter *connect2mw.Limiter
	served  atomic.Int32
}

// newTarget returns one, whose handlers are run. In the end nothing may be held, no goroutine left, and
// no more served.
func newTarget(t *testing.T, run func(context.Context) error) *target {
	t.Helper()
	const allowed = 50
	of := new(target)
	of.limiter = newLimiter(t, connect2mw.Config{Rules: []connect2mw.Rule{
		{Name: "calls", Limit: limits.TokenBucket(limits.PerDay(allowed), allowed),
			Key: keyfuncs.Constant[*connect2mw.Call]("all")},
		{Name: "at once", Limit: limits.Concurrent(4), Key: keyfuncs.Address(connect2mw.Peer)},
	}})
	before := runtime.NumGoroutine()
	t.Cleanup(func() { // after the server has stopped
		waitFor(t, "nothing is held", func() bool { return of.limiter.State().Held == 0 })
		waitFor(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
		if n := of.served.Load(); n == 0 || n > allowed {
			t.Errorf("%d calls were served, want 1 to %d", n, allowed)
		}
	})
	of.Server = connect.NewServer(addressed, recovering, of.limiter.Interceptor())
	of.Register(
		unary(greet, func(ctx context.Context, _ string) (string, error) {
			of.served.Add(1)
			return "hello", run(ctx)
		}),
		connect.Method{Spec: chat,
			Handler: func(ctx context.Context, _ connect.Spec, s connect.ServerStream) error {
				of.served.Add(1)
				for {
					m := new(message)
					if err := s.Receive(m); errors.Is(err, io.EOF) {
						return run(ctx)
					} else if err != nil {
						return err
					}
					if err := s.Send(m); err != nil {
						return err
					}
				}
			}})
	return of
}

func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("a minute later it is not so that %s", what)
			return
		}
	}
}

func waits(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A call is counted, and holds its units, while its message arrives.
func TestMessagesThatNeverEnd(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		of := newTarget(t, waits)
		of.served.Add(1) // none is served, since no message ends
		c, url := start(t, mounted(of.Server), http2)
		ctx, cancel := context.WithCancel(t.Context())
		post := func(ctx context.Context, body io.Reader) int {
			r, err := http.NewRequestWithContext(ctx, "POST", url+greet, body)
			if err != nil {
				return 0
			}
			r.Header.Set("Content-Type", "application/json")
			response, err := c.Do(r)
			if err != nil {
				return 0
			}
			response.Body.Close()
			return response.StatusCode
		}
		var all sync.WaitGroup
		var ends []*io.PipeWriter
		for range 8 {
			body, end := io.Pipe()
			ends = append(ends, end)
			all.Go(func() { post(ctx, body) })
			all.Go(func() { end.Write([]byte(`"x`)) })
		}
		waitFor(t, "all slots are held", func() bool { return of.limiter.State().Held == 4 })
		if status := post(t.Context(), strings.NewReader(`"x"`)); status != http.StatusTooManyRequests {
			t.Errorf("beside them: %d", status)
		}
		cancel()
		for _, end := range ends {
			end.Close()
		}
		all.Wait()
	}
}

func TestPanicsOfHandlers(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			of := newTarget(t, func(context.Context) error { panic("boom") })
			c := w.open(t, of.Server)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 20 {
						ask(t.Context(), c, greet, "x")
					}
				})
			}
			all.Wait()
		})
	}
}

// Each way in which a client may leave a call or a stream of both.
func TestCallsThatAreLeft(t *testing.T) {
	for _, w := range ways {
		if !w.http2 && !w.inProcess {
			continue // streams of both need HTTP/2
		}
		t.Run(w.name, func(t *testing.T) {
			of := newTarget(t, func(context.Context) error { return nil })
			c := w.open(t, of.Server)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for i := range 25 {
						leave(t.Context(), c, i%5)
					}
				})
			}
			all.Wait()
			for range 10 { // and once in peace, if some are left of the 50
				leave(t.Context(), c, 4)
			}
		})
	}
}

func leave(ctx context.Context, c *connect.Client, how int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.CallClientStream(ctx, chat)
	if err != nil {
		return
	}
	defer s.Close()
	switch how {
	case 0: // says nothing
		s.SendHeaders()
	case 1: // leaves at once
		s.Send(wrapperspb.String("hello"))
		cancel()
	case 2: // hears nothing
		s.Send(wrapperspb.String("hello"))
		s.CloseSend()
	case 3: // leaves in the middle
		s.Send(wrapperspb.String("hello"))
		s.Receive(new(message))
		cancel()
	default:
		s.Send(wrapperspb.String("hello"))
		s.CloseSend()
		for s.Receive(new(message)) == nil {
		}
	}
}
