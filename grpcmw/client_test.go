package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// kept returns a client that keeps to the limits of a server with a limiter, and what it does.
func kept(
	t *testing.T, s *service, limit limits.Limit, o client.Options,
) (pb.TestServiceClient, *grpcmw.Limiter, *atomic.Int32) {
	t.Helper()
	denied := new(atomic.Int32)
	l := newLimiter(t,
		grpcmw.Config{Rules: everybody(limit),
			Observer: core.ObserverFuncs[*grpcmw.Call]{OnDecision: func(_ context.Context, _ *grpcmw.Call,
				o core.Outcome) {
				if !o.Allowed() {
					denied.Add(1)
				}
			}}})
	unary, stream := grpcmw.MustClient(o)
	conn := dial(t, listen(t, s, both(l)...), grpc.WithChainUnaryInterceptor(unary),
		grpc.WithChainStreamInterceptor(stream))
	return pb.NewTestServiceClient(conn), l, denied
}

func TestAClientAloneWithALimitIsNotDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _, denied := kept(t, new(service), limits.TokenBucket(limits.PerMinute(60), 10),
			client.Options{MaxWait: time.Hour})
		began := time.Now()
		for range 100 {
			if got := ask(t.Context(), client); got.code != codes.OK {
				t.Fatalf("%+v", got)
			}
		}
		if took := time.Since(began); denied.Load() != 0 || took < 90*time.Second || took > 2*time.Minute {
			t.Errorf("%d denied, after %v", denied.Load(), took)
		}
	})
}

func TestADeniedCallIsRepeatedWhenTheServerSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, l, denied := kept(t, new(service), limits.TokenBucket(limits.PerMinute(2), 1),
			client.Options{MaxWait: time.Hour})
		l.Decide(&grpcmw.Call{Context: t.Context()}) // somebody else
		began := time.Now()
		got := ask(t.Context(), client)
		if took := time.Since(began); got.code != codes.OK || denied.Load() != 1 || took < 30*time.Second ||
			took > 32*time.Second {
			t.Errorf("%+v after %v, %d denied", got, took, denied.Load())
		}
	})
}

func TestNoCallWaitsBeyondItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, denied := kept(t, new(service), limits.TokenBucket(limits.PerMinute(1), 1),
			client.Options{MaxWait: time.Hour})
		l.Decide(&grpcmw.Call{Context: t.Context()})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		got := ask(ctx, conn) // which goes back as it came
		if got.code != codes.ResourceExhausted || got.violated != "everybody" || time.Since(began) != 0 {
			t.Errorf("%+v after %v", got, time.Since(began))
		}
		_, err := conn.UnaryCall(ctx, new(pb.SimpleRequest)) // which is held back
		var wait *client.WaitError
		if wantCode(t, err, codes.ResourceExhausted); !errors.As(err, &wait) || wait.Wait < 50*time.Second ||
			denied.Load() != 1 || time.Since(began) != 0 {
			t.Errorf("%v after %v, %d denied", err, time.Since(began), denied.Load())
		}
		stream, err := conn.FullDuplexCall(ctx)
		if wantCode(t, err, codes.ResourceExhausted); stream != nil || denied.Load() != 1 {
			t.Errorf("a stream was sent: %d denied", denied.Load())
		}
		leaving, leave := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); leave() }()
		if got := ask(leaving, conn); got.code != codes.Canceled {
			t.Errorf("a caller that leaves: %+v", got)
		}
	})
}

func TestWhatIsNoDenialGoesBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []codes.Code{codes.ResourceExhausted, codes.Unavailable, codes.NotFound, codes.Internal} {
			var served atomic.Int32
			conn, _, _ := kept(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				served.Add(1)
				return nil, status.Error(want, "a message is too large, say")
			}}, limits.FixedWindow(limits.PerDay(100)), client.Options{})
			began := time.Now()
			if got := ask(t.Context(), conn); got.code != want || served.Load() != 1 || time.Since(began) != 0 {
				t.Errorf("%v: %+v after %v, served %d times", want, got, time.Since(began), served.Load())
			}
		}
	})
}

