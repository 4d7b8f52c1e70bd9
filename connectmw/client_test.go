package connectmw_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// server has a limiter, a method and a stream.
type server struct {
	limiter *connectmw.Limiter
	denied  atomic.Int32
	handler http.Handler
}

const countdown = "/greet.v1.Greeter/Count"

func newServer(t *testing.T, limit limits.Limit) *server {
	s := new(server)
	s.limiter = newLimiter(t,
		connectmw.Config{Rules: everybody(limit),
			Observer: core.ObserverFuncs[*connectmw.Call]{OnDecision: func(_ context.Context, _ *connectmw.Call,
				o core.Outcome) {
				if !o.Allowed() {
					s.denied.Add(1)
				}
			}}})
	with := connect.WithInterceptors(s.limiter.Interceptor())
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, greeter, with))
	mux.Handle(countdown,
		connect.NewServerStreamHandler(countdown,
			func(_ context.Context, _ *connect.Request[message], s *connect.ServerStream[message]) error {
				return s.Send(wrapperspb.String("one"))
			}, with))
	s.handler = mux
	return s
}

// pipes is a listener in this process, so that all of a server is in a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// startInBubble is start by pipes.
func startInBubble(t *testing.T, handler http.Handler, http2 bool) (*http.Client, string) {
	t.Helper()
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	transport := &http.Transport{Protocols: new(http.Protocols),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			listener.conns <- theirs
			return ours, nil
		}}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-done
	})
	return &http.Client{Transport: transport}, "http://server"
}

// A client learns from each protocol how long to wait, and is not denied twice.
func TestAClientKeepsToWhatItIsTold(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testAClientKeeps(t, p.http2, p.options) })
		})
	}
}

func testAClientKeeps(t *testing.T, http2 bool, with []connect.ClientOption) {
	s := newServer(t, limits.TokenBucket(limits.PerMinute(2), 1))
	c, url := startInBubble(t, s.handler, http2)
	options := append(with[:len(with):len(with)],
		connect.WithInterceptors(connectmw.MustClient(client.Options{MaxWait: time.Hour})))
	unary := connect.NewClient[message, message](c, url+greet, options...)
	began := time.Now()
	s.limiter.Decide(call()) // somebody else
	for range 3 {
		if _, err := unary.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("Ann"))); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := connect.NewClient[message, message](c, url+countdown, options...).CallServerStream(t.Context(),
		connect.NewRequest(wrapperspb.String("")))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for stream.Receive() {
		n++
	}
	if stream.Err() != nil || n != 1 {
		t.Errorf("%d messages, %v", n, stream.Err())
	}
	stream.Close()
	if took := time.Since(began); s.denied.Load() != 1 || took < 2*time.Minute || took > 130*time.Second {
		t.Errorf("%d denied, 4 calls after %v", s.denied.Load(), took)
	}
}

// An interceptor inside sees each attempt. What it adds to the header is added once.
func TestEachAttemptHasTheHeaderOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, limits.TokenBucket(limits.PerMinute(2), 1))
		var got []string
		c, url := startInBubble(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = append(r.Header.Values("X-Added"), r.Header.Values("X-Set")...)
			s.handler.ServeHTTP(w, r)
		}), false)
		adds := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
				request.Header().Add("X-Added", "inside")
				return next(ctx, request)
			}
		})
		unary := connect.NewClient[message, message](c, url+greet, connect.WithInterceptors(
			connectmw.MustClient(client.Options{MaxWait: time.Hour}), adds))
		s.limiter.Decide(call())
		request := connect.NewRequest(wrapperspb.String("Ann"))
		request.Header().Set("X-Set", "outside")
		if _, err := unary.CallUnary(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if s.denied.Load() != 1 || !slices.Equal(got, []string{"inside", "outside"}) {
			t.Errorf("%d denied; the last attempt has %q, want each once", s.denied.Load(), got)
		}
	})
}

func TestNoCallWaitsBeyondItsDeadline(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			s := newServer(t, limits.TokenBucket(limits.PerDay(1), 1))
			c, url := start(t, s.handler, p.http2)
			options := append(p.options[:len(p.options):len(p.options)],
				connect.WithInterceptors(connectmw.MustClient(client.Options{})))
			unary := connect.NewClient[message, message](c, url+greet, options...)
			s.limiter.Decide(call())
			ask := func() error {
				_, err := unary.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("Ann")))
				return err
			}
			var wait *client.WaitError
			if err := ask(); connect.CodeOf(err) != connect.CodeResourceExhausted || errors.As(err, &wait) {
				t.Errorf("the answer is %v", err)
			}
			if err := ask(); connect.CodeOf(err) != connect.CodeResourceExhausted || !errors.As(err, &wait) ||
				wait.Wait < 23*time.Hour {
				t.Errorf("a call that is held back: %v", err)
			}
			stream, err := connect.NewClient[message, message](c, url+countdown,
				options...).CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("")))
			if err == nil {
				stream.Receive()
				err = stream.Err()
			}
			if connect.CodeOf(err) != connect.CodeResourceExhausted || !errors.As(err, &wait) || s.denied.Load() != 1 {
				t.Errorf("a stream that is held back: %v, %d denied", err, s.denied.Load())
			}
		})
	}
}

func TestTheBaseOfAClientIsItsOwn(t *testing.T) {
	_, err := connectmw.Client(client.Options{Base: http.DefaultTransport, Attempts: -1})
	if err == nil || !strings.Contains(err.Error(), "client: base: ") ||
		!strings.Contains(err.Error(), "client: attempts: ") {
		t.Errorf("got %v, want an error that names Base and Attempts", err)
	}
}
