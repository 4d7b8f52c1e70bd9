package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

func TestADeniedCallIsToldWhenToComeBackAndMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, new(service),
			both(newLimiter(t, grpcmw.Config{Rules: everybody(limits.TokenBucket(limits.PerMinute(2), 1))}))...)
		first := ask(t.Context(), client)
		if first.code != codes.OK || first.header.Get("ratelimit")[0] != `"everybody";r=0;t=30` ||
			first.header.Get("ratelimit-policy")[0] != `"everybody";q=1;w=30` ||
			len(first.header.Get("retry-after")) > 0 {
			t.Errorf("%+v", first)
		}
		time.Sleep(29*time.Second + 600*time.Millisecond)
		denied := ask(t.Context(), client)
		if denied.code != codes.ResourceExhausted || denied.retry != 400*time.Millisecond ||
			denied.violated != "everybody" {
			t.Errorf("%+v", denied)
		}
		if len(denied.header) > 1 || denied.trailer.Get("retry-after")[0] != "1" ||
			denied.trailer.Get("ratelimit")[0] != `"everybody";r=0;t=1` ||
			denied.trailer.Get("grpc-retry-pushback-ms")[0] != "400" {
			t.Errorf("the fields are not in the trailer alone: %+v", denied)
		}
		time.Sleep(denied.retry - time.Microsecond)
		if early := ask(t.Context(), client); early.code != codes.ResourceExhausted {
			t.Errorf("a microsecond early: %+v", early)
		}
		time.Sleep(time.Microsecond)
		if again := ask(t.Context(), client); again.code != codes.OK {
			t.Errorf("%+v", again)
		}
	})
}

