package connectmw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
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

const (
	upload = "/greet.v1.Greeter/Upload"
	chat   = "/greet.v1.Greeter/Chat"
	tick   = "/greet.v1.Greeter/Tick"
)

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
	return newTargetWith(t, http2, 0, run)
}

// newTargetWith is newTarget for a server that takes headers of so many bytes.
func newTargetWith(t *testing.T, http2 bool, headerBytes int, run func(context.Context) error) *target {
	t.Helper()
	const allowed = 50
	of := new(target)
	of.limiter = newLimiter(t, connectmw.Config{Rules: []connectmw.Rule{
		{Name: "calls", Limit: limits.TokenBucket(limits.PerDay(allowed), allowed),
			Key: keyfuncs.Constant[*connectmw.Call]("all")},
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
	mux.Handle(greet,
		connect.NewUnaryHandler(greet,
			func(ctx context.Context, _ *connect.Request[message]) (*connect.Response[message], error) {
				of.served.Add(1)
				return connect.NewResponse(wrapperspb.String("hello")), run(ctx)
			}, with...))
	mux.Handle(upload,
		connect.NewClientStreamHandler(upload,
			func(ctx context.Context, s *connect.ClientStream[message]) (*connect.Response[message], error) {
				of.served.Add(1)
				for s.Receive() {
				}
				return connect.NewResponse(wrapperspb.String("done")), run(ctx)
			}, with...))
	mux.Handle(chat,
		connect.NewBidiStreamHandler(chat, func(ctx context.Context, s *connect.BidiStream[message, message]) error {
			of.served.Add(1)
			for {
				m, err := s.Receive()
				if errors.Is(err, io.EOF) {
					return run(ctx)
				}
				if err != nil {
					return err
				}
				if err := s.Send(m); err != nil {
					return err
				}
			}
		}, with...))
	mux.Handle(tick,
		connect.NewServerStreamHandler(tick,
			func(ctx context.Context, _ *connect.Request[message], s *connect.ServerStream[message]) error {
				of.served.Add(1)
				page := wrapperspb.String(strings.Repeat("x", 1<<16))
				for {
					if err := s.Send(page); err != nil {
						return err
					}
				}
			}, with...))
	of.client, of.url = startWith(t, mux, http2, headerBytes)
	t.Cleanup(func() {
		of.client.CloseIdleConnections()
		waitFor(t, "nothing is held while the server runs",
			func() bool { units := of.limiter.State().Held; return units == 0 })
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

// serveOne sends a call, and waits until one is served, that or another.
func (of *target) serveOne(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go of.post(ctx, greet, "application/json", strings.NewReader(`"x"`))
	waitFor(t, "a call is served", func() bool { return of.served.Load() > 0 })
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
				of.post(ctx, []string{greet, upload}[i%2],
					[]string{"application/json", "application/connect+json"}[i%2], body)
				body.Close()
			}
		})
	}
	wg.Wait()
	of.serveOne(t)
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
		waitFor(t, "all slots are held", func() bool { units := of.limiter.State().Held; return units == 4 })
		status := of.post(t.Context(), greet, "application/json", strings.NewReader(`"x"`))
		if status != http.StatusTooManyRequests {
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
		of.post(t.Context(), greet, "application/grpc+json", strings.NewReader("\x00\x00\x00\x00\x03\"x\""),
			"Grpc-Timeout", "1u", "Te", "trailers")
		of.post(t.Context(), upload, "application/grpc+json", strings.NewReader("\x00\x00\x00\x00\x03\"x\""),
			"Grpc-Timeout", "1u", "Te", "trailers")
	}
	of.post(t.Context(), greet, "application/grpc+json", strings.NewReader("\x00\x00\x00\x00\x03\"x\""), "Grpc-Timeout",
		"100m", "Te", "trailers")
	waitFor(t, "a call is served", func() bool {
		of.post(t.Context(), greet, "application/grpc+json", strings.NewReader("\x00\x00\x00\x00\x03\"x\""),
			"Grpc-Timeout", "1S", "Te", "trailers")
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

// wires are the protocols with JSON: of unary calls and of streams.
var wires = []struct {
	name          string
	http2         bool
	unary, stream string
	prefix        string // of a message of a unary call of one byte or two
}{
	{"Connect over HTTP/1.1", false, "application/json", "application/connect+json", ""},
	{"Connect over HTTP/2", true, "application/json", "application/connect+json", ""},
	{"gRPC", true, "application/grpc+json", "application/grpc+json", "\x00\x00\x00\x00\x02"},
	{"gRPC-Web over HTTP/1.1", false, "application/grpc-web+json", "application/grpc-web+json", "\x00\x00\x00\x00\x02"},
	{"gRPC-Web over HTTP/2", true, "application/grpc-web+json", "application/grpc-web+json", "\x00\x00\x00\x00\x02"},
}

// Most servers refuse a header of 8 MB before a limiter sees it. One that takes it counts it, and keeps none of it.
func TestMetadataOf8MB(t *testing.T) {
	for _, wire := range wires {
		for _, size := range []int{0, 32 << 20} {
			if size > 0 && wire.http2 && wire.name != "gRPC" {
				continue // the same for minutes
			}
			t.Run(fmt.Sprint(wire.name, ", ", size>>20), func(t *testing.T) {
				of := newTargetWith(t, wire.http2, size, func(context.Context) error { return nil })
				before := inUse()
				ask := func(fields ...string) int {
					return of.post(t.Context(), greet, wire.unary, strings.NewReader(wire.prefix+`""`),
						append(fields, "Te", "trailers")...)
				}
				hostile := [][]string{
					{"Authorization", "Bearer " + strings.Repeat("a", 8<<20)},
					{"Authorization", strings.Repeat("a", 8<<20)},
					many(40_000),
				}
				for i, fields := range hostile {
					if status := ask(fields...); size == 0 && status == http.StatusOK {
						t.Errorf("metadata %d: %d", i, status)
					}
				}
				served := of.served.Load()
				if size > 0 && served == 0 {
					t.Error("the limiter saw none")
				}
				clear(hostile)
				of.client.CloseIdleConnections()
				waitFor(t, "none of it is kept", func() bool { return inUse() < before+4<<20 })
				if status := ask(); status != http.StatusOK || of.served.Load() != served+1 {
					t.Errorf("afterwards: %d", status)
				}
			})
		}
	}
}

// inUse returns how many bytes are in use, without what pools keep.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// many returns n fields of 200 bytes.
func many(n int) (fields []string) {
	for i := range n {
		fields = append(fields, fmt.Sprint("X-", i), strings.Repeat("a", 190))
	}
	return fields
}

// Streams whose client has no more to say, and does not listen.
func TestHalfClosedStreams(t *testing.T) {
	for _, wire := range wires {
		t.Run(wire.name, func(t *testing.T) {
			of := newTarget(t, wire.http2, waits)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begin := func(path string) {
				r, _ := http.NewRequestWithContext(ctx, "POST", of.url+path,
					strings.NewReader("\x00\x00\x00\x00\x02\"\""))
				r.Header.Set("Content-Type", wire.stream)
				r.Header.Set("Te", "trailers")
				if response, err := of.client.Do(r); err == nil {
					t.Cleanup(func() { response.Body.Close() }) // until then nobody reads it
				}
			}
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() { begin([]string{tick, upload}[i%2]) })
			}
			waitFor(t, "all slots are held", func() bool { units := of.limiter.State().Held; return units == 4 })
			status := of.post(t.Context(), greet, "application/json", strings.NewReader(`"x"`))
			if status != http.StatusTooManyRequests {
				t.Errorf("beside them: %d", status)
			}
			cancel()
			wg.Wait()
		})
	}
}

// Over HTTP/1.1 the client may close its half of the connection.
func TestHalfClosedConnections(t *testing.T) {
	of := newTarget(t, false, waits)
	for i := range 20 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(of.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		path := []string{tick, upload}[i%2]
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/connect+json\r\n"+
			"Content-Length: 7\r\n\r\n\x00\x00\x00\x00\x02\"\"", path)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if path == tick {
			conn.(*net.TCPConn).SetReadBuffer(1)
			go func() { conn.Read(make([]byte, 1)); conn.Close() }() // in the middle of the answer
		}
	}
	of.serveOne(t) // the server may not have come to any of them
}

// Each way in which a client may leave a stream of both.
func TestStreamsOfBothThatAreLeft(t *testing.T) {
	for _, p := range protocols {
		if !p.http2 {
			continue // see below
		}
		t.Run(p.name, func(t *testing.T) {
			of := newTarget(t, true, func(context.Context) error {
				if rand.N(3) == 0 {
					panic("boom")
				}
				return nil
			})
			client := connect.NewClient[message, message](of.client, of.url+chat, p.options...)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for i := range 50 {
						talk(t.Context(), client, i%7)
					}
				})
			}
			wg.Wait()
			for range 10 { // and once in peace, if some are left of the 50
				talk(t.Context(), client, 6)
			}
		})
	}
}

