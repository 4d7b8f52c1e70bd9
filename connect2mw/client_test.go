package connect2mw_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectinprocess"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/connect2mw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// limited is a server with a limiter, a method and a stream.
type limited struct {
	*connect.Server
	limiter *connect2mw.Limiter
	denied  atomic.Int32
}

var countdown = connect.Spec{Procedure: "/greet.v1.Greeter/Count", StreamType: connect.StreamTypeServer}

func newLimited(t *testing.T, limit limits.Limit) *limited {
	s := new(limited)
	s.limiter = newLimiter(t, connect2mw.Config{Rules: everybody(limit),
		Observer: core.ObserverFuncs[*connect2mw.Call]{
			OnDecision: func(_ context.Context, _ *connect2mw.Call, o core.Outcome) {
				if !o.Allowed() {
					s.denied.Add(1)
				}
			}}})
	s.Server = serving(s.limiter.Interceptor(), unary(greet, greeter), connect.Method{Spec: countdown,
		Handler: func(_ context.Context, _ connect.Spec, s connect.ServerStream) error {
			if err := s.Receive(new(message)); err != nil {
				return err
			}
			return s.Send(wrapperspb.String("one"))
		}})
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

// openInBubble is way.open by pipes.
func (w way) openInBubble(t *testing.T, server *connect.Server, i ...connect.ClientInterceptor) *connect.Client {
	t.Helper()
	if w.inProcess {
		return connect.NewClient(connectinprocess.New(server), i...)
	}
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	serves := &http.Server{Handler: mounted(server), Protocols: new(http.Protocols)}
	serves.Protocols.SetHTTP1(true)
	serves.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan error)
	go func() { done <- serves.Serve(listener) }()
	transport := &http.Transport{Protocols: new(http.Protocols),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			listener.conns <- theirs
			return ours, nil
		}}
	transport.Protocols.SetHTTP1(!w.http2)
	transport.Protocols.SetUnencryptedHTTP2(w.http2)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		serves.Close()
		<-done
	})
	return connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: transport}, "http://server",
		w.options...), i...)
}

// count calls the stream, and returns how many messages came.
func count(ctx context.Context, c *connect.Client) (n int, err error) {
	s, err := c.CallServerStream(ctx, countdown, wrapperspb.String(""))
	if err != nil {
		return 0, err
	}
	for err == nil {
		if err = s.Receive(new(message)); err == nil {
			n++
		}
	}
	if connect.CodeOf(err) == connect.CodeUnknown { // io.EOF
		err = nil
	}
	return n, errors.Join(err, s.Close())
}

// A client learns by each way how long to wait, and is not denied twice.
func TestAClientKeepsToWhatItIsTold(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLimited(t, limits.TokenBucket(limits.PerMinute(2), 1))
				c := w.openInBubble(t, s.Server, connect2mw.MustClient(client.Options{MaxWait: time.Hour}))
				began := time.Now()
				s.limiter.Decide(call()) // another client
				for range 3 {
					ctx, info := connect.NewClientContext(t.Context())
					text, err := ask(ctx, c, greet, "Ann")
					if err != nil || text != "Hello, Ann." || info.ResponseHeader().Has("Retry-After") {
						t.Fatalf("%q, %v, fields of a denial: %t", text, err, info.ResponseHeader().Has("Retry-After"))
					}
				}
				if n, err := count(t.Context(), c); err != nil || n != 1 {
					t.Errorf("%d messages, %v", n, err)
				}
				if took := time.Since(began); s.denied.Load() != 1 || took < 2*time.Minute || took > 130*time.Second {
					t.Errorf("%d denied, 4 calls after %v", s.denied.Load(), took)
				}
			})
		})
	}
}

func TestNoCallWaitsBeyondItsDeadline(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			s := newLimited(t, limits.TokenBucket(limits.PerDay(1), 1))
			c := w.open(t, s.Server, connect2mw.MustClient(client.Options{}))
			s.limiter.Decide(call())
			var wait *client.WaitError
			if _, err := ask(t.Context(), c, greet, "Ann"); connect.CodeOf(err) != connect.CodeResourceExhausted ||
				errors.As(err, &wait) {
				t.Errorf("the answer is %v", err)
			}
			_, err := ask(t.Context(), c, greet, "Ann")
			e := new(connect.Error)
			if connect.CodeOf(err) != connect.CodeResourceExhausted || !errors.As(err, &wait) ||
				wait.Wait < 23*time.Hour || !errors.As(err, &e) || !e.IsRemote() {
				t.Errorf("a call that is held back: %v", err)
			}
			_, err = count(t.Context(), c)
			if connect.CodeOf(err) != connect.CodeResourceExhausted || !errors.As(err, &wait) || s.denied.Load() != 1 {
				t.Errorf("a stream that is held back: %v, %d denied", err, s.denied.Load())
			}
		})
	}
}

