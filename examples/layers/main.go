// Layers puts several limits on one API: one for all clients together, one for each anonymous
// address, and one for each caller with a plan. A request must pass all limits that apply to it.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/layers
//	$ curl -i localhost:8080
//	HTTP/1.1 200 OK
//	Ratelimit: "global";r=999;t=1, "anonymous";r=19;t=57
//	$ curl -i -X POST localhost:8080/reports
//	HTTP/1.1 200 OK
//	X-Ratelimit-Limit: 20
//	X-Ratelimit-Remaining: 9
//	$ curl -i -X POST localhost:8080/reports
//	HTTP/1.1 429 Too Many Requests
//	Retry-After: ...
//	$ curl -i -X POST -H 'X-API-Key: pro-1' localhost:8080/reports
//	HTTP/1.1 200 OK
//	X-Ratelimit-Limit: 300
//	X-Ratelimit-Remaining: 290
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
	"github.com/weir-go/weir/nethttp"
)

var (
	free = limits.SlidingWindow(limits.PerMinute(30))
	pro  = limits.SlidingWindow(limits.PerMinute(300))
)

// plans has the limits of the issued API keys, by their digests.
var plans = map[string]limits.Limit{
	keyfuncs.Digest("free-1"): free,
	keyfuncs.Digest("free-2"): free,
	keyfuncs.Digest("pro-1"):  pro,
}

var limiter = nethttp.MustNew(nethttp.Config{
	Rules: []nethttp.Rule{{
		Name:  "global",
		Limit: limits.SlidingWindow(limits.PerSecond(1000)),
		Key:   keyfuncs.Constant[*http.Request]("everyone"),
		Cost:  cost,
	}, {
		Name:  "anonymous",
		Limit: limits.SlidingWindow(limits.PerMinute(20)),
		Key:   core.When(isAnonymous, keyfuncs.Address(keyfuncs.Peer)),
		Cost:  cost,
	}, {
		Name:     "plan",
		LimitFor: planOf,
		Key:      core.When(hasPlan, apiKey),
		Cost:     cost,
	}},
	Headers: headers.Options{Formats: []headers.Format{headers.IETF, headers.GitHub}},
})

// apiKey returns the digest of the caller's API key.
var apiKey = keyfuncs.APIKey("X-API-Key")

// planOf returns the limit of the caller's API key.
func planOf(r *http.Request, _ string) (limits.Limit, error) {
	key, err := apiKey(r)
	return plans[key], err
}

// hasPlan accepts only issued keys. A client can invent others, so an unknown key counts as none.
func hasPlan(r *http.Request) bool {
	key, err := apiKey(r)
	_, known := plans[key]
	return err == nil && known
}

func isAnonymous(r *http.Request) bool { return !hasPlan(r) }

// cost returns 10 for a report, which is as much work as ten other requests.
func cost(r *http.Request) int64 {
	if r.Method == http.MethodPost && r.URL.Path == "/reports" {
		return 10
	}
	return 1
}

func main() {
	api := http.NewServeMux()
	api.HandleFunc("POST /reports", report)
	api.HandleFunc("/", hello)

	mux := http.NewServeMux()
	mux.Handle("/", limiter.Handler(api))
	mux.HandleFunc("GET /healthz", health) // outside the limiter
	if err := serve(mux); err != nil {
		log.Fatal(err)
	}
}

func report(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Here is your report.") }

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Hello.") }

func health(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") }

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
