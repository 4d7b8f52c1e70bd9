// Quota tells each customer how much it has left, as GitHub's /rate_limit does. Searches and all
// other requests have limits of their own.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/quota
//	$ curl -s -H 'X-API-Key: ann' 'localhost:8080/search?[1-3]' -o /dev/null
//	$ curl -s -H 'X-API-Key: ann' localhost:8080/items -o /dev/null
//	$ curl -s -H 'X-API-Key: ann' localhost:8080/rate_limit
//	{"resources":{"search":{"limit":30,"used":3,"remaining":27,"reset":...
//	$ curl -s -H 'X-API-Key: bob' localhost:8080/rate_limit
//	{"resources":{"search":{"limit":30,"used":0,"remaining":30,...
//	$ curl -s -o /dev/null -w '%{http_code}\n' -H 'X-API-Key: ann' \
//	    'localhost:8080/search?[1-28]' | uniq -c
//	     27 200
//	      1 429
//
// Asking costs nothing. It has a limit of its own, so that one client does not ask all the time.
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
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// customer is the key of a customer: an issued API key, otherwise the address. So a client that
// invents a key asks about its own address.
var customer = keyfuncs.First(
	keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("ann", "bob")),
	keyfuncs.Address(keyfuncs.Peer), // behind a proxy: keyfuncs.MustTrustedProxies
)

func isSearch(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/search") }

func isOther(r *http.Request) bool { return !isSearch(r) }

var limiter = nethttp.MustNew(nethttp.Config{
	Rules: []nethttp.Rule{{
		Name:  "search",
		Limit: limits.AnchoredWindow(limits.PerHour(30)),
		Key:   core.When(isSearch, customer),
	}, {
		Name:  "items",
		Limit: limits.AnchoredWindow(limits.PerHour(500)),
		Key:   core.When(isOther, customer),
	}, {
		Name:   "burst", // protects the service, and is not published
		Limit:  limits.TokenBucket(limits.PerSecond(100), 200),
		Key:    customer,
		Hidden: true,
	}},
})

// asking limits the questions themselves.
var asking = nethttp.MustNew(nethttp.Config{
	Rules: []nethttp.Rule{{
		Name:  "asking",
		Limit: limits.TokenBucket(limits.PerMinute(20), 20),
		Key:   customer,
	}},
})

func main() {
	mux := http.NewServeMux()
	mux.Handle("GET /rate_limit", asking.Handler(limiter.Quota("GET /search", "GET /items")))
	mux.Handle("GET /", limiter.Handler(http.HandlerFunc(hello)))
	if err := serve(mux); err != nil {
		log.Fatal(err)
	}
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "Hello, here is your answer.")
}

// serve answers on $ADDR, or on port 8080 if it is not set, until it is interrupted. Then requests
// in flight have ten seconds.
func serve(handler http.Handler) error {
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
