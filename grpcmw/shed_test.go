package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// shedding returns the options that install a shedder before a limiter.
func shedding(s *shed.Shedder[*grpcmw.Call], l *grpcmw.Limiter) []grpc.ServerOption {
	unary, stream := grpcmw.Shed(s)
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(unary, l.Unary()), grpc.ChainStreamInterceptor(stream, l.Stream()),
	}
}

// using returns a shedder whose limit a finds.
func using(t *testing.T, a shedlimit.Algorithm) *shed.Shedder[*grpcmw.Call] {
	t.Helper()
	s, err := shedlimit.New(shed.Options[*grpcmw.Call]{}, a)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*shed.Shedder[*grpcmw.Call])
}

// watched is an algorithm with a limit of 1 that notes how calls have ended.
type watched struct {
	mu sync.Mutex
	of map[string][2]int // completed and failed
}

func (w *watched) Update(sample shedlimit.Sample) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range sample.Routes {
		n := w.of[r.Route]
		w.of[r.Route] = [2]int{n[0] + r.Completed, n[1] + r.Failed}
	}
	return 1
}

func (w *watched) Window() (least, most time.Duration, completed int) { return 1, 1, 1 }

func TestACallAboveTheLimitOfAShedderAsksNoLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(10)))})
		s := shed.MustNew(shed.Options[*grpcmw.Call]{Limit: 1})
		begun, may := make(chan bool), make(chan bool)
		client := serve(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			begun <- true
			<-may
			return new(pb.SimpleResponse), nil
		}}, shedding(s, l)...)
		first := make(chan told)
		go func() { first <- ask(t.Context(), client) }()
		<-begun
		got := ask(t.Context(), client)
		seconds := int(got.retry / time.Second)
		if got.code != codes.Unavailable || seconds < 1 || seconds > 4 ||
			got.trailer.Get("retry-after")[0] != strconv.Itoa(seconds) ||
			got.trailer.Get("grpc-retry-pushback-ms")[0] != strconv.Itoa(1000*seconds) {
			t.Errorf("%+v", got)
		}
		if len(got.trailer.Get("ratelimit")) > 0 || len(got.trailer.Get("cache-control")) > 0 {
			t.Errorf("%+v", got)
		}
		stream, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantCode(t, err, codes.Unavailable)
		close(may)
		if got := <-first; got.code != codes.OK || got.header.Get("ratelimit")[0] != `"everybody";r=9;t=86400` {
			t.Errorf("%+v", got)
		}
		synctest.Wait()
		if state := s.State(); state.InFlight != 0 || state.Classes[0].Shed != 2 || state.Classes[0].Admitted != 1 {
			t.Errorf("%+v", state)
		}
	})
}

func TestAStreamIsInFlightUntilItsFirstMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(10)))})
		s := shed.MustNew(shed.Options[*grpcmw.Call]{Limit: 1})
		client := serve(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			for {
				if _, err := stream.Recv(); err != nil {
					return nil
				}
				stream.Send(new(pb.StreamingOutputCallResponse))
			}
		}}, shedding(s, l)...)
		stream, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if state := s.State(); state.InFlight != 1 || state.Streams != 0 {
			t.Errorf("before its first message: %+v", state)
		}
		stream.Send(new(pb.StreamingOutputCallRequest))
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if state := s.State(); state.InFlight != 0 || state.Streams != 1 {
			t.Errorf("after its first message: %+v", state)
		}
		if got := ask(t.Context(), client); got.code != codes.OK {
			t.Errorf("beside a stream: %+v", got)
		}
		stream.CloseSend()
		if _, err := stream.Recv(); err != io.EOF {
			t.Error(err)
		}
		synctest.Wait()
		if state := s.State(); state.InFlight != 0 || state.Streams != 0 {
			t.Errorf("after its end: %+v", state)
		}
	})
}

func TestAShedderLearnsHowCallsEndOfEachMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(100)))})
		seen := &watched{of: map[string][2]int{}}
		s := new(service)
		handlers := make(chan func() error, 4)
		s.unary = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return new(pb.SimpleResponse), (<-handlers)()
		}
		unary, stream := grpcmw.Shed(using(t, seen))
		recovers := func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (r any, err error) {
			defer func() {
				if recover() != nil {
					err = status.Error(codes.Internal, "")
				}
			}()
			return h(ctx, m)
		}
		client := serve(t, s, grpc.ChainUnaryInterceptor(recovers, unary, l.Unary()),
			grpc.ChainStreamInterceptor(stream, l.Stream()))
		for _, h := range []func() error{
			func() error { return nil },
			func() error { return status.Error(codes.Internal, "") },
			func() error { panic("boom") },
			func() error { return nil },
			func() error { return nil }, // the algorithm hears of a call when the next one begins
		} {
			handlers <- h
			ask(t.Context(), client)
			time.Sleep(time.Second)
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if got := seen.of[unaryMethod]; got != [2]int{2, 2} {
			t.Errorf("%v", seen.of)
		}
	})
}

func TestTheTimeOfTheClientIsNotTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slowest := make(chan time.Duration, 1)
		s := using(t, latencies{slowest})
		l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(100)))})
		client := serve(t, &service{up: func(stream pb.TestService_StreamingInputCallServer) error {
			for {
				if _, err := stream.Recv(); err == io.EOF {
					time.Sleep(time.Second) // the work
					return nil
				} else if err != nil {
					return err
				}
			}
		}}, shedding(s, l)...)
		stream, err := client.StreamingInputCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Hour)
			stream.Send(new(pb.StreamingInputCallRequest))
		}
		stream.CloseAndRecv()
		synctest.Wait()
		if got := <-slowest; got > 2*time.Second {
			t.Errorf("the call has taken %v of the service", got)
		}
	})
}

// latencies is an algorithm that passes on the first latency that it hears of.
type latencies struct{ first chan time.Duration }

func (l latencies) Update(sample shedlimit.Sample) int {
	for _, r := range sample.Routes {
		if r.Completed > 0 {
			select {
			case l.first <- r.Total:
			default:
			}
		}
	}
	return 1
}

// The handler calls a service that sheds, and returns its error.
func TestCallsThatServicesBehindShedAreShedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, want := range map[codes.Code]bool{codes.Unavailable: true, codes.Internal: false} {
			calls := 0
			s := new(service)
			s.unary = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				calls++
				return nil, status.Error(code, "")
			}
			needs := func(c *grpcmw.Call) string { return c.FullMethod }
			unary, _ := grpcmw.Shed(shed.MustNew(shed.Options[*grpcmw.Call]{Needs: needs}))
			client := serve(t, s, grpc.UnaryInterceptor(unary))
			for range 100 {
				ask(t.Context(), client)
			}
			if got := calls < 50; got != want {
				t.Errorf("%v: %d of 100 calls reach the handler", code, calls)
			}
		}
	})
}

// A client causes codes.Unavailable by calls that the limiter denies or cannot decide.
func TestWhatALimiterInsideAnswersShedsNoCallAhead(t *testing.T) {
	full := everybody(limits.TokenBucket(limits.PerDay(1), 1))
	full[0].DenyAs503 = true
	undecided := everybody(limits.TokenBucket(limits.PerDay(1), 1))
	undecided[0].Key = func(*grpcmw.Call) (string, error) { return "", errors.New("no key") }
	for what, rules := range map[string][]grpcmw.Rule{"denied": full, "undecided": undecided} {
		synctest.Test(t, func(t *testing.T) {
			s := shed.MustNew(shed.Options[*grpcmw.Call]{
				Limit: 100, Needs: func(c *grpcmw.Call) string { return c.FullMethod },
			})
			client := serve(t, new(service), shedding(s, newLimiter(t, grpcmw.Config{Rules: rules}))...)
			for range 60 {
				ask(t.Context(), client)
				stream, err := client.StreamingOutputCall(t.Context(), new(pb.StreamingOutputCallRequest))
				if err == nil {
					_, err = stream.Recv()
				}
				if status.Code(err) != codes.Unavailable {
					t.Fatalf("%s: %v, want Unavailable", what, err)
				}
			}
			if c := s.State().Classes[0]; c.Ahead > 0 || c.Admitted != 120 {
				t.Errorf("%s: %d of 120 calls are shed ahead, want none", what, c.Ahead)
			}
		})
	}
}

func (latencies) Window() (least, most time.Duration, completed int) { return 1, 1, 1 }

func TestTheProgramAnswersCallsThatAreShed(t *testing.T) {
	for _, c := range []struct {
		err  error
		want codes.Code
	}{{status.Error(codes.Aborted, "later"), codes.Aborted}, {errors.New("later"), codes.Unknown}, {nil, codes.Unavailable}} {
		s := shed.MustNew(shed.Options[*grpcmw.Call]{
			Limit: 1,
			Denied: func(w http.ResponseWriter, _ *grpcmw.Call, e shed.Event) error {
				w.Header().Set("X-In-Flight", strconv.Itoa(e.InFlight))
				return c.err
			},
		})
		permit, _ := s.Acquire(t.Context(), nil)
		client := serve(t, new(service),
			shedding(s, newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(10)))}))...)
		if got := ask(t.Context(), client); got.code != c.want ||
			!slices.Equal(got.trailer.Get("x-in-flight"), []string{"1"}) {
			t.Errorf("%+v, want %v", got, c.want)
		}
		permit.End(shed.Result{})
	}
}

func TestAShedderInShadowLetsCallsPass(t *testing.T) {
	s := shed.MustNew(shed.Options[*grpcmw.Call]{Limit: 1, Mode: core.Shadow})
	permit, _ := s.Acquire(t.Context(), nil)
	defer permit.End(shed.Result{})
	client := serve(t, new(service),
		shedding(s, newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(10)))}))...)
	if got := ask(t.Context(), client); got.code != codes.OK {
		t.Errorf("%+v", got)
	}
	stream, err := client.StreamingOutputCall(t.Context(), new(pb.StreamingOutputCallRequest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Error(err)
	}
}
