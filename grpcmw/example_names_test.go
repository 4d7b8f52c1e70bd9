package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/shed"
)

// handler answers with "served".
func handler(context.Context, any) (any, error) { return "served", nil }

// send has a limiter decide a unary call, and prints the answer.
func send(l *grpcmw.Limiter, ctx context.Context, method string, handler grpc.UnaryHandler) {
	response, err := l.Unary()(ctx, new(healthpb.HealthCheckRequest), &grpc.UnaryServerInfo{FullMethod: method},
		handler)
	fmt.Println(response, status.Code(err))
}

// with returns a context with metadata, as a server has it.
func with(pairs ...string) context.Context {
	return metadata.NewIncomingContext(context.Background(), metadata.Pairs(pairs...))
}

// fromAddress returns the context of a call from an address.
func fromAddress(ip string) context.Context {
	return peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}})
}

// once is a limiter that allows one call a day for each key.
func once(key func(*grpcmw.Call) (string, error)) *grpcmw.Limiter {
	return grpcmw.MustNew(grpcmw.Config{
		Rules: []grpcmw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: key}},
	})
}

func ExampleNew() {
	_, err := grpcmw.New(grpcmw.Config{
		Rules: []grpcmw.Rule{
			{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(0)), Key: grpcmw.Method},
		},
	})
	fmt.Println(err)
	// Output: core: rule "per-client": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	grpcmw.MustNew(grpcmw.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// Install both interceptors: that of unary calls does not see streams.
func ExampleLimiter_Unary() {
	limiter := once(keyfuncs.Address(grpcmw.Peer))
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limiter.Unary()),
		grpc.ChainStreamInterceptor(limiter.Stream()),
	)
	_ = server // register services, and serve

	for range 2 {
		send(limiter, fromAddress("192.0.2.1"), "/shop.v1.Orders/Place", handler)
	}
	// Output:
	// served OK
	// <nil> ResourceExhausted
}

// Each client may have 2 streams at once.
func ExampleLimiter_Stream() {
	streams := grpcmw.MustNew(grpcmw.Config{Rules: []grpcmw.Rule{{
		Name:  "streams",
		Limit: limits.Concurrent(2),
		Key:   keyfuncs.Address(grpcmw.Peer),
	}}})
	server := grpc.NewServer(grpc.ChainStreamInterceptor(streams.Stream()))
	_ = server // register services, and serve
	fmt.Println(streams.State().Held, streams.State().HeldSince)
	// Output: 0 0001-01-01 00:00:00 +0000 UTC
}

