// Cloudflare blocks floods as its network does: each instance counts addresses in its own memory,
// and announces blocked ones to the others. Limits of customers are exact, through Redis.
// docs/systems.md explains why.
//
// To try it with two instances (only the lines that matter of each answer):
//
//	$ redis-server
//	$ ADDR=:8081 REDIS_URL=redis://localhost:6379 go run ./examples/systems/cloudflare
//	$ ADDR=:8082 REDIS_URL=redis://localhost:6379 go run ./examples/systems/cloudflare
//	$ curl -i -H 'X-API-Key: k-shop' localhost:8082/api/
//	HTTP/1.1 200 OK
//	Ratelimit: "customer";r=599;t=60
//	$ curl -s -o /dev/null -w '%{http_code}\n' 'localhost:8081/?[1-10001]' | uniq -c
//	  10000 200
//	      1 429
//	$ curl -i localhost:8082
//	HTTP/1.1 429 Too Many Requests
//	Retry-After: 600
//	error code: 1015
//
// The second instance has counted only one request of the address, and blocks it. $BLOCK sets
// another limit. Without $REDIS_URL an instance works alone.
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
	"path"
	"strings"
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
	"github.com/weir-go/weir/remote"
)

// maxAddresses bounds the memory of an instance during a flood.
const maxAddresses = 1 << 20

// floodRules returns rules that block an address. Behind a proxy use keyfuncs.MustTrustedProxies:
// otherwise all clients are blocked together.
func floodRules(block limits.Limit) []nethttp.Rule {
	return []nethttp.Rule{{
		Name:  "flood",
		Limit: block,
		Key:   keyfuncs.Address(keyfuncs.Peer),
	}}
}

var customerRules = []nethttp.Rule{{
	Name:  "customer",
	Limit: limits.SlidingWindow(limits.PerMinute(600)),
	Key:   core.When(isAPI, customer),
}}

// customer is the owner of an issued API key. All other requests count together: the origin refuses
// them.
var customer = keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k-shop", "k-bank"))

// isAPI decodes and cleans the path, as an origin may do: /api%2Fx is part of the API.
func isAPI(r *http.Request) bool {
	return strings.HasPrefix(path.Clean("/"+r.URL.Path)+"/", "/api/")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	block, err := limits.Parse(cmp.Or(os.Getenv("BLOCK"), "ban 10000/1m for 10m"))
	if err != nil {
		return fmt.Errorf("BLOCK: %w", err)
	}
	stores, err := openStores()
	if err != nil {
		return err
	}
	defer stores.close() // runs after the last request
	flood, err := nethttp.New(nethttp.Config{
		Rules:   floodRules(block),
		Backend: stores.counts,
		Headers: headers.Options{Show: headers.Omit}, // tell an attacker nothing about the limit
		Denied:  blocked,
	})
	if err != nil {
		return err
	}
	customers, err := nethttp.New(nethttp.Config{
		Rules:   customerRules,
		Backend: stores.exact,
	})
	if err != nil {
		return err
	}
	return serve(ctx, flood.Handler(customers.Handler(http.HandlerFunc(origin))))
}

// stores are the backends of an instance.
type stores struct {
	counts backends.Backend // for floods, in this instance
	exact  backends.Backend // for customers, in all instances
	close  func() error
}

// openStores connects the instance with the others by the Redis at $REDIS_URL, if set.
func openStores() (*stores, error) {
	counts := memory.MustNew(memory.Options{MaxKeys: maxAddresses})
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return &stores{
			counts: counts,
			exact:  memory.MustNew(memory.Options{}),
			close:  func() error { return nil },
		}, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{
		Prefix:   "cloudflare",
		Announce: true,
	})
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	announced := remote.DenialCacheOptions{Announcer: redis.Announcer()}
	return &stores{
		counts: remote.MustNewDenialCache(counts, announced),
		exact:  redis,
		close:  redis.Close,
	}, nil
}

func origin(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Hello from the origin.") }

// blocked answers as Cloudflare does.
func blocked(w http.ResponseWriter, r *http.Request, outcome core.Outcome) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(outcome.Status())
	fmt.Fprintln(w, "error code: 1015")
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
		WriteTimeout: 20 * time.Second, // or an answer that the client does not read
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
