// Connect limits a Connect server: every client to 60 calls a minute, and to 2 streams at once.
// Servers that share a Redis, named by REDIS_URL, share the limits. It is a module of its own.
//
// To try it (of each answer, the lines that matter). Each message of a stream begins with five
// bytes, the last of which is its length here:
//
//	$ go -C examples/connect run .
//	$ curl -i --json '{"name": "Ann"}' localhost:8080/greet.v1.Greeter/Greet
//	HTTP/1.1 200 OK
//	Ratelimit: "per-client";r=59;t=59
//	{"greeting":"Hello, Ann."}
//	$ printf '\0\0\0\0\2{}' | curl -sN -H 'Content-Type: application/connect+json' \
//	    --data-binary @- localhost:8080/greet.v1.Greeter/Count | head -c 38 | grep -ao '{[^}]*}'
//	{"number":"1"}
//	{"number":"2"}
//	$ curl -s -o /dev/null -w '%{http_code}\n' --json '{}' \
//	    'localhost:8080/greet.v1.Greeter/Greet?[1-60]' | uniq -c
//	     58 200
//	      2 429
//	$ curl -i --json '{}' localhost:8080/greet.v1.Greeter/Greet
//	HTTP/1.1 429 Too Many Requests
//	Ratelimit: "per-client";r=0;t=60
//	Retry-After: 60
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/connect/greet"
	"github.com/weir-go/weir/examples/connect/greet/greetconnect"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// client counts by the address at the other end of the connection. Behind a proxy, use
// connectmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))) or the like.
var client = keyfuncs.Address(connectmw.Peer)

var rules = []connectmw.Rule{{
	Name:  "per-client",
	Limit: limits.SlidingLog(limits.PerMinute(60)),
	Key:   client,
}, {
	Name:  "streams",
	Limit: limits.Concurrent(2),
	Key:   core.When(isStream, client),
}}

func isStream(c *connectmw.Call) bool { return c.Spec.StreamType != connect.StreamTypeUnary }

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	config := connectmw.Config{Rules: rules}
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "connect-example"})
		if err != nil {
			return fmt.Errorf("REDIS_URL: %w", err)
		}
		defer redis.Close() // after the last call has ended
		config.Backend = remote.NewStack(redis, remote.Options{})
	}
	limiter, err := connectmw.New(config)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	limited := connect.WithInterceptors(limiter.Interceptor())
	mux.Handle(greetconnect.NewGreeterHandler(greeter{}, limited))
	return serve(mux)
}

type greeter struct{}

type numbers = *connect.ServerStream[greet.CountResponse]

func (greeter) Greet(_ context.Context, r *greet.GreetRequest) (*greet.GreetResponse, error) {
	return &greet.GreetResponse{Greeting: "Hello, " + cmp.Or(r.GetName(), "stranger") + "."}, nil
}

func (greeter) Count(ctx context.Context, _ *greet.CountRequest, stream numbers) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for n := int64(1); ; n++ {
		if err := stream.Send(&greet.CountResponse{Number: n}); err != nil {
			return err
		}
		select {
		case <-second.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// serve answers on $ADDR, or on port 8080 if it is not set, over HTTP/1.1 and HTTP/2, until it is
// interrupted. That ends the contexts of all calls, since streams last as long as clients like.
// They have ten seconds to give back what they hold.
func serve(handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{
		Handler:     handler,
		ReadTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute,
		Protocols:   new(http.Protocols),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for gRPC without TLS
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(within)
}