// A client sends garbage. Interceptors never see such a call, but it counts.
func ExampleLimiter_Tap() {
	limiter := once(keyfuncs.Address(grpcmw.Peer))
	var server *grpc.Server
	server = grpc.NewServer(
		grpc.InTapHandle(limiter.Tap(func() *grpc.Server { return server })),
		grpc.ChainUnaryInterceptor(limiter.Unary()),
		grpc.ChainStreamInterceptor(limiter.Stream()),
		grpc.MaxRecvMsgSize(64<<10),
	)
	pb.RegisterTestServiceServer(server, pb.UnimplementedTestServiceServer{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	const method = pb.TestService_EmptyCall_FullMethodName
	err = conn.Invoke(context.Background(), method, "", nil, grpc.ForceCodec(garbage{}))
	fmt.Println(status.Code(err))
	err = conn.Invoke(context.Background(), method, new(pb.Empty), new(pb.Empty))
	fmt.Println(status.Code(err))
	// Output:
	// Internal
	// ResourceExhausted
}

// garbage encodes everything as a byte that is no message.
type garbage struct{}

func (garbage) Marshal(any) ([]byte, error) { return []byte{0xff}, nil }
func (garbage) Unmarshal([]byte, any) error { return nil }
func (garbage) Name() string                { return "proto" }

// Behind a proxy that appends to x-forwarded-for, metadata of other clients are not believed.
func ExampleLift() {
	key := grpcmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
	for _, ip := range []string{"10.0.0.1", "192.0.2.1"} {
		ctx := metadata.NewIncomingContext(fromAddress(ip), metadata.Pairs("x-forwarded-for", "203.0.113.7"))
		fmt.Println(key(&grpcmw.Call{Context: ctx}))
	}
	token := grpcmw.Lift(keyfuncs.BearerToken)
	fmt.Println(token(&grpcmw.Call{Context: with("authorization", "Bearer secret")}))
	// Output:
	// 203.0.113.7 <nil>
	// 192.0.2.1 <nil>
	// 2bb80d537b1da3e38bd30361aa855686 <nil>
}

func ExamplePeer() {
	key := keyfuncs.Address(grpcmw.Peer)
	fmt.Println(key(&grpcmw.Call{Context: fromAddress("192.0.2.1")}))
	// Output: 192.0.2.1 <nil>
}

// Each client may use each method once.
func ExampleMethod() {
	limiter := once(keyfuncs.Join(grpcmw.Method, keyfuncs.Address(grpcmw.Peer)))
	for _, method := range []string{"/shop.v1.Orders/Place", "/shop.v1.Orders/Place", "/shop.v1.Orders/Cancel"} {
		send(limiter, fromAddress("192.0.2.1"), method, handler)
	}
	// Output:
	// served OK
	// <nil> ResourceExhausted
	// served OK
}

func ExampleService() {
	fmt.Println(grpcmw.Service(&grpcmw.Call{FullMethod: "/shop.v1.Orders/Place"}))
	// Output: shop.v1.Orders <nil>
}

// The cost of a call is what its message asks for.
func ExampleCall() {
	limiter := grpcmw.MustNew(grpcmw.Config{Rules: []grpcmw.Rule{{
		Name:  "names",
		Limit: limits.TokenBucket(limits.PerDay(100), 100),
		Key:   grpcmw.Service,
		Cost: func(c *grpcmw.Call) int64 {
			if check, ok := c.Message.(*healthpb.HealthCheckRequest); ok {
				return int64(len(check.GetService()))
			}
			return 1
		},
	}}})
	outcome := limiter.Decide(&grpcmw.Call{
		Context:    context.Background(),
		FullMethod: healthpb.Health_Check_FullMethodName,
		Message:    &healthpb.HealthCheckRequest{Service: "orders"},
	})
	fmt.Println(outcome.At(0).Remaining)
	// Output: 94
}

// The rules of a policy file read calls as POST requests for the full method.
func ExampleCall_Request() {
	file, err := policy.Parse("rules.yaml", []byte(`
version: 1
client: {peer: true}
rules:
  - {name: place, match: POST /shop.v1.Orders/Place, key: address, limit: 1/day}
`), policy.Names[*grpcmw.Call]{Request: (*grpcmw.Call).Request})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := grpcmw.MustNew(grpcmw.Config{Rules: file.Rules()})
	for _, method := range []string{"/shop.v1.Orders/Place", "/shop.v1.Orders/Place", "/shop.v1.Orders/Cancel"} {
		send(limiter, fromAddress("192.0.2.1"), method, handler)
	}
	// Output:
	// served OK
	// <nil> ResourceExhausted
	// served OK
}

// With CountProbes a policy file may count health checks, too, by a rule of their own.
func ExampleConfig_probes() {
	file, err := policy.Parse("rules.yaml", []byte(`
version: 1
client: {peer: true}
rules:
  - {name: checks, match: POST /grpc.health.v1.Health/, key: address, limit: 1/day}
`), policy.Names[*grpcmw.Call]{Request: (*grpcmw.Call).Request})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, count := range []bool{false, true} {
		limiter := grpcmw.MustNew(grpcmw.Config{Rules: file.Rules(), CountProbes: count})
		for range 2 {
			send(limiter, fromAddress("192.0.2.1"), healthpb.Health_Check_FullMethodName, handler)
		}
	}
	// Output:
	// served OK
	// served OK
	// served OK
	// <nil> ResourceExhausted
}

// Denials in the words of the program.
func ExampleConfig() {
	limiter := grpcmw.MustNew(grpcmw.Config{
		Rules: []grpcmw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: grpcmw.Method}},
		Denied: func(c *grpcmw.Call, _ core.Outcome, s *status.Status) error {
			p := s.Proto() // a copy, with the details
			p.Message = "come back tomorrow"
			return status.FromProto(p).Err()
		},
	})
	for range 2 {
		_, err := limiter.Unary()(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, handler)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// rpc error: code = ResourceExhausted desc = come back tomorrow
}

// Only log-ins that fail count.
func ExampleRule() {
	failures := grpcmw.MustNew(grpcmw.Config{Rules: []grpcmw.Rule{{
		Name:      "failed log-ins",
		Limit:     limits.SlidingLog(limits.PerHour(1)),
		Key:       keyfuncs.Address(grpcmw.Peer),
		FinalCost: core.OnStatus(func(status int) bool { return status == 401 }), // codes.Unauthenticated
	}}})
	wrong := status.Error(codes.Unauthenticated, "wrong password")
	for _, err := range []error{nil, wrong, nil} {
		send(failures, fromAddress("192.0.2.1"), "/users.v1.Users/LogIn",
			func(context.Context, any) (any, error) { return "welcome", err })
	}
	// Output:
	// welcome OK
	// welcome Unauthenticated
	// <nil> ResourceExhausted
}

func ExampleOutcomeFrom() {
	limiter := grpcmw.MustNew(grpcmw.Config{
		Rules: []grpcmw.Rule{
			{Name: "a", Limit: limits.TokenBucket(limits.PerDay(5), 5), Key: grpcmw.Method},
		},
		OutcomeInContext: true,
	})
	send(limiter, context.Background(), "/a.B/C", func(ctx context.Context, _ any) (any, error) {
		outcome, ok := grpcmw.OutcomeFrom(ctx)
		return fmt.Sprint(outcome.At(0).Remaining, " left ", ok), nil
	})
	// Output: 4 left true OK
}

// A stream that pays for each message it sends.
func ExampleSpend() {
	limiter := grpcmw.MustNew(grpcmw.Config{Rules: []grpcmw.Rule{{
		Name:      "messages",
		Limit:     limits.TokenBucket(limits.PerDay(100), 100),
		Key:       grpcmw.Service,
		FinalCost: core.SpentCost,
	}}})
	c := &grpcmw.Call{Context: context.Background(), FullMethod: "/a.B/C"}
	send(limiter, c.Context, c.FullMethod, func(ctx context.Context, _ any) (any, error) {
		for range 7 {
			grpcmw.Spend(ctx, "messages", 1)
		}
		return "served", nil
	})
	o := limiter.Explain(c)
	fmt.Println(o.At(0).Remaining, "left")
	// Output:
	// served OK
	// 93 left
}

// A job that goes on after its call has been answered.
func ExampleDetach() {
	jobs := grpcmw.MustNew(grpcmw.Config{
		Rules: []grpcmw.Rule{{Name: "jobs", Limit: limits.Concurrent(1), Key: grpcmw.Service}},
	})
	var end func(core.Result)
	start := func(ctx context.Context, _ any) (any, error) {
		end, _ = grpcmw.Detach(ctx)
		return "started", nil
	}
	send(jobs, context.Background(), "/a.B/C", start)
	send(jobs, context.Background(), "/a.B/C", start)
	end(core.Result{Status: 200})
	send(jobs, context.Background(), "/a.B/C", start)
	// Output:
	// started OK
	// <nil> ResourceExhausted
	// started OK
}

// A shedder goes outside of the limiter.
func ExampleShed() {
	shedder := shed.MustNew(shed.Options[*grpcmw.Call]{
		Exempt: func(c *grpcmw.Call) bool { return c.FullMethod == healthpb.Health_Check_FullMethodName },
	})
	limiter := once(grpcmw.Method)
	unary, stream := grpcmw.Shed(shedder)
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(unary, limiter.Unary()),
		grpc.ChainStreamInterceptor(stream, limiter.Stream()),
	)
	_ = server // register services, and serve

	_, err := unary(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"},
		func(context.Context, any) (any, error) {
			return nil, errors.New("in flight: " + fmt.Sprint(shedder.State().InFlight))
		})
	fmt.Println(err)
	// Output: in flight: 1
}

// A client that waits as long as the server says, and spreads its calls.
func ExampleClient() {
	unary, stream := grpcmw.MustClient(client.Options{MaxWait: 10 * time.Second})
	conn, err := grpc.NewClient("localhost:8080",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(unary),
		grpc.WithChainStreamInterceptor(stream),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.Target())
	// Output: localhost:8080
}
