package grpcmw_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// tapped returns a server with all that installs a limiter.
func tapped(l *grpcmw.Limiter, s *service) *grpc.Server {
	var server *grpc.Server
	tap := grpc.InTapHandle(l.Tap(func() *grpc.Server { return server }))
	server = grpc.NewServer(append(both(l), tap)...)
	pb.RegisterTestServiceServer(server, s)
	return server
}

// serveTapped is serve with a limiter that has a tap.
func serveTapped(t testing.TB, l *grpcmw.Limiter, s *service) pb.TestServiceClient {
	t.Helper()
	return pb.NewTestServiceClient(dial(t, listenOn(t, tapped(l, s))))
}

// frame returns a message of gRPC.
func frame(compressed bool, payload []byte) []byte {
	head := make([]byte, 5)
	if compressed {
		head[0] = 1
	}
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	return append(head, payload...)
}

// bomb returns 64 MB in 64 kB.
func bomb(t *testing.T) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(make([]byte, 64<<20)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// overHTTP2 returns a client that sends what no client of gRPC does.
func overHTTP2(t *testing.T) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// post sends a call, and returns its status and message.
func post(
	t *testing.T, client *http.Client, address, path string, body []byte, fields ...string,
) (code, message string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	at := response.Trailer
	if response.Header.Get("Grpc-Status") != "" {
		at = response.Header
	}
	return at.Get("Grpc-Status"), at.Get("Grpc-Message")
}

// The undecodable calls, and the codes that they end with where no limit denies them, by one
// release of grpc-go or another.
func undecodable(t *testing.T) []struct {
	name, path string
	body       []byte
	fields     []string
	code       string
} {
	return []struct {
		name, path string
		body       []byte
		fields     []string
		code       string
	}{
		{"garbage", unaryMethod, frame(false, []byte("\xff\xff\xff\xff")), nil, "13"},
		{"a message that is compressed without an encoding", unaryMethod, frame(true, []byte("abc")), nil, "13"},
		{"an encoding that the server does not know", unaryMethod, frame(true, []byte("abc")),
			[]string{"Grpc-Encoding", "brotli"}, "12"},
		{"no gzip", unaryMethod, frame(true, []byte("abc")), []string{"Grpc-Encoding", "gzip"}, "13"},
		{"a bomb", unaryMethod, frame(true, bomb(t)), []string{"Grpc-Encoding", "gzip"}, "8"},
		{"a message that is too large", unaryMethod, frame(false, make([]byte, 5<<20))[:9], nil, "8"},
		{"a message that ends too early", unaryMethod, frame(false, make([]byte, 100))[:50], nil, "2 13"},
		{"an encoding of a stream", "/grpc.testing.TestService/FullDuplexCall", nil,
			[]string{"Grpc-Encoding", "brotli"}, "12"},
		{"a method that the server does not have", "/grpc.testing.TestService/Other", frame(false, nil), nil, "12"},
		{"a service that the server does not have", "/a.B/C", frame(false, nil), nil, "12"},
	}
}

func TestCallsThatCannotBeDecodedAreCountedAndDenied(t *testing.T) {
	defer grpcmw.SetMaxLater(0)()
	client := overHTTP2(t)
	for _, c := range undecodable(t) {
		t.Run(c.name, func(t *testing.T) {
			const allowed, calls = 3, 20
			var seen atomic.Int32
			ends := make(chan limits.Settlement, calls)
			l := newLimiter(t, grpcmw.Config{
				Rules: []grpcmw.Rule{
					{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(allowed), allowed),
						Key: keyfuncs.Address(grpcmw.Peer)},
					{Name: "at once", Limit: limits.Concurrent(1), Key: keyfuncs.Constant[*grpcmw.Call]("all")},
				},
				Observer: core.ObserverFuncs[*grpcmw.Call]{
					OnDecision: func(context.Context, *grpcmw.Call, core.Outcome) { seen.Add(1) },
					OnEnd:      func(s limits.Settlement) { ends <- s },
				},
			})
			address := startServer(t, tapped(l, new(service)))
			for i := range calls {
				code, message := post(t, client, address, c.path, c.body, c.fields...)
				denied := code == "8" && strings.HasPrefix(message, "Too many requests: retry in ")
				if i < allowed && (denied || !slices.Contains(strings.Fields(c.code), code)) || i >= allowed && !denied {
					t.Errorf("call %d: code %s, %q", i+1, code, message)
				}
				if !denied { // the end follows the answer: the next call begins once this one holds nothing
					waitFor(t, "the call has ended", func() bool { return len(ends) > i })
				}
			}
			if units := l.State().Held; units != 0 || len(ends) != allowed {
				t.Errorf("%d units are held, %d calls have ended", units, len(ends))
			}
			if n := seen.Load(); n != calls {
				t.Errorf("the limiter has seen %d calls, want %d", n, calls)
			}
		})
	}
}