// Close ends a call that waits, as it ends one that the server does not answer.
func TestAWaitEndsWhenTheCallIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t, limits.TokenBucket(limits.PerMinute(1), 1))
		follow := connect2mw.MustClient(client.Options{MaxWait: time.Hour})
		c := way{inProcess: true}.open(t, s.Server, follow)
		ask(t.Context(), c, greet, "Ann")
		ask(t.Context(), way{inProcess: true}.open(t, s.Server), greet, "Ann")
		for _, spec := range []connect.Spec{unarySpec(greet), countdown} {
			stream, err := c.CallClientStream(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			began, ended := time.Now(), make(chan error)
			go func() {
				stream.Send(wrapperspb.String("Ann"))
				stream.CloseSend()
				ended <- stream.Receive(new(message))
			}()
			synctest.Wait()
			stream.Close()
			if err := <-ended; connect.CodeOf(err) != connect.CodeCanceled || time.Since(began) != 0 {
				t.Errorf("%s: %v after %v", spec.Procedure, err, time.Since(began))
			}
		}
	})
}

// A request without a message would be a valid call of Connect, with an empty message.
func TestACallThatIsHeldBackReachesNoServer(t *testing.T) {
	for _, w := range ways {
		if w.inProcess {
			continue // see the tests of waits
		}
		t.Run(w.name, func(t *testing.T) {
			s := newLimited(t, limits.TokenBucket(limits.PerDay(1), 1))
			var requests atomic.Int32
			handler := mounted(s.Server)
			c, url := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				handler.ServeHTTP(w, r)
			}), w.http2)
			follows := connect.NewClient(connecthttp.NewTransport(c, url, w.options...),
				connect2mw.MustClient(client.Options{}))
			s.limiter.Decide(call())
			ask(t.Context(), follows, greet, "Ann") // and learns that it has to wait
			var wait *client.WaitError
			if _, err := ask(t.Context(), follows, greet, "Ann"); !errors.As(err, &wait) {
				t.Errorf("a unary call: %v", err)
			}
			for _, spec := range []connect.Spec{unarySpec(greet), countdown, chat} {
				for _, sends := range []bool{true, false} {
					stream, err := follows.CallClientStream(t.Context(), spec)
					if err != nil {
						t.Fatal(err)
					}
					if sends {
						err := stream.Send(wrapperspb.String("Ann"))
						if spec.StreamType != connect.StreamTypeUnary && !errors.As(err, &wait) {
							t.Errorf("%s: %v", spec.Procedure, err)
						}
					}
					stream.Close() // returns when there is an answer
				}
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests, want that of the denial", n)
			}
		})
	}
}

// slow is a stream whose Send ends with its context. Close must not be called while it runs.
type slow struct {
	connect.ClientStream
	ctx     context.Context
	sending atomic.Bool
	closed  atomic.Int32 // 2: while it was sending
}

func (s *slow) Send(any) error {
	s.sending.Store(true)
	<-s.ctx.Done()
	time.Sleep(time.Second) // of the bubble
	s.sending.Store(false)
	return s.ctx.Err()
}

func (s *slow) Close() error {
	s.closed.Store(1)
	if s.sending.Load() {
		s.closed.Store(2)
	}
	return s.ClientStream.Close()
}

// Close may be called beside Receive, and not beside Send, which Receive calls.
func TestACallIsNotClosedWhileItsMessageIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t, limits.TokenBucket(limits.PerDay(9), 9))
		var inside *slow
		c := way{inProcess: true}.open(t, s.Server, connect2mw.MustClient(client.Options{}),
			func(next connect.ClientFunc) connect.ClientFunc {
				return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
					stream, err := next(ctx, spec)
					inside = &slow{ClientStream: stream, ctx: ctx}
					return inside, err
				}
			})
		stream, err := c.CallClientStream(t.Context(), unarySpec(greet))
		if err != nil {
			t.Fatal(err)
		}
		stream.Send(wrapperspb.String("Ann"))
		ended := make(chan error)
		go func() { ended <- stream.Receive(new(message)) }()
		synctest.Wait()
		stream.Close()
		if err := <-ended; !errors.Is(err, context.Canceled) || inside.closed.Load() != 1 {
			t.Errorf("%v, the stream was closed: %d", err, inside.closed.Load())
		}
		stream.Close()
	})
}

