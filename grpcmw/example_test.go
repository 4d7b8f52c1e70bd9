package grpcmw_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// Each client may make 2 calls a day. Health checks are not limited.
var perClient = grpcmw.MustNew(grpcmw.Config{Rules: []grpcmw.Rule{{
	Name:  "per-client",
	Limit: limits.TokenBucket(limits.PerDay(2), 2),
	Key:   keyfuncs.Address(grpcmw.Peer),
}}})

func Example() {
	var server *grpc.Server
	server = grpc.NewServer(
		grpc.InTapHandle(perClient.Tap(func() *grpc.Server { return server })),
		grpc.ChainUnaryInterceptor(perClient.Unary()),
		grpc.ChainStreamInterceptor(perClient.Stream()),
		grpc.MaxRecvMsgSize(64<<10),
		grpc.MaxConcurrentStreams(100),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 10 * time.Second}),
	)
	healthpb.RegisterHealthServer(server, health.NewServer())
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
	client := healthpb.NewHealthClient(conn)
	for range 3 {
		_, err := client.List(context.Background(), new(healthpb.HealthListRequest))
		fmt.Println(status.Code(err))
	}
	_, err = client.Check(context.Background(), new(healthpb.HealthCheckRequest)) // is not counted
	fmt.Println(status.Code(err))
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// OK
}
