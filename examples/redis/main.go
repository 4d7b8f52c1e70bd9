// Redis limits every client address to 100 requests per minute, at most 20 of them at
// once. All instances that use the same Redis share the limit. With LEASE, a duration such
// as 1s, busy keys are decided in this process; all instances need the same. A limit of 100 a
// minute has no use for it: see docs/redis.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	url := cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379")
	backend, err := redisbackend.Open(url, redisbackend.Options{Prefix: "example"})
	if err != nil {
		log.Fatalf("REDIS_URL: %v", err)
	}
	defer backend.Close()

	lease, err := time.ParseDuration(cmp.Or(os.Getenv("LEASE"), "0s"))
	if err != nil || lease != 0 && (lease < 10*time.Millisecond || lease > time.Second) {
		log.Fatalf("LEASE: must be 10ms to 1s, or not set (got %q)", os.Getenv("LEASE"))
	}
	limit := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: limits.TokenBucket(limits.PerMinute(100), 20),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
		// While Redis fails, each instance limits by itself and logs that once.
		Backend: remote.NewStack(backend, remote.Options{Lease: lease}),
	})
	logging.Disable() // otherwise go-redis logs every attempt to connect
	soon, cancel := context.WithTimeout(ctx, time.Second)
	switch err := backend.Check(soon); {
	case errors.Is(err, redisbackend.ErrEvicts):
		log.Printf("limiting, but Redis may forget units in use: %v", err)
	case err != nil:
		log.Printf("limiting without Redis until it works: %v", err)
	}
	cancel()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "Hello, here is your answer.")
	})
	serve(ctx, limit.Handler(mux))
}

// serve answers on $ADDR until ctx ends, then lets the requests under way finish.
func serve(ctx context.Context, handler http.Handler) {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()

	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
