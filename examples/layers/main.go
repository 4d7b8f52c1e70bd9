// Layers puts several limits on one API: one that everybody shares, one for each
// anonymous address, and one for each caller with a plan.
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
	"github.com/weir-go/weir/nethttp"
)

var (
	free = limits.SlidingWindow(limits.PerMinute(30))
	pro  = limits.SlidingWindow(limits.PerMinute(300))

	apiKey = keyfuncs.APIKey("X-API-Key")
	plans  = map[string]limits.Limit{ // by the key that apiKey returns
		keyfuncs.Digest("free-1"): free,
		keyfuncs.Digest("free-2"): free,
		keyfuncs.Digest("pro-1"):  pro,
	}
)

// planOf returns the plan of the caller's key. It accepts only keys in our list: a
// client can make up other keys for free, so an unknown key counts as none.
func planOf(r *http.Request) (limits.Limit, error) {
	key, err := apiKey(r)
	return plans[key], err
}

func hasPlan(r *http.Request) bool {
	limit, err := planOf(r)
	return err == nil && limit != limits.Limit{}
}

func isAnonymous(r *http.Request) bool { return !hasPlan(r) }

// cost is 10 for a report, which is as much work as ten other requests.
func cost(r *http.Request) int64 {
	if r.Method == http.MethodPost && r.URL.Path == "/reports" {
		return 10
	}
	return 1
}

var limit = nethttp.MustNew(nethttp.Config{
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

func main() {
	api := http.NewServeMux()
	api.HandleFunc("POST /reports", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "Here is your report.")
	})
	api.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "Hello.")
	})

	mux := http.NewServeMux()
	mux.Handle("/", limit.Handler(api))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { // outside the limiter
		fmt.Fprintln(w, "ok")
	})
	serve(mux)
}

// serve answers on $ADDR, on port 8080 if it is not set.
func serve(handler http.Handler) {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