// A unit that nothing returns would stay held for as long as the process runs.
func TestACallThatReachesNoInterceptorEndsAsOneThatSaysNothing(t *testing.T) {
	client := overHTTP2(t)
	for _, c := range undecodable(t) {
		ends := make(chan core.Result, 10)
		rules := everybody(limits.FixedWindow(limits.PerDay(9)))
		rules[0].FinalCost = func(r core.Result) int64 { ends <- r; return 1 }
		address := startServer(t, tapped(newLimiter(t, grpcmw.Config{Rules: rules}), new(service)))
		post(t, client, address, c.path, c.body, c.fields...)
		waitFor(t, "the call has ended", func() bool { return len(ends) > 0 })
		if got, want := <-ends, (core.Result{Cost: 1, Spent: -1}); got != want {
			t.Errorf("%s: the end is %+v, want %+v", c.name, got, want)
		}
	}
}

func TestTapRefusesAsInterceptorsDo(t *testing.T) {
	defer grpcmw.SetMaxLater(0)()
	key := keyfuncs.Constant[*grpcmw.Call]("everybody")
	broken := func(*grpcmw.Call) (string, error) { return "", errors.New("secret") }
	own := func(err error) func(*grpcmw.Call, core.Outcome, *status.Status) error {
		return func(*grpcmw.Call, core.Outcome, *status.Status) error { return err }
	}
	bucket := limits.TokenBucket(limits.PerHour(2), 1)
	for _, c := range []struct {
		name   string
		rule   grpcmw.Rule
		denied func(*grpcmw.Call, core.Outcome, *status.Status) error
		code   codes.Code
	}{
		{"a limit", grpcmw.Rule{Limit: bucket, Key: key}, nil, codes.ResourceExhausted},
		{"requests at once", grpcmw.Rule{Limit: limits.Concurrent(1), Key: key}, nil, codes.ResourceExhausted},
		{"a full service", grpcmw.Rule{Limit: limits.Concurrent(1), Key: key, DenyAs503: true}, nil, codes.Unavailable},
		{"a cost that never fits", grpcmw.Rule{Limit: bucket, Key: key, Cost: func(*grpcmw.Call) int64 { return 2 }},
			nil, codes.ResourceExhausted},
		{"failed closed", grpcmw.Rule{Limit: bucket, Key: broken}, nil, codes.Unavailable},
		{"a status of the program", grpcmw.Rule{Limit: bucket, Key: key}, own(status.Error(codes.Aborted, "no")),
			codes.Aborted},
		{"an error of the program", grpcmw.Rule{Limit: bucket, Key: key}, own(errors.New("no")), codes.Unknown},
		{"an error of a context", grpcmw.Rule{Limit: bucket, Key: key}, own(context.DeadlineExceeded),
			codes.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.rule.Name = "everybody"
			l := newLimiter(t, grpcmw.Config{Rules: []grpcmw.Rule{c.rule}, Denied: c.denied})
			held := l.Decide(&grpcmw.Call{Context: t.Context(), FullMethod: unaryMethod})
			defer held.End(core.Result{})
			refused := func(client pb.TestServiceClient) (told, string) {
				var got told
				_, err := client.UnaryCall(t.Context(), new(pb.SimpleRequest), grpc.Header(&got.header),
					grpc.Trailer(&got.trailer))
				got.read(err)
				return got, status.Convert(err).Message()
			}
			want, message := refused(serve(t, new(service), both(l)...))
			got, text := refused(serveTapped(t, l, new(service)))
			if want.code != c.code || got.code != want.code || got.retry != want.retry ||
				got.violated != want.violated || text != message {
				t.Errorf("%s: %+v %q, want %+v %q", c.name, got, text, want, message)
			}
			for name := range metadata.Join(got.header, got.trailer) {
				if name != "content-type" && name != "grpc-status-details-bin" {
					t.Errorf("%s: metadata %s: a handle of gRPC sends none", c.name, name)
				}
			}
		})
	}
}