func talk(ctx context.Context, client *connect.Client[message, message], way int) {
	ctx, cancel := context.WithCancel(ctx)
	s := client.CallBidiStream(ctx)
	defer func() { // net/http resets a stream once its request is closed, not when its context ends
		cancel()
		s.CloseRequest()
		s.CloseResponse()
	}()
	if way == 0 { // says nothing
		s.Send(nil)
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // the server denies it, or ends it, while this one sends
		for range 1 + rand.N(20) {
			if s.Send(wrapperspb.String("hello")) != nil {
				return
			}
		}
		if way >= 5 {
			s.CloseRequest()
		}
	})
	switch way {
	case 1: // hears nothing
	case 2: // leaves in the middle
		s.Receive()
		cancel()
	case 3: // closes its ear, and goes on: that waits for the rest of what the server says
		s.Receive()
		time.AfterFunc(time.Millisecond, cancel)
		s.CloseResponse()
	case 4: // leaves at once
		cancel()
	case 5: // closes its mouth, and then its ear
		wg.Wait()
		s.CloseResponse()
	default:
		for {
			if _, err := s.Receive(); err != nil {
				break
			}
		}
		s.CloseResponse()
	}
}

// Connect refuses streams of both over HTTP/1.1 before any interceptor.
func TestStreamsOfBothNeedHTTP2(t *testing.T) {
	of := newTarget(t, false, waits)
	for _, contentType := range []string{
		"application/connect+json", "application/grpc-web+json", "application/grpc+json",
	} {
		for range 20 {
			status := of.post(t.Context(), chat, contentType, strings.NewReader("\x00\x00\x00\x00\x02\"\""))
			if status != http.StatusHTTPVersionNotSupported {
				t.Errorf("%s: %d", contentType, status)
			}
		}
	}
	if of.served.Load() != 0 {
		t.Error("one was served")
	}
	of.serveOne(t)
}
