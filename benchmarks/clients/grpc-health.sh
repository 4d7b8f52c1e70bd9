#!/usr/bin/env bash
# What becomes of clients of gRPC that watch the health of a server by healthCheckConfig, if all have
# one address, and a rule allows it two streams: with CountProbes, by which their checks count, and
# without. It needs go. Each client is a process, makes one call, and stays until all are done.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

mkdir server client
cat >server/main.go <<'GO'
package main

import (
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	isStream := func(c *grpcmw.Call) bool { return c.Message == nil }
	l := grpcmw.MustNew(grpcmw.Config{
		Rules: []grpcmw.Rule{{
			Name: "streams", Limit: limits.Concurrent(2), Key: core.When(isStream, keyfuncs.Address(grpcmw.Peer)),
		}},
		CountProbes: os.Args[1] == "counted",
	})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(l.Unary()), grpc.ChainStreamInterceptor(l.Stream()))
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	panic(server.Serve(listener))
}
GO
cat >client/main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // which reads healthCheckConfig
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func main() {
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`))
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).List(ctx, &healthpb.HealthListRequest{})
	fmt.Println(status.Code(err), status.Convert(err).Message())
	io.Copy(io.Discard, os.Stdin) // until the end of the others
}
GO
go mod init example.com/health >build.log 2>&1
go mod edit -require=github.com/weir-go/weir@v0.0.0 -replace=github.com/weir-go/weir="$root" \
	-require=github.com/weir-go/weir/grpcmw@v0.0.0 -replace=github.com/weir-go/weir/grpcmw="$root/grpcmw" \
	-require=google.golang.org/grpc@v1.83.2
{ go mod tidy && go build -o s ./server && go build -o c ./client; } >>build.log 2>&1 || { cat build.log; exit 1; }

for probes in counted uncounted; do
	coproc ./s $probes
	server=$!
	read -r address <&"${COPROC[0]}"
	echo "grpc-go 1.83.2, checks are $probes:"
	mkfifo hold
	exec 3<>hold
	for i in 1 2 3 4; do
		./c "$address" <hold >"said.$i" 3>&- &
		while [[ ! -s said.$i ]]; do sleep 0.1; done
		echo "  client $i: $(cat "said.$i")"
	done
	exec 3>&-
	rm hold said.*
	kill $server
	wait 2>/dev/null || true
done