// A policy that gets no pushback would repeat the calls after a second.
func TestADenialInFrontOfTheMessageHasAPushback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int32
		observe := func(context.Context, *grpcmw.Call, core.Outcome) { seen.Add(1) }
		l := newLimiter(t, grpcmw.Config{
			Rules:    everybody(limits.SlidingLog(limits.PerMinute(1))),
			Observer: core.ObserverFuncs[*grpcmw.Call]{OnDecision: observe},
		})
		conn := dial(t, listenOn(t, tapped(l, new(service))), grpc.WithDefaultServiceConfig(retries))
		client := pb.NewTestServiceClient(conn)
		wantAnswer(t, client, 0, 0, codes.OK, "")
		wantAnswer(t, client, 50*time.Second, 0, codes.ResourceExhausted,
			"Too many requests: retry in 60 seconds.")
		wantAnswer(t, client, 0, 60*time.Second, codes.OK, "")
		begun := time.Now()
		stream, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != io.EOF || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if n := seen.Load(); n != 6 {
			t.Errorf("%d decisions, want one for each attempt of 4 calls", n)
		}
	})
}

func TestAFloodIsRefusedBeforeItsMessagesAreRead(t *testing.T) {
	defer grpcmw.SetMaxLater(2)()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
		client := serveTapped(t, l, new(service))
		ask(t.Context(), client)
		refused := func(byTap bool) {
			t.Helper()
			got := ask(t.Context(), client)
			if got.code != codes.ResourceExhausted ||
				(got.trailer.Get("grpc-retry-pushback-ms") == nil) != byTap {
				t.Errorf("%+v, want it refused by the tap: %v", got, byTap)
			}
		}
		refused(false)
		refused(false)
		refused(true)
		time.Sleep(500 * time.Millisecond)
		refused(false)
		refused(true)
		time.Sleep(time.Second)
		refused(false)
		refused(false)
		refused(true)
	})
}

// Two calls and no messages: each counts until it has ended.
func TestClientsThatSendNoMessageOccupyFewPlaces(t *testing.T) {
	defer grpcmw.SetMaxLater(2)()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
		conn := dial(t, listenOn(t, tapped(l, new(service))))
		client := pb.NewTestServiceClient(conn)
		ask(t.Context(), client)
		silent, leave := context.WithCancel(t.Context())
		for range 2 {
			if _, err := conn.NewStream(silent, &grpc.StreamDesc{ClientStreams: true}, unaryMethod); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if got := ask(t.Context(), client); got.trailer.Get("grpc-retry-pushback-ms") != nil {
			t.Errorf("%+v, want it refused by the tap", got)
		}
		leave()
		synctest.Wait()
		if got := ask(t.Context(), client); got.trailer.Get("grpc-retry-pushback-ms") == nil {
			t.Errorf("%+v, want it refused by an interceptor", got)
		}
	})
}

func TestACallIsDecidedOnceByTapAndInterceptors(t *testing.T) {
	var seen, handled atomic.Int32
	observe := func(context.Context, *grpcmw.Call, core.Outcome) { seen.Add(1) }
	l := newLimiter(t, grpcmw.Config{
		Rules:    everybody(limits.FixedWindow(limits.PerDay(9))),
		Observer: core.ObserverFuncs[*grpcmw.Call]{OnDecision: observe}, OutcomeInContext: true,
	})
	client := serveTapped(t, l,
		&service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			if o, ok := grpcmw.OutcomeFrom(ctx); ok && o.At(0).Remaining == 8 {
				handled.Add(1)
			}
			return new(pb.SimpleResponse), nil
		}})
	got := ask(t.Context(), client)
	if got.code != codes.OK || !slices.Equal(got.header.Get("ratelimit-policy"), []string{`"everybody";q=9;w=86400`}) {
		t.Errorf("%+v", got)
	}
	stream, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
	if o := l.Explain(&grpcmw.Call{Context: t.Context(), FullMethod: unaryMethod}); seen.Load() != 2 ||
		handled.Load() != 1 || o.At(0).Remaining != 7 {
		t.Errorf("%d decisions seen, %d calls handled with the outcome, %+v", seen.Load(), handled.Load(), o.At(0))
	}
}

