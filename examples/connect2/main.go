// Connect2 limits a server of Connect v2: every client to 60 calls a minute, and to 2 streams at
// once. Servers that share a Redis, named by REDIS_URL, share the limits. It is a module of its
// own.
//
// To try it (only the lines that matter of each answer). Each message of a stream begins with five
// bytes; here the last one is its length:
//
//	$ go -C examples/connect2 run .
//	$ curl -i --json '{"name": "Ann"}' localhost:8080/greet.v1.Greeter/Greet
//	HTTP/1.1 200 OK
//	Ratelimit: "per-client";r=59;t=59
//	{"greeting":"Hello, Ann."}
//	$ printf '\0\0\0\0\2{}' | curl -sN -H 'Content-Type: application/connect+json' \
//	    --data-binary @- localhost:8080/greet.v1.Greeter/Count | head -c 38 | grep -ao '{[^}]*}'
//	{"number":"1"}
//	{"number":"2"}
//	$ curl -s -o /dev/null -w '%{http_code}\n' --json 'garbage' \
//	    'localhost:8080/greet.v1.Greeter/Greet?[1-60]' | uniq -c
//	     58 400
//	      2 429
//	$ curl -i --json '{}' localhost:8080/greet.v1.Greeter/Greet
//	HTTP/1.1 429 Too Many Requests
//	Ratelimit: "per-client";r=0;t=60
//	Retry-After: 60
//
// Garbage counts like any other call, since a call is decided before its message is read.
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

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/weir-go/weir/connect2mw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/connect2/greet"
	"github.com/weir-go/weir/examples/connect2/greet/greetconnect"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// client counts by the address of the connection. Behind a proxy, use
// connect2mw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))) or a similar
// function.
var client = keyfuncs.Address(connect2mw.Peer)

var rules = []connect2mw.Rule{{
	Name:  "per-client",
	Limit: limits.SlidingLog(limits.PerMinute(60)),
	Key:   client,
}, {
	Name:  "streams",
	Limit: limits.Concurrent(2),
	Key:   core.When(isStream, client),
}}

func isStream(c *connect2mw.Call) bool { return c.Spec.StreamType != connect.StreamTypeUnary }

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	config := connect2mw.Config{Rules: rules}
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "connect2-example"})
		if err != nil {
			return fmt.Errorf("REDIS_URL: %w", err)
		}
		defer redis.Close() // runs after the last call
		config.Backend = redis
	}
	limiter, err := connect2mw.New(config)
	if err != nil {
		return err
	}
	server := connect.NewServer(limiter.Interceptor())
	greetconnect.RegisterGreeterHandler(server, greeter{})
	server.SetUnknownHandler(unknown)
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server, connecthttp.WithReadMaxBytes(64<<10)) // after decompression, too
	return serve(patient(mux))
}

// unknown answers calls of unknown methods, so that the interceptor counts them.
func unknown(_ context.Context, spec connect.Spec, _ connect.ServerStream) error {
	return connect.Errorf(connect.CodeUnimplemented, "there is no method %s", spec.Procedure)
}

// patient lets clients take ten seconds to read each message, however long a stream lasts.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&messages{w, http.NewResponseController(w)}, r)
	})
}

type messages struct {
	http.ResponseWriter
	controller *http.ResponseController
}

func (m *messages) Write(data []byte) (int, error) {
	m.controller.SetWriteDeadline(time.Now().Add(10 * time.Second))
	return m.ResponseWriter.Write(data)
}

// Flush sends a message. The next one may be far off, so Flush also removes the deadline.
func (m *messages) Flush() {
	m.controller.Flush()
	m.controller.SetWriteDeadline(time.Time{})
}

func (m *messages) Unwrap() http.ResponseWriter { return m.ResponseWriter }

type greeter struct{}

type numbers = greetconnect.GreeterCountServerStream

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
// interrupted. That ends the contexts of all calls, since clients could keep streams open. Calls
// then have ten seconds to return their units.
func serve(handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{
		Handler:      handler,
		ReadTimeout:  10 * time.Second, // a call holds its units while its message arrives
		WriteTimeout: 20 * time.Second, // until the first message; patient allows ten for each
		IdleTimeout:  2 * time.Minute,
		Protocols:    new(http.Protocols),
		BaseContext:  func(net.Listener) context.Context { return ctx },
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
