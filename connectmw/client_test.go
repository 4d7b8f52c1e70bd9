package connectmw_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
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
	s.limiter = newLimiter(t, connectmw.Config{Rules: everybody(limit), Observe: func(_ context.Context, _ *connectmw.Call, o core.Outcome) {
		if !o.Allowed() {
			s.denied.Add(1)
		}
	}})
	with := connect.WithInterceptors(s.limiter.Interceptor())
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, greeter, with))
	mux.Handle(countdown, connect.NewServerStreamHandler(countdown, func(_ context.Context, _ *connect.Request[message], s *connect.ServerStream[message]) error {
		return s.Send(wrapperspb.String("one"))
	}, with))
	s.handler = mux
	return s
}

// A client learns from each protocol that it may not call at once what a limit does not allow.
func TestAClientKeepsToWhatItIsTold(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			s := newServer(t, limits.TokenBucket(limits.Per(20, time.Second), 1)) // one in 50 ms
			c, url := start(t, s.handler, p.http2)
			options := append(p.options[:len(p.options):len(p.options)], connect.WithInterceptors(connectmw.Client(client.Options{})))
			unary := connect.NewClient[message, message](c, url+greet, options...)
			s.limiter.Decide(call()) // somebody else
			for range 3 {
				if _, err := unary.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("Ann"))); err != nil {
					t.Fatal(err)
				}
			}
			stream, err := connect.NewClient[message, message](c, url+countdown, options...).CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("")))
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
		})
	}
}

func TestNoCallWaitsBeyondItsDeadline(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			s := newServer(t, limits.TokenBucket(limits.PerDay(1), 1))
			c, url := start(t, s.handler, p.http2)
			options := append(p.options[:len(p.options):len(p.options)], connect.WithInterceptors(connectmw.Client(client.Options{})))
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
			if err := ask(); connect.CodeOf(err) != connect.CodeResourceExhausted || !errors.As(err, &wait) || wait.Wait < 23*time.Hour {
				t.Errorf("a call that is held back: %v", err)
			}
			stream, err := connect.NewClient[message, message](c, url+countdown, options...).CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("")))
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
	defer func() {
		if v, _ := recover().(string); !strings.HasPrefix(v, "client: base: ") {
			t.Errorf("panicked with %q", v)
		}
	}()
	connectmw.Client(client.Options{Base: http.DefaultTransport})
}