// Each connection of a client with a healthCheckConfig has such a stream, without an end.
func TestHealthChecksPassUnlessProbesCount(t *testing.T) {
	for _, counted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, grpcmw.Config{
				Rules: []grpcmw.Rule{
					{Name: "streams", Limit: limits.Concurrent(1),
						Key: core.When(func(c *grpcmw.Call) bool { return c.Message == nil },
							keyfuncs.Constant[*grpcmw.Call]("everybody"))},
					{Name: "calls", Limit: limits.FixedWindow(limits.PerDay(3)),
						Key: keyfuncs.Constant[*grpcmw.Call]("everybody")},
				},
				CountProbes: counted,
			})
			server := tapped(l, new(service))
			healthpb.RegisterHealthServer(server, health.NewServer())
			conn := dial(t, listenOn(t, server))
			client := healthpb.NewHealthClient(conn)
			passed := codes.OK
			if counted {
				passed = codes.ResourceExhausted
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			for i := range 3 {
				stream, err := client.Watch(ctx, new(healthpb.HealthCheckRequest))
				if err != nil {
					t.Fatal(err)
				}
				want := passed
				if i == 0 {
					want = codes.OK
				}
				_, err = stream.Recv()
				wantCode(t, err, want)
			}
			for i := range 5 {
				_, err := client.Check(t.Context(), new(healthpb.HealthCheckRequest))
				want := passed
				if i < 2 {
					want = codes.OK
				}
				wantCode(t, err, want)
			}
			_, err := client.List(t.Context(), new(healthpb.HealthListRequest))
			wantCode(t, err, passed)
			if held := l.State().Held; counted == (held == 0) {
				t.Errorf("%d units are held", held)
			}
		})
	}
}

// A client chooses the path, and would have a fresh budget with each.
func TestTapCountsMethodsThatTheServerDoesNotHaveTogether(t *testing.T) {
	client := overHTTP2(t)
	l := newLimiter(t, grpcmw.Config{
		Rules: []grpcmw.Rule{{Name: "method", Limit: limits.FixedWindow(limits.PerDay(3)), Key: grpcmw.Method}},
	})
	address := startServer(t, tapped(l, new(service)))
	for i, path := range []string{
		"/a.B/C", "/a.B/D", "/grpc.testing.TestService/", "//grpc.testing.TestService/UnaryCall", "/x", "/",
	} {
		want := "12"
		if i >= 3 {
			want = "8"
		}
		if code, message := post(t, client, address, path, nil); code != want {
			t.Errorf("%s: code %s, %q, want %s", path, code, message, want)
		}
	}
	if code, message := post(t, client, address, unaryMethod, frame(false, nil)); code != "0" {
		t.Errorf("code %s, %q", code, message)
	}
}

// Rules tell streams by the message, which has not arrived yet.
func TestTapKnowsStreams(t *testing.T) {
	isStream := func(c *grpcmw.Call) bool { return c.Message == nil }
	l := newLimiter(t, grpcmw.Config{Rules: []grpcmw.Rule{{
		Name: "streams", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: core.When(isStream, keyfuncs.Constant[*grpcmw.Call]("all")),
	}}})
	client := serveTapped(t, l, new(service))
	for range 3 {
		if got := ask(t.Context(), client); got.code != codes.OK {
			t.Errorf("a unary call: %+v", got)
		}
	}
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		stream, err := client.StreamingInputCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.CloseAndRecv()
		wantCode(t, err, want)
	}
}

// gRPC stops no timer of a call that a tap refuses. A client that is refused and names deadlines that are far
// would fill the memory: a gigabyte in half a minute.
func TestRefusedCallsWithDeadlinesAheadAreBounded(t *testing.T) {
	defer grpcmw.SetMaxLater(0)()
	defer grpcmw.SetMaxRefused(2)()
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int32
		observe := func(context.Context, *grpcmw.Call, core.Outcome) { seen.Add(1) }
		l := newLimiter(t, grpcmw.Config{
			Rules:    everybody(limits.FixedWindow(limits.PerDay(1))),
			Observer: core.ObserverFuncs[*grpcmw.Call]{OnDecision: observe},
		})
		client := serveTapped(t, l, new(service))
		ask(t.Context(), client)
		refused := func(timeout time.Duration, byTap bool) {
			t.Helper()
			ctx, cancel := t.Context(), func() {}
			if timeout > 0 {
				ctx, cancel = context.WithTimeout(ctx, timeout)
			}
			defer cancel()
			got := ask(ctx, client)
			if got.code != codes.ResourceExhausted || (got.trailer.Get("retry-after") == nil) != byTap ||
				got.violated != "everybody" {
				t.Errorf("%+v, want it refused by the tap: %v", got, byTap)
			}
		}
		refused(time.Minute, true)
		refused(time.Hour, true)
		for range 3 {
			refused(time.Hour, false)
		}
		refused(0, true) // of which gRPC keeps nothing
		time.Sleep(time.Minute)
		synctest.Wait()
		refused(time.Hour, true)
		refused(time.Hour, false)
		if n := seen.Load(); n != 9 {
			t.Errorf("%d decisions seen, want one for each of 9 calls", n)
		}
	})
}