func TestAnUnavailableCallIsRepeatedIfItHasAnIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			field string
			times int32
		}{{"idempotency-key", 2}, {"x-request-id", 1}} {
			var served atomic.Int32
			conn, _, _ := kept(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				if served.Add(1) > 1 {
					return new(pb.SimpleResponse), nil
				}
				s, err := status.New(codes.Unavailable,
					"full").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
				if err != nil {
					t.Error(err)
				}
				return nil, s.Err()
			}}, limits.FixedWindow(limits.PerDay(100)), client.Options{})
			ask(metadata.AppendToOutgoingContext(t.Context(), test.field, "7"), conn)
			if served.Load() != test.times {
				t.Errorf("%s: served %d times, want %d", test.field, served.Load(), test.times)
			}
		}
	})
}

func TestStreamsWaitForWhatTheyHaveLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, denied := kept(t, new(service), limits.TokenBucket(limits.PerMinute(2), 1),
			client.Options{MaxWait: time.Hour})
		began := time.Now()
		for range 4 {
			stream, err := conn.StreamingOutputCall(t.Context(), new(pb.StreamingOutputCallRequest))
			if err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := stream.Recv(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		if took := time.Since(began); denied.Load() != 0 || took < 90*time.Second || took > 2*time.Minute {
			t.Errorf("%d denied, after %v", denied.Load(), took)
		}
	})
}

// A stream in which the client has to begin must not wait for the server.
func TestAStreamThatTheClientBeginsIsOpenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, _ := kept(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			for {
				if _, err := stream.Recv(); err != nil {
					return nil
				}
				stream.Send(new(pb.StreamingOutputCallResponse))
			}
		}}, limits.Concurrent(1), client.Options{MaxInFlight: 1})
		ctx, leave := context.WithCancel(t.Context())
		stream, err := conn.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		stream.Send(new(pb.StreamingOutputCallRequest))
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := ask(short, conn); got.code != codes.DeadlineExceeded { // MaxInFlight counts the stream
			t.Errorf("beside a stream: %+v", got)
		}
		leave()
		synctest.Wait()
		if units := l.State().Held; units != 0 {
			t.Errorf("%d units held", units)
		}
		if got := ask(t.Context(), conn); got.code != codes.OK {
			t.Errorf("after the stream: %+v", got)
		}
	})
}

func TestTheBaseOfAClientIsItsOwn(t *testing.T) {
	_, _, err := grpcmw.Client(client.Options{Base: http.DefaultTransport, Attempts: -1})
	if err == nil || !strings.Contains(err.Error(), "client: base: ") ||
		!strings.Contains(err.Error(), "client: attempts: ") {
		t.Errorf("got %v, want an error that names Base and Attempts", err)
	}
}

// gRPC says Canceled or DeadlineExceeded, whatever the cause of the end is.
func TestACallThatIsHeldBackEndsWithTheCodeOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, _ := kept(t, new(service), limits.TokenBucket(limits.PerMinute(1), 1),
			client.Options{MaxWait: time.Hour})
		l.Decide(&grpcmw.Call{Context: t.Context()})
		for range 2 { // denied, and then held back
			leaving, leave := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { leave(errors.New("a cause")) })
			if got := ask(leaving, conn); got.code != codes.Canceled {
				t.Errorf("%+v", got)
			}
		}
		leaving, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(errors.New("a cause")) })
		_, err := conn.FullDuplexCall(leaving)
		wantCode(t, err, codes.Canceled)
	})
}

// What gRPC demands of whoever opens a stream is enough: its connection closes, or it gets an error of Send.
func TestAStreamEndsWithoutItsContext(t *testing.T) {
	for name, end := range map[string]func(*grpc.ClientConn, pb.TestService_FullDuplexCallClient){
		"its connection closes": func(conn *grpc.ClientConn, _ pb.TestService_FullDuplexCallClient) { conn.Close() },
		"a message that cannot be sent": func(_ *grpc.ClientConn, stream pb.TestService_FullDuplexCallClient) {
			err := stream.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, 100)}})
			if err == nil {
				t.Error("it was sent")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				unary, stream := grpcmw.MustClient(client.Options{MaxInFlight: 1})
				kept := []grpc.DialOption{
					grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream),
					grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(50)),
				}
				listener := listen(t, waitsForStreams())
				conn, other := dial(t, listener, kept...), dial(t, listener, kept...)
				s, err := pb.NewTestServiceClient(conn).FullDuplexCall(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				end(conn, s)
				if got := ask(t.Context(), pb.NewTestServiceClient(other)); got.code != codes.OK {
					t.Errorf("after the stream: %+v", got)
				}
			}) // and no goroutine is left in the bubble
		})
	}
}