// An interceptor inside sees each attempt. What it adds to the header is added once.
func TestEachAttemptHasTheHeaderOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimited(t, limits.TokenBucket(limits.PerMinute(2), 1))
		var got http.Header
		sees := func(next connect.ServerFunc) connect.ServerFunc {
			return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
				info, _ := connect.CallInfoForServerContext(ctx)
				got = http.Header(maps.Collect(info.RequestHeader().All()))
				return next(ctx, spec, stream)
			}
		}
		server := connect.NewServer(sees, s.limiter.Interceptor())
		server.Register(unary(greet, greeter))
		adds := func(next connect.ClientFunc) connect.ClientFunc {
			return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
				info, _ := connect.CallInfoForClientContext(ctx)
				h := info.RequestHeader()
				h.Add("X-Added", "inside")
				h.Add("X-Both", "inside")
				h.Set("X-Set", "inside")
				h.Delete("X-Gone")
				return next(ctx, spec)
			}
		}
		c := way{inProcess: true}.open(t, server, connect2mw.MustClient(client.Options{MaxWait: time.Hour}), adds)
		s.limiter.Decide(call())
		ctx, info := connect.NewClientContext(t.Context())
		for _, name := range []string{"X-Both", "X-Set", "X-Gone"} {
			info.RequestHeader().Set(name, "outside")
		}
		stream, err := c.CallClientStream(ctx, unarySpec(greet))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		info.RequestHeader().Set("X-Late", "outside")
		answer := new(message)
		if err := errors.Join(stream.Send(wrapperspb.String("Ann")), stream.Receive(answer)); err != nil {
			t.Fatal(err)
		}
		want := http.Header{"X-Added": {"inside"}, "X-Both": {"outside", "inside"}, "X-Set": {"inside"},
			"X-Late": {"outside"}}
		if s.denied.Load() != 1 || !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%d denied; the last attempt has %v, want %v", s.denied.Load(), got, want)
		}
	})
}

// One goroutine may send while another one receives.
func TestAnAnswerIsAwaitedBeforeItsMessageIsSent(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLimited(t, limits.TokenBucket(limits.PerDay(9), 9))
				c := w.openInBubble(t, s.Server, connect2mw.MustClient(client.Options{}))
				for _, closes := range []bool{false, true} {
					stream, err := c.CallClientStream(t.Context(), unarySpec(greet))
					if err != nil {
						t.Fatal(err)
					}
					answer, ended := new(message), make(chan error)
					go func() { ended <- stream.Receive(answer) }()
					synctest.Wait()
					if closes {
						stream.Close()
						if err := <-ended; connect.CodeOf(err) != connect.CodeCanceled {
							t.Errorf("a call that is closed: %v", err)
						}
						continue
					}
					sent := errors.Join(stream.Send(wrapperspb.String("Ann")), stream.CloseSend())
					if err := <-ended; err != nil || sent != nil || answer.GetValue() != "Hello, Ann." {
						t.Errorf("%q, %v, %v", answer.GetValue(), sent, err)
					}
					if err := stream.Send(answer); err != io.EOF {
						t.Errorf("a message after the end: %v", err)
					}
					stream.Close()
				}
			})
		})
	}
}

// The server streams that a client is denied locally are not closed: CallServerStream returns none.
func TestNoContextIsLeftOfAStreamThatIsHeldBack(t *testing.T) {
	s := newLimited(t, limits.TokenBucket(limits.PerDay(1), 1))
	var contexts []context.Context
	c := way{inProcess: true}.open(t, s.Server, connect2mw.MustClient(client.Options{}),
		func(next connect.ClientFunc) connect.ClientFunc {
			return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
				contexts = append(contexts, ctx)
				return next(ctx, spec)
			}
		})
	s.limiter.Decide(call())
	for range 3 {
		ask(t.Context(), c, greet, "Ann")
		count(t.Context(), c)
	}
	for i, ctx := range contexts {
		if ctx.Err() == nil {
			t.Errorf("the context of call %d has not ended", i)
		}
	}
}

func TestTheBaseOfAClientIsItsOwn(t *testing.T) {
	_, err := connect2mw.Client(client.Options{Base: http.DefaultTransport, Attempts: -1})
	if err == nil || !strings.Contains(err.Error(), "client: base: ") ||
		!strings.Contains(err.Error(), "client: attempts: ") {
		t.Errorf("got %v, want an error that names Base and Attempts", err)
	}
}
