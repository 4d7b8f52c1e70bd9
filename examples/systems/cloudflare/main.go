// Cloudflare blocks floods as its network does: each instance counts addresses in its own memory, and
// tells the others whom it blocks. Limits of customers are exact, through Redis. docs/systems.md says why.
//
//	ADDR=:8081 REDIS_URL=redis://localhost:6379 go run ./examples/systems/cloudflare
//	ADDR=:8082 REDIS_URL=redis://localhost:6379 go run ./examples/systems/cloudflare
//	curl -i -H 'X-API-Key: k-shop' localhost:8082/api/      # 599 of 600 requests are left
//	curl -s -o /dev/null 'localhost:8081/?[1-10001]'        # 10,001 requests over one connection
//	curl -i localhost:8082   # 429 for ten minutes, though this instance has counted one request
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// address is who is blocked. Behind a proxy use keyfuncs.MustTrustedProxies: otherwise all are blocked together.
var address = keyfuncs.Address(keyfuncs.Peer)

// customers are those to whom API keys were given out. All other requests count together: the origin refuses them.
var customers = keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k-shop", "k-bank"))

// isAPI looks at the path as an origin does that decodes and cleans it: /api%2Fx is part of the API.
func isAPI(r *http.Request) bool {
	return strings.HasPrefix(path.Clean("/"+r.URL.Path)+"/", "/api/")
}

// blocked answers as Cloudflare does.
func blocked(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(o.Status())
	fmt.Fprintln(w, "error code: 1015")
}

func main() {
	block, err := limits.Parse(cmp.Or(os.Getenv("BLOCK"), "ban 10000/1m for 10m"))
	if err != nil {
		log.Fatalf("BLOCK: %v", err)
	}
	// A million addresses at most, in memory that does not grow with a flood.
	var counts limits.Backend = memory.New(memory.Options{MaxKeys: 1 << 20})
	var exact limits.Backend // nil: memory
	if url := os.Getenv("REDIS_URL"); url != "" {
		backend, err := redisbackend.Open(url, redisbackend.Options{Prefix: "cloudflare"})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		announcer, err := redisbackend.OpenAnnouncer(url, redisbackend.AnnouncerOptions{Prefix: "cloudflare"})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		counts = remote.NewDenialCache(counts, remote.DenialCacheOptions{Announcer: announcer})
		exact = remote.NewStack(backend, remote.Options{Announcer: announcer})
	}
	flood := nethttp.MustNew(nethttp.Config{
		Backend: counts,
		Rules:   []nethttp.Rule{{Name: "flood", Limit: block, Key: address}},
		Headers: headers.Options{Show: headers.Omit}, // an attacker need not know how many are left
		Denied:  blocked,
	})
	customer := nethttp.MustNew(nethttp.Config{
		Backend: exact,
		Rules: []nethttp.Rule{{
			Name:  "customer",
			Limit: limits.SlidingWindow(limits.PerMinute(600)),
			Key:   core.When(isAPI, customers),
		}},
	})
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Hello from the origin.") })

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: flood.Handler(customer.Handler(origin)), ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