// waitsForStreams has streams that wait until the client leaves.
func waitsForStreams() *service { return &service{duplex: waits().duplex} }

// Streams may be silent for hours, and have been decided all the same.
func TestSilentStreamsSlowNobodyDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, denied := kept(t, waitsForStreams(), limits.TokenBucket(limits.PerMinute(60), 60),
			client.Options{MaxInFlight: 51})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for range 50 {
			if _, err := conn.FullDuplexCall(ctx); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		began := time.Now()
		for range 50 {
			if got := ask(t.Context(), conn); got.code != codes.OK {
				t.Fatalf("%+v", got)
			}
		}
		if took := time.Since(began); took > time.Second || denied.Load() != 0 {
			t.Errorf("50 of 60 calls took %v, %d denied", took, denied.Load())
		}
		if _, err := conn.FullDuplexCall(ctx); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := ask(short, conn); got.code != codes.DeadlineExceeded { // MaxInFlight counts all 51
			t.Errorf("beside the streams: %+v", got)
		}
	})
}

// The answer does not say which calls a concurrency limit counts. Who knows it has two clients.
func TestADeniedStreamHoldsBackNoOtherClient(t *testing.T) {
	for _, apart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, grpcmw.Config{Rules: []grpcmw.Rule{{
				Name:  "streams",
				Limit: limits.Concurrent(2),
				Key: core.When(func(c *grpcmw.Call) bool { return c.Message == nil },
					keyfuncs.Constant[*grpcmw.Call]("all")),
			}}})
			unary, stream := grpcmw.MustClient(client.Options{})
			if apart {
				_, stream = grpcmw.MustClient(client.Options{})
			}
			listener := listen(t, waitsForStreams(), both(l)...)
			conn := pb.NewTestServiceClient(
				dial(t, listener, grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			for i := range 3 {
				s, err := conn.FullDuplexCall(ctx)
				synctest.Wait() // for the decision
				if err == nil && i == 2 {
					_, err = s.Recv()
				}
				if (status.Code(err) == codes.ResourceExhausted) != (i == 2) {
					t.Errorf("stream %d: %v", i, err)
				}
			}
			synctest.Wait()
			began := time.Now()
			if got := ask(t.Context(), conn); got.code != codes.OK || (time.Since(began) == 0) != apart {
				t.Errorf("apart %v: %+v after %v", apart, got, time.Since(began))
			}
		})
	}
}

// A call that its own client ends says nothing of the server: the next one goes first in its place.
func TestACallThatItsClientEndsIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
			return new(pb.SimpleResponse), ctx.Err()
		}}
		var decided atomic.Int32
		l := newLimiter(t, grpcmw.Config{
			Rules:   everybody(limits.TokenBucket(limits.PerMinute(1), 1)),
			Headers: headers.Options{Show: headers.OnDenial},
			Observer: core.ObserverFuncs[*grpcmw.Call]{
				OnDecision: func(context.Context, *grpcmw.Call, core.Outcome) { decided.Add(1) },
			},
		})
		unary, _ := grpcmw.MustClient(client.Options{MaxWait: time.Hour, Attempts: 1})
		conn := pb.NewTestServiceClient(dial(t, listen(t, slow, both(l)...), grpc.WithChainUnaryInterceptor(unary)))
		l.Decide(&grpcmw.Call{Context: t.Context()})
		ask(t.Context(), conn) // is denied
		first, leave := context.WithCancel(t.Context())
		go ask(first, conn)
		synctest.Wait()
		for range 3 {
			go ask(t.Context(), conn)
		}
		for decided.Load() < 3 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		leave()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if n := decided.Load(); n != 4 {
			t.Errorf("%d calls were sent instead of the first, want 1", n-3)
		}
		time.Sleep(time.Hour)
	})
}

func TestAPanicOfAnOptionIsThatOfTheCaller(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		unary, stream := grpcmw.MustClient(client.Options{Bucket: func(*http.Request) string { end(); return "" }})
		listener := listen(t, new(service))
		conn := pb.NewTestServiceClient(
			dial(t, listener, grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)))
		for kind, call := range map[string]func(){
			"unary": func() { ask(t.Context(), conn) }, "stream": func() { conn.FullDuplexCall(t.Context()) },
		} {
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				call()
				t.Errorf("%s, %s: returned", name, kind)
			}()
			if v := <-ended; (v == "boom") != (name == "panic") {
				t.Errorf("%s, %s: %v", name, kind, v)
			}
		}
	}
}
