// Grpc limits a gRPC server: every client to 60 calls a minute, and to 2 streams at once. Health
// checks are not counted. Servers that share a Redis, named by REDIS_URL, share the limits. It is a
// module of its own.
//
// To try it (only the lines that matter of each answer). A call with an empty message is five bytes
// of 0, which curl can send; programs use the generated client. The message x cannot be decoded,
// but its call counts:
//
//	$ go -C examples/grpc run .
//	$ printf '\0\0\0\0\0' | curl -K examples/grpc/curl.txt localhost:8080/greet.v1.Greeter/Greet
//	HTTP/2 200
//	ratelimit: "per-client";r=59;t=59
//	grpc-status: 0
//	$ printf '\0\0\0\0\1x' | curl -K examples/grpc/curl.txt localhost:8080/greet.v1.Greeter/Greet
//	grpc-status: 13
//	$ for i in $(seq 60); do
//	    printf '\0\0\0\0\0' | curl -K examples/grpc/curl.txt localhost:8080/greet.v1.Greeter/Greet
//	  done | grep -c 'grpc-status: 0'
//	58
//	$ printf '\0\0\0\0\0' | curl -K examples/grpc/curl.txt localhost:8080/greet.v1.Greeter/Greet
//	grpc-status: 8
//	grpc-message: Too many requests: retry in 60 seconds.
//
// grpcurl shows streams too:
//
//	grpcurl -plaintext -proto examples/grpc/greet/greet.proto \
//	    localhost:8080 greet.v1.Greeter/Count
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/grpc/greet"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// client counts by the address of the connection. Behind a proxy, use
// grpcmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))) or a similar function.
var client = keyfuncs.Address(grpcmw.Peer)

var rules = []grpcmw.Rule{{
	Name:  "per-client",
	Limit: limits.SlidingLog(limits.PerMinute(60)),
	Key:   client,
}, {
	Name:  "streams",
	Limit: limits.Concurrent(2),
	Key:   streams,
}}

// streams returns the client of a stream. Unary calls are not limited by the rule.
var streams = core.When(func(c *grpcmw.Call) bool { return c.Message == nil }, client)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	config := grpcmw.Config{Rules: rules}
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "grpc-example"})
		if err != nil {
			return fmt.Errorf("REDIS_URL: %w", err)
		}
		defer redis.Close() // runs after the last call
		config.Backend = redis
	}
	limiter, err := grpcmw.New(config)
	if err != nil {
		return err
	}
	var server *grpc.Server
	server = grpc.NewServer(append(bounds,
		// Use all three: interceptors do not see calls that cannot be decoded, and Unary does not
		// see streams.
		grpc.InTapHandle(limiter.Tap(func() *grpc.Server { return server })),
		grpc.ChainUnaryInterceptor(limiter.Unary()),
		grpc.ChainStreamInterceptor(limiter.Stream()),
		grpc.WaitForHandlers(true), // handlers return units to Redis at their end
	)...)
	greet.RegisterGreeterServer(server, greeter{})
	// Its calls are not counted. Clients may ask about the server or about this service alone: one
	// that is not named here is unknown, and they then make no calls.
	probes := health.NewServer()
	name := greet.Greeter_ServiceDesc.ServiceName
	probes.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, probes)
	return serve(server)
}

// bounds limit what one connection can make the server do and keep.
var bounds = []grpc.ServerOption{
	grpc.MaxRecvMsgSize(64 << 10), // after decompression, too
	grpc.MaxHeaderListSize(16 << 10),
	grpc.MaxConcurrentStreams(100),
	grpc.ConnectionTimeout(10 * time.Second), // of a new connection
	grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionIdle:     5 * time.Minute,
		MaxConnectionAge:      time.Hour, // so no stream lasts longer
		MaxConnectionAgeGrace: time.Minute,
		Time:                  time.Minute, // asks whether the client still reads
		Timeout:               10 * time.Second,
	}),
}

type greeter struct {
	greet.UnimplementedGreeterServer
}

func (greeter) Greet(_ context.Context, r *greet.GreetRequest) (*greet.GreetResponse, error) {
	return &greet.GreetResponse{Greeting: "Hello, " + cmp.Or(r.GetName(), "stranger") + "."}, nil
}

func (greeter) Count(_ *greet.CountRequest, stream greet.Greeter_CountServer) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for n := int64(1); ; n++ {
		if err := stream.Send(&greet.CountResponse{Number: n}); err != nil {
			return err
		}
		select {
		case <-second.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// serve answers on $ADDR, or on port 8080 if it is not set, until it is interrupted.
func serve(server *grpc.Server) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		server.Stop() // GracefulStop waits for streams, which clients could keep open
	}()
	return server.Serve(listener)
}
