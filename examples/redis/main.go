// Redis limits every client address to 100 requests a minute, at most 20 of them at once. All
// instances that use the same Redis share the limit. While Redis fails, each instance limits by
// itself.
//
// To try it with two instances (only the lines that matter of each answer):
//
//	$ redis-server
//	$ ADDR=:8081 go run ./examples/redis
//	$ ADDR=:8082 go run ./examples/redis
//	$ curl -s -o /dev/null -w '%{http_code}\n' 'localhost:8081/?[1-15]' | uniq -c
//	     15 200
//	$ curl -s -o /dev/null -w '%{http_code}\n' 'localhost:8082/?[1-15]' | sort | uniq -c
//	      5 200
//	     10 429
//	$ curl -i localhost:8081
//	HTTP/1.1 429 Too Many Requests
//	Retry-After: 1
//
// $REDIS_URL sets another Redis. With $LEASE, a duration such as 1s, busy keys are decided in this
// process; all instances need the same value. A limit of 100 a minute is too low for a benefit:
// docs/redis.md tells when to use it.
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
)

var rules = []nethttp.Rule{{
	Name:  "per-client",
	Limit: limits.TokenBucket(limits.PerMinute(100), 20),
	Key:   keyfuncs.Address(keyfuncs.Peer), // behind a proxy: keyfuncs.MustTrustedProxies
}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	lease, err := leaseFromEnv()
	if err != nil {
		return err
	}
	url := cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379")
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "example", Lease: lease})
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	defer redis.Close() // runs after the last request
	logging.Disable()   // otherwise go-redis logs every attempt to connect
	check(ctx, redis)

	limiter, err := nethttp.New(nethttp.Config{
		Rules:   rules,
		Backend: redis, // bounds every wait
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", hello)
	return serve(ctx, limiter.Handler(mux))
}

// leaseFromEnv returns the duration in $LEASE, or 0.
func leaseFromEnv() (time.Duration, error) {
	text := os.Getenv("LEASE")
	if text == "" {
		return 0, nil
	}
	lease, err := time.ParseDuration(text)
	if err != nil || lease < 10*time.Millisecond || lease > time.Second {
		return 0, fmt.Errorf("LEASE: must be 10ms to 1s, or not set (got %q)", text)
	}
	return lease, nil
}

// check logs problems with Redis. The program starts anyway.
func check(ctx context.Context, redis *redisbackend.Backend) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	switch err := redis.Check(ctx); {
	case errors.Is(err, redisbackend.ErrEvicts):
		log.Printf("limiting, but Redis may forget units in use: %v", err)
	case err != nil:
		log.Printf("limiting without Redis until it works: %v", err)
	}
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "Hello, here is your answer.")
}

// serve answers on $ADDR, or on port 8080 if it is not set, until ctx ends. Then requests in flight
// have ten seconds.
func serve(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{
		Handler:      handler,
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 20 * time.Second, // from the header of a request to the end of the response
		IdleTimeout:  2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}
