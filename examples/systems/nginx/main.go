// Nginx limits four routes as nginx does by "limit_req", at 10 requests a second for an address:
// alone, with burst=20, with nodelay, and with delay=8. docs/systems.md says why.
//
//	for i in $(seq 5); do curl -s -o /dev/null -w '%{http_code} %{time_total}\n' localhost:8080/plain & done; wait
//	# 200 once, 503 for those within 100 ms
//	for i in $(seq 25); do curl -s -o /dev/null -w '%{http_code} %{time_total}\n' localhost:8080/burst & done; wait
//	# 21 or more 200, 100 ms apart
//	for i in $(seq 25); do curl -s -o /dev/null -w '%{http_code} %{time_total}\n' localhost:8080/nodelay & done; wait
//	# 21 or more 200, at once
//	for i in $(seq 25); do curl -s -o /dev/null -w '%{http_code} %{time_total}\n' localhost:8080/delay & done; wait
//	# as many, 9 at once
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
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

// rule is "limit_req_zone $binary_remote_addr zone=NAME:10m rate=10r/s" and a "limit_req zone=NAME".
func rule(name string, limit limits.Limit, undelayed int64) nethttp.Rule {
	return nethttp.Rule{
		Name: name, Limit: limit, NoDelay: undelayed, Key: keyfuncs.MustAddressPrefix(keyfuncs.Peer, 128),
	}
}

// denied answers as nginx does where limit_req_status is not set.
func denied(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	http.Error(w, "503 Service Temporarily Unavailable", http.StatusServiceUnavailable)
}

func main() {
	period, err := time.ParseDuration(cmp.Or(os.Getenv("PERIOD"), "1s"))
	if err != nil {
		log.Fatalf("PERIOD: %v", err)
	}
	rate := limits.Per(10, period)
	routes := []nethttp.Rule{
		rule("plain", limits.TokenBucket(rate, 1), 0),
		rule("burst", limits.LeakyQueue(rate, 21), 0),    // burst=20
		rule("nodelay", limits.TokenBucket(rate, 21), 0), // burst=20 nodelay
		rule("delay", limits.LeakyQueue(rate, 21), 8),    // burst=20 delay=8
	}
	var backend limits.Backend = memory.New(memory.Options{})
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "nginx"})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		backend = remote.NewStack(redis, remote.Options{})
	}
	mux := http.NewServeMux()
	for _, route := range routes {
		limit := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{route}, Backend: backend, Denied: denied,
			Headers: headers.Options{Show: headers.Omit}, // nginx sends none
		})
		mux.Handle("/"+route.Name, limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, "Hello.")
		})))
	}

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
