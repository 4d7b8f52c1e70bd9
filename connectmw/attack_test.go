package connectmw_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

const upload = "/greet.v1.Greeter/Upload"

// target is a server with a limiter that allows 50 calls, 4 at once.
type target struct {
	limiter *connectmw.Limiter
	served  atomic.Int32
	client  *http.Client
	url     string
}

// newTarget starts one, whose handlers are run. In the end nothing may be held, no goroutine left, and no more
// served.
func newTarget(t *testing.T, http2 bool, run func(context.Context) error) *target {
	t.Helper()
	const allowed = 50
	of := new(target)
	of.limiter = newLimiter(t, connectmw.Config{Rules: []connectmw.Rule{
		{Name: "calls", Limit: limits.TokenBucket(limits.PerDay(allowed), allowed), Key: keyfuncs.Constant[*connectmw.Call]("all")},
		{Name: "at once", Limit: limits.Concurrent(4), Key: keyfuncs.Address(connectmw.Peer)},
		{Name: "token", Limit: limits.FixedWindow(limits.PerDay(1_000_000)), Key: connectmw.Lift(keyfuncs.BearerToken)},
	}})
	before := runtime.NumGoroutine()
	t.Cleanup(func() { // after the server has stopped
		waitFor(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
		if n := of.served.Load(); n == 0 || n > allowed {
			t.Errorf("%d calls were served, want 1 to %d", n, allowed)
		}
	})
	with := []connect.HandlerOption{
		connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
			return connect.NewError(connect.CodeInternal, nil)
		}),
		connect.WithInterceptors(of.limiter.Interceptor()),
	}
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, func(ctx context.Context, _ *connect.Request[message]) (*connect.Response[message], error) {
		of.served.Add(1)
		return connect.NewResponse(wrapperspb.String("hello")), run(ctx)
	}, with...))
	mux.Handle(upload, connect.NewClientStreamHandler(upload, func(ctx context.Context, s *connect.ClientStream[message]) (*connect.Response[message], error) {
		of.served.Add(1)
		for s.Receive() {
		}
		return connect.NewResponse(wrapperspb.String("done")), run(ctx)
	}, with...))
	of.client, of.url = start(t, mux, http2)
	t.Cleanup(func() {
		of.client.CloseIdleConnections()
		waitFor(t, "nothing is held while the server runs", func() bool { units, _ := of.limiter.Held(); return units == 0 })
	})
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

// post sends a request and reads the answer. It returns 0 if there is none.
func (of *target) post(ctx context.Context, path, contentType string, body io.Reader, fields ...string) int {
	r, err := http.NewRequestWithContext(ctx, "POST", of.url+path, body)
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response, err := of.client.Do(r)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response.StatusCode
}

func eachVersion(t *testing.T, attack func(t *testing.T, http2 bool)) {
	t.Run("HTTP/1.1", func(t *testing.T) { attack(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { attack(t, true) })
}

// Over HTTP/2, a call that its client cancels is a stream that is reset.
func TestRapidResets(t *testing.T) {
	of := newTarget(t, true, waits)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for i := range 1000 {
				ctx, cancel := context.WithCancel(t.Context())
				body, end := io.Pipe()
				go func() {
					if i%2 == 0 {
						io.WriteString(end, `"x`)
					}
					cancel()
					end.Close()
				}()
				of.post(ctx, []string{greet, upload}[i%2], []string{"application/json", "application/connect+json"}[i%2], body)
				body.Close()
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	go of.post(ctx, greet, "application/json", strings.NewReader(`"x"`))
	waitFor(t, "a call is served", func() bool { return of.served.Load() > 0 })
	cancel()
}

func TestMessagesThatNeverEnd(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		of := newTarget(t, http2, waits)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var ends []*io.PipeWriter
		for range 8 {
			body, end := io.Pipe()
			ends = append(ends, end)
			wg.Go(func() { of.post(ctx, upload, "application/connect+json", body) })
			wg.Go(func() { end.Write([]byte{0, 0, 0x3f, 0xff, 0xff, '"'}) }) // of 4 MB
		}
		waitFor(t, "all slots are held", func() bool { units, _ := of.limiter.Held(); return units == 4 })
		if status := of.post(t.Context(), greet, "application/json", strings.NewReader(`"x"`)); status != http.StatusTooManyRequests {
			t.Errorf("beside them: %d", status)
		}
		cancel()
		for _, end := range ends {
			end.Close()
		}
		wg.Wait()
	})
}

func TestDeadlinesOfAMicrosecond(t *testing.T) {
	of := newTarget(t, true, waits)
	for range 500 {
		of.post(t.Context(), greet, "application/grpc+json", strings.NewReader("\x00\x00\x00\x00\x03\"x\""), "Grpc-Timeout", "1u", "Te", "trailers")
		of.post(t.Context(), upload, "application/grpc+json", strings.NewReader("\x00\x00\x00\x00\x03\"x\""), "Grpc-Timeout", "1u", "Te", "trailers")
	}
	of.post(t.Context(), greet, "application/grpc+json", strings.NewReader("\x00\x00\x00\x00\x03\"x\""), "Grpc-Timeout", "100m", "Te", "trailers")
	waitFor(t, "a call is served", func() bool {
		of.post(t.Context(), greet, "application/grpc+json", strings.NewReader("\x00\x00\x00\x00\x03\"x\""), "Grpc-Timeout", "1S", "Te", "trailers")
		return of.served.Load() > 0
	})
}

func TestPanicsOfHandlers(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		of := newTarget(t, http2, func(context.Context) error { panic("boom") })
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					of.post(t.Context(), greet, "application/json", strings.NewReader(`"x"`))
					of.post(t.Context(), upload, "application/connect+json", strings.NewReader(""))
				}
			})
		}
		wg.Wait()
	})
}