func TestNothingIsKeptThatARefusedClientHasSent(t *testing.T) {
	defer grpcmw.SetMaxLater(0)()
	l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
	client := dialTCP(t, startServer(t, tapped(l, new(service))))
	ask(t.Context(), client)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	before := inUse()
	for range 200 {
		got := ask(metadata.AppendToOutgoingContext(ctx, "x", strings.Repeat("a", 100_000)), client)
		if got.code != codes.ResourceExhausted || got.trailer.Get("retry-after") != nil {
			t.Fatalf("%+v, want it refused by the tap", got)
		}
	}
	waitFor(t, "none of 20 MB is kept", func() bool { return inUse() < before+4<<20 })
}

// Without interceptors there is nothing else that refuses.
func TestTapAloneRefusesHoweverManyAreRefused(t *testing.T) {
	defer grpcmw.SetMaxLater(0)()
	defer grpcmw.SetMaxRefused(0)()
	var server *grpc.Server
	l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
	server = grpc.NewServer(grpc.InTapHandle(l.Tap(func() *grpc.Server { return server })),
		grpc.ChainUnaryInterceptor(l.Unary()))
	pb.RegisterTestServiceServer(server, new(service))
	client := pb.NewTestServiceClient(dial(t, listenOn(t, server)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		stream, err := client.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); err == io.EOF {
			err = nil
		}
		wantCode(t, err, want)
	}
}

// A backend may be far away. Here a key function waits.
func TestATapThatWaitsHoldsUpItsConnectionAlone(t *testing.T) {
	begun, release := make(chan bool), make(chan bool)
	l := newLimiter(t,
		grpcmw.Config{Rules: []grpcmw.Rule{{Name: "slow", Limit: limits.FixedWindow(limits.PerDay(9)),
			Key: func(c *grpcmw.Call) (string, error) {
				if md, _ := metadata.FromIncomingContext(c.Context); md.Get("slow") != nil {
					begun <- true
					<-release
				}
				return "", nil
			}}}})
	listener := listenOn(t, tapped(l, new(service)))
	slow, other := pb.NewTestServiceClient(dial(t, listener)), pb.NewTestServiceClient(dial(t, listener))
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if got := ask(metadata.AppendToOutgoingContext(t.Context(), "slow", "1"), slow); got.code != codes.OK {
			t.Errorf("the call that waited: %+v", got)
		}
	})
	<-begun
	if got := ask(t.Context(), other); got.code != codes.OK {
		t.Errorf("beside it: %+v", got)
	}
	release <- true
	waiting.Wait()
}

// What holds units decides last: gRPC ends nothing of a call that a tap refuses.
func TestTwoLimitersWithTapsDecideEachForItself(t *testing.T) {
	outer := newLimiter(t, grpcmw.Config{Rules: everybody(limits.Concurrent(5))})
	inner := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(2)))})
	var server *grpc.Server
	get := func() *grpc.Server { return server }
	first, last := inner.Tap(get), outer.Tap(get) // last: what holds units
	options := append(both(outer), both(inner)...)
	server = grpc.NewServer(
		append(options, grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
			ctx, err := first(ctx, info)
			if err != nil {
				return ctx, err
			}
			return last(ctx, info)
		}))...)
	pb.RegisterTestServiceServer(server, new(service))
	client := pb.NewTestServiceClient(dial(t, listenOn(t, server)))
	for _, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		if got := ask(t.Context(), client); got.code != want {
			t.Errorf("%+v, want %v", got, want)
		}
		waitFor(t, "nothing is held", func() bool { units := outer.State().Held; return units == 0 })
	}
}

func TestTapSaysWhatIsMissing(t *testing.T) {
	l := newLimiter(t, grpcmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
	says := func(want string, f func()) {
		t.Helper()
		defer func() {
			if got, _ := recover().(string); !strings.Contains(got, want) {
				t.Errorf("it panics with %q, want %q", got, want)
			}
		}()
		f()
	}
	says("the function is nil", func() { l.Tap(nil) })
	says("make one with New", func() { new(grpcmw.Limiter).Tap(func() *grpc.Server { return nil }) })
	says("returned no server", func() {
		l.Tap(func() *grpc.Server { return nil })(t.Context(), &tap.Info{FullMethodName: unaryMethod})
	})
}