// The retry policy of gRPC itself waits as long as the server says.
func TestTheRetryPolicyOfAClientKeepsToTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := listen(t, new(service),
			both(newLimiter(t, grpcmw.Config{Rules: everybody(limits.TokenBucket(limits.PerMinute(2), 1))}))...)
		client := pb.NewTestServiceClient(
			dial(t, listener, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
			"maxAttempts": 2, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`)))
		ask(t.Context(), client)
		began := time.Now()
		if got, took := ask(t.Context(), client), time.Since(began); got.code != codes.OK || took != 30*time.Second {
			t.Errorf("%+v after %v, want 30 s", got, took)
		}
	})
}

func TestEachRefusalHasItsCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := keyfuncs.Constant[*grpcmw.Call]("everybody")
		down := core.Rule[*grpcmw.Call]{
			Name: "closed", Limit: limits.TokenBucket(limits.PerDay(1), 1),
			Key: func(*grpcmw.Call) (string, error) { return "", errors.New("secret") },
		}
		for _, c := range []struct {
			name     string
			rule     grpcmw.Rule
			code     codes.Code
			retry    time.Duration
			violated string
			pushback string
			fields   bool
		}{
			{"a limit", grpcmw.Rule{Name: "a", Limit: limits.TokenBucket(limits.PerHour(2), 1), Key: key},
				codes.ResourceExhausted, 30 * time.Minute, "a", "1800000", true},
			{"requests at once", grpcmw.Rule{Name: "a", Limit: limits.Concurrent(1), Key: key}, codes.ResourceExhausted,
				time.Second, "a", "1000", true},
			{"a full service", grpcmw.Rule{Name: "a", Limit: limits.Concurrent(1), Key: key, DenyAs503: true},
				codes.Unavailable, time.Second, "", "1000", false},
			{"a cost that never fits",
				grpcmw.Rule{Name: "a", Limit: limits.TokenBucket(limits.PerHour(2), 1), Key: key,
					Cost: func(*grpcmw.Call) int64 { return 2 }}, codes.ResourceExhausted, -1, "a", "-1", true},
			{"failed closed", down, codes.Unavailable, time.Second, "", "1000", false},
		} {
			l := newLimiter(t, grpcmw.Config{Rules: []grpcmw.Rule{c.rule}})
			held := l.Decide(&grpcmw.Call{Context: t.Context(), FullMethod: unaryMethod})
			got := ask(t.Context(), serve(t, new(service), both(l)...))
			held.End(core.Result{})
			if got.code != c.code || got.retry != c.retry || got.violated != c.violated ||
				got.trailer.Get("grpc-retry-pushback-ms")[0] != c.pushback ||
				(len(got.trailer.Get("ratelimit")) > 0) != c.fields {
				t.Errorf("%s: %+v", c.name, got)
			}
		}
	})
}

// A client that waits blocks. One with a deadline after the wait has said for how long it may.
func TestAWaitAboveTheBoundIsNotPushedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, grpcmw.Config{
			Rules: []grpcmw.Rule{{
				Name: "a", Limit: limits.TokenBucket(limits.PerHour(2), 1),
				Key: keyfuncs.Constant[*grpcmw.Call]("everybody"),
			}},
			Headers: headers.Options{MaxRetryAfter: time.Minute},
		})
		l.Decide(&grpcmw.Call{Context: t.Context(), FullMethod: unaryMethod})
		client := serve(t, new(service), both(l)...)
		for deadline, want := range map[time.Duration]string{
			0: "-1", time.Minute: "-1", time.Hour: "1800000",
		} {
			ctx := t.Context()
			if deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, deadline)
				defer cancel()
			}
			got := ask(ctx, client)
			if got.code != codes.ResourceExhausted || got.retry != 30*time.Minute ||
				got.trailer.Get("grpc-retry-pushback-ms")[0] != want || got.trailer.Get("retry-after") != nil {
				t.Errorf("a deadline in %v: %+v", deadline, got)
			}
		}
	})
}

func TestNoErrorOfTheServerReachesTheClient(t *testing.T) {
	l := newLimiter(t, grpcmw.Config{
		Rules: []grpcmw.Rule{
			{Name: "a", Limit: limits.TokenBucket(limits.PerDay(1), 1),
				Key: func(*grpcmw.Call) (string, error) { return "", errors.New("secret") }},
		},
	})
	_, err := serve(t, new(service), both(l)...).UnaryCall(t.Context(), new(pb.SimpleRequest))
	if wantCode(t, err, codes.Unavailable); strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestAStreamIsOneRequestUntilItsHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.Concurrent(1))})
		client := serve(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			for {
				if _, err := stream.Recv(); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := stream.Send(new(pb.StreamingOutputCallResponse)); err != nil {
					return err
				}
			}
		}}, both(l)...)
		stream, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			stream.Send(new(pb.StreamingOutputCallRequest))
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		if header, err := stream.Header(); err != nil || header.Get("ratelimit")[0] != `"everybody";r=0` {
			t.Errorf("%v, %v", header, err)
		}
		if got := ask(t.Context(), client); got.code != codes.ResourceExhausted {
			t.Errorf("beside a stream: %+v", got)
		}
		second, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = second.Recv()
		if wantCode(t, err, codes.ResourceExhausted); second.Trailer().Get("retry-after")[0] != "1" {
			t.Errorf("%v", second.Trailer())
		}
		stream.CloseSend()
		if _, err := stream.Recv(); err != io.EOF {
			t.Error(err)
		}
		synctest.Wait()
		if units := l.State().Held; units != 0 {
			t.Errorf("%d units held", units)
		}
		if got := ask(t.Context(), client); got.code != codes.OK {
			t.Errorf("after the stream: %+v", got)
		}
	})
}

func TestHoweverACallEndsNothingIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := make(chan core.Result, 10)
		rules := everybody(limits.Concurrent(1))
		rules = append(rules, grpcmw.Rule{
			Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1000)),
			Key:       keyfuncs.Constant[*grpcmw.Call]("everybody"),
			FinalCost: func(r core.Result) int64 { results <- r; return core.SpentCost(r) },
		})
		l := newLimiter(t, grpcmw.Config{Rules: rules})
		recovered := func(err *error) {
			if recover() != nil {
				*err = status.Error(codes.Internal, "panicked")
			}
		}
		s := new(service)
		client := serve(t, s,
			grpc.ChainUnaryInterceptor(
				func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (r any, err error) {
					defer recovered(&err)
					return h(ctx, m)
				}, l.Unary()),
			grpc.ChainStreamInterceptor(
				func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
					defer recovered(&err)
					return h(server, stream)
				}, l.Stream()))
		for _, c := range []struct {
			name    string
			handler func(context.Context) error
			want    core.Result
			code    codes.Code
		}{
			{"an answer", func(context.Context) error { return nil }, core.Result{Status: 200}, codes.OK},
			{"an error with a code", func(context.Context) error { return status.Error(codes.Unauthenticated, "") },
				core.Result{Status: 401}, codes.Unauthenticated},
			{"an error without one", func(context.Context) error { return errors.New("broken") },
				core.Result{Status: 500}, codes.Unknown},
			{"a panic", func(context.Context) error { panic("boom") }, core.Result{Panicked: true}, codes.Internal},
			{"a client that leaves", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
				core.Result{Left: true}, codes.DeadlineExceeded},
			{"units that were spent", func(ctx context.Context) error {
				grpcmw.Spend(ctx, "tokens", 3)
				grpcmw.Spend(ctx, "tokens", 4)
				return nil
			}, core.Result{Status: 200, Spent: 7}, codes.OK},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s.unary = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				return new(pb.SimpleResponse), c.handler(ctx)
			}
			s.up = func(stream pb.TestService_StreamingInputCallServer) error {
				if err := c.handler(stream.Context()); err != nil {
					return err
				}
				return stream.SendAndClose(new(pb.StreamingInputCallResponse))
			}
			if got := ask(ctx, client); got.code != c.code {
				t.Errorf("%s: %+v", c.name, got)
			}
			cancel()
			synctest.Wait() // a call that its client has left holds its unit until its handler returns
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			stream, err := client.StreamingInputCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, err = stream.CloseAndRecv()
			// grpc-go ends 1 of 30,000 streams by Canceled at their deadline, without weir, too.
			if code := status.Code(err); code != c.code && !(c.want.Left && code == codes.Canceled) {
				t.Errorf("%s: a stream: %v", c.name, err)
			}
			cancel()
			synctest.Wait()
			for range 2 {
				got := <-results
				if c.want.Cost = 1; c.want.Spent == 0 {
					c.want.Spent = -1
				}
				if got != c.want {
					t.Errorf("%s: the end is %+v, want %+v", c.name, got, c.want)
				}
			}
			if units := l.State().Held; units != 0 || len(results) > 0 {
				t.Errorf("%s: %d units held, %d results more", c.name, units, len(results))
			}
		}
	})
}

func TestADetachedCallEndsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.Concurrent(1))})
		var end func(core.Result)
		client := serve(t, &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			end, _ = grpcmw.Detach(ctx)
			return new(pb.SimpleResponse), nil
		}}, both(l)...)
		ask(t.Context(), client)
		if units := l.State().Held; units != 1 {
			t.Errorf("%d units held", units)
		}
		end(core.Result{Status: 200})
		if units := l.State().Held; units != 0 {
			t.Errorf("%d units held", units)
		}
	})
}

func TestQueuesWaitWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served atomic.Int32
		rules := everybody(limits.LeakyQueue(limits.PerMinute(1), 3))
		l := newLimiter(t, grpcmw.Config{Rules: rules, MaxWaiting: 1})
		client := serve(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			served.Add(1)
			return new(pb.SimpleResponse), nil
		}}, both(l)...)
		began := time.Now()
		ask(t.Context(), client)
		if got := ask(t.Context(), client); got.code != codes.OK || time.Since(began) != time.Minute {
			t.Errorf("%+v after %v", got, time.Since(began))
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if got := ask(short, client); got.code != codes.DeadlineExceeded || time.Since(began) != time.Second {
			t.Errorf("%+v after %v", got, time.Since(began))
		}
		synctest.Wait()
		waiting := make(chan told)
		go func() { waiting <- ask(t.Context(), client) }()
		synctest.Wait()
		if got := ask(t.Context(), client); got.code != codes.ResourceExhausted {
			t.Errorf("with a full queue: %+v", got)
		}
		l.Replace(everybody(limits.LeakyQueue(limits.PerMinute(1), 9)))
		if got := ask(t.Context(), client); got.code != codes.Unavailable || got.retry != time.Second {
			t.Errorf("with no room: %+v", got)
		}
		if got := <-waiting; got.code != codes.OK || served.Load() != 3 {
			t.Errorf("%+v, %d served", got, served.Load())
		}
		if s := l.State(); s.Waiting != 0 || s.QueueFull != 1 || s.QueueLeft != 1 {
			t.Errorf("%d waiting, %d full, %d left", s.Waiting, s.QueueFull, s.QueueLeft)
		}
	})
}

func TestTheOutcomeIsInTheContext(t *testing.T) {
	s := new(service)
	seen := make(chan int64, 2)
	note := func(ctx context.Context) {
		if o, ok := grpcmw.OutcomeFrom(ctx); ok {
			seen <- o.At(0).Remaining
		} else {
			seen <- -1
		}
	}
	s.unary = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		note(ctx)
		return new(pb.SimpleResponse), nil
	}
	s.duplex = func(stream pb.TestService_FullDuplexCallServer) error { note(stream.Context()); return nil }
	for _, want := range []int64{-1, 8} {
		l := newLimiter(t, grpcmw.Config{
			Rules: everybody(limits.FixedWindow(limits.PerDay(9))), OutcomeInContext: want > 0,
		})
		client := serve(t, s, both(l)...)
		ask(t.Context(), client)
		if got := <-seen; got != want {
			t.Errorf("%d left, want %d", got, want)
		}
		stream, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stream.Recv()
		if got := <-seen; got != max(want-1, -1) && want > 0 {
			t.Errorf("a stream: %d left, want %d", got, want-1)
		}
	}
}

func TestTheProgramAnswersDenialsItself(t *testing.T) {
	config := grpcmw.Config{
		Rules: everybody(limits.TokenBucket(limits.PerDay(1), 1)),
		Denied: func(c *grpcmw.Call, o core.Outcome, s *status.Status) error {
			if c.Message == nil {
				return nil
			}
			return status.Errorf(codes.Aborted, "%v by %s: %v", s.Code(), o.At(0).Rule(), c.FullMethod)
		},
	}
	client := serve(t, new(service), both(newLimiter(t, config))...)
	ask(t.Context(), client)
	_, err := client.UnaryCall(t.Context(), new(pb.SimpleRequest))
	if wantCode(t, err, codes.Aborted); !strings.Contains(err.Error(), "ResourceExhausted by everybody: "+unaryMethod) {
		t.Error(err)
	}
	stream, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.ResourceExhausted)
}

func TestFieldsThatWereChosenAreMetadata(t *testing.T) {
	config := grpcmw.Config{
		Rules:   everybody(limits.TokenBucket(limits.PerDay(1), 1)),
		Headers: headers.Options{Formats: []headers.Format{headers.EpochSeconds}, RetryAfter: headers.Window},
	}
	client := serve(t, new(service), both(newLimiter(t, config))...)
	if got := ask(t.Context(), client); got.header.Get("x-ratelimit-limit")[0] != "1" ||
		len(got.header.Get("ratelimit")) > 0 {
		t.Errorf("%+v", got)
	}
	got := ask(t.Context(), client)
	if got.trailer.Get("x-ratelimit-remaining")[0] != "0" || got.trailer.Get("retry-after")[0] != "86400" ||
		got.retry != 24*time.Hour {
		t.Errorf("the wait is not that of the options: %+v", got)
	}
}

func TestAMessageMayDecideTheCost(t *testing.T) {
	rules := everybody(limits.TokenBucket(limits.PerDay(10), 10))
	rules[0].Cost = func(c *grpcmw.Call) int64 { return int64(c.Message.(*pb.SimpleRequest).GetResponseSize()) }
	client := serve(t, new(service), both(newLimiter(t, grpcmw.Config{Rules: rules}))...)
	for _, c := range []struct {
		size int32
		want codes.Code
	}{{4, codes.OK}, {7, codes.ResourceExhausted}, {6, codes.OK}, {1, codes.ResourceExhausted}} {
		_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: c.size})
		wantCode(t, err, c.want)
	}
}

func TestRulesChangeWhileCallsAreUnderWay(t *testing.T) {
	l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.TokenBucket(limits.PerDay(1), 1))})
	client := serve(t, new(service), both(l)...)
	ask(t.Context(), client)
	if err := l.Replace(everybody(limits.TokenBucket(limits.PerDay(2), 2))); err != nil {
		t.Fatal(err)
	}
	if got := ask(t.Context(), client); got.code != codes.OK {
		t.Errorf("%+v", got)
	}
	if err := l.Override("everybody",
		core.Override{Limit: limits.TokenBucket(limits.PerDay(3), 3), Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if o := l.Explain(&grpcmw.Call{Context: t.Context()}); o.At(0).Remaining != 1 || len(l.State().Rules) != 1 {
		t.Errorf("%d left", o.At(0).Remaining)
	}
	if err := l.ResetKey(t.Context(), "everybody", "everybody"); err != nil {
		t.Fatal(err)
	}
	if d, err := l.ExplainKey(t.Context(), "everybody", "everybody", limits.Limit{}); err != nil || d.Remaining != 3 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestMistakesAreReportedTogether(t *testing.T) {
	_, err := grpcmw.New(grpcmw.Config{
		Rules: []grpcmw.Rule{{Name: "a"}}, MaxWaiting: -1, Headers: headers.Options{Jitter: -1},
	})
	for _, want := range []string{"key: is nil", "limit:", "max waiting", "jitter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: nothing of %q", err, want)
		}
	}
	for name, use := range map[string]func(*grpcmw.Limiter){
		"Unary": func(l *grpcmw.Limiter) { l.Unary() }, "Stream": func(l *grpcmw.Limiter) { l.Stream() },
	} {
		for _, l := range []*grpcmw.Limiter{nil, {}} {
			func() {
				defer func() {
					if v, _ := recover().(string); !strings.HasPrefix(v, "grpcmw: Limiter."+name+": ") {
						t.Errorf("panicked with %v", v)
					}
				}()
				use(l)
			}()
		}
	}
}
