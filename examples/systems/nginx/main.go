// Nginx limits four routes as nginx does by "limit_req", at 10 requests a second for an address:
// alone, with burst=20, with nodelay, and with delay=8. docs/systems.md explains why.
//
// To try it, with 25 requests at once to each (only the status and the seconds of each answer):
//
//	$ go run ./examples/systems/nginx
//	$ curl --no-progress-meter -Z --parallel-immediate -o /dev/null \
//	    -w '%{http_code} %{time_total}\n' 'localhost:8080/plain?[1-25]' \
//	    | cut -c 1-5 | sort | uniq -c
//	      1 200 0
//	     24 503 0
//	$ curl --no-progress-meter -Z --parallel-immediate -o /dev/null \
//	    -w '%{http_code} %{time_total}\n' 'localhost:8080/burst?[1-25]'
//	503 0.0...
//	200 0.1...
//	200 0.2...
//	200 1.9...
//	$ curl --no-progress-meter -Z --parallel-immediate -o /dev/null \
//	    -w '%{http_code} %{time_total}\n' 'localhost:8080/nodelay?[1-25]' \
//	    | cut -c 1-5 | sort | uniq -c
//	     21 200 0
//	      4 503 0
//	$ curl --no-progress-meter -Z --parallel-immediate -o /dev/null \
//	    -w '%{http_code} %{time_total}\n' 'localhost:8080/delay?[1-25]' \
//	    | cut -c 1-5 | sort | uniq -c
//	     18 200 0
//	      3 200 1
//	      4 503 0
//
// $REDIS_URL sets a Redis for the counts, and $PERIOD the time for 10 requests.
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

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// address is $binary_remote_addr.
var address = keyfuncs.MustAddressPrefix(keyfuncs.Peer, 128)

// routes returns a rule for each route, with the name of the route. The rate is 10r/s, as in
// "limit_req_zone $binary_remote_addr zone=NAME:10m rate=10r/s".
func routes(rate limits.Rate) []nethttp.Rule {
	return []nethttp.Rule{{
		Name:  "plain", // limit_req zone=plain
		Limit: limits.TokenBucket(rate, 1),
		Key:   address,
	}, {
		Name:  "burst", // limit_req zone=burst burst=20
		Limit: limits.LeakyQueue(rate, 21),
		Key:   address,
	}, {
		Name:  "nodelay", // limit_req zone=nodelay burst=20 nodelay
		Limit: limits.TokenBucket(rate, 21),
		Key:   address,
	}, {
		Name:    "delay", // limit_req zone=delay burst=20 delay=8
		Limit:   limits.LeakyQueue(rate, 21),
		NoDelay: 8,
		Key:     address,
	}}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	period, err := time.ParseDuration(cmp.Or(os.Getenv("PERIOD"), "1s"))
	if err != nil {
		return fmt.Errorf("PERIOD: %w", err)
	}
	backend, closeBackend, err := openBackend()
	if err != nil {
		return err
	}
	defer closeBackend() // runs after the last request
	mux := http.NewServeMux()
	for _, rule := range routes(limits.Per(10, period)) {
		limiter, err := nethttp.New(nethttp.Config{
			Rules:   []nethttp.Rule{rule},
			Backend: backend,
			Headers: headers.Options{Show: headers.Omit}, // nginx sends none
			Denied:  denied,
		})
		if err != nil {
			return err
		}
		mux.Handle("/"+rule.Name, limiter.Handler(http.HandlerFunc(hello)))
	}
	return serve(ctx, mux)
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "nginx"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Hello.") }

// denied answers as nginx does without limit_req_status.
func denied(w http.ResponseWriter, r *http.Request, _ core.Outcome) {
	http.Error(w, "503 Service Temporarily Unavailable", http.StatusServiceUnavailable)
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
		ReadTimeout:  10 * time.Second, // otherwise a slow body holds the units of its request
		WriteTimeout: 20 * time.Second, // two may pass in the queue
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
