// Operations shows what limits and a shedder do: the operator's page, and metrics for Prometheus.
//
// To try it (only the lines that matter of each answer):
//
//	$ go -C examples/operations run .
//	$ curl -s -o /dev/null -w '%{http_code}\n' 'localhost:8080/items?[1-30]' | sort | uniq -c
//	... 200
//	... 429
//	$ curl -i 'localhost:8080/reports?rows=3'
//	HTTP/1.1 429 Too Many Requests
//	$ curl -s localhost:8081/metrics
//	weir_requests_total{limiter="api",verdict="allowed"} 2...
//	$ curl -i localhost:8081
//	HTTP/1.1 200 OK
//	Content-Type: text/html; charset=utf-8
//
// With the flag -load the program sends itself requests, which the page at http://localhost:8081
// shows. $ADDR and $ADMIN set other addresses, and $REDIS_URL sets a Redis for the counts.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/stats/weirprom"
)

// rules has a limit of every kind that operators use.
var rules = []nethttp.Rule{{
	Name:    "per-client",
	Limit:   limits.TokenBucket(limits.PerSecond(10), 20),
	Key:     client,
	KeyName: clientName,
}, {
	Name:    "next-year", // never denies
	Limit:   limits.TokenBucket(limits.PerSecond(5), 10),
	Key:     client,
	KeyName: clientName,
	Mode:    core.Shadow,
}, {
	Name:      "reports", // in rows
	Limit:     limits.SlidingWindow(limits.PerMinute(600)),
	Key:       core.When(isReport, client),
	KeyName:   clientName,
	Cost:      estimate,
	FinalCost: core.SpentCost,
}, {
	Name:    "at-once",
	Limit:   limits.Concurrent(4),
	Key:     core.When(isReport, client),
	KeyName: clientName,
}}

// shedder limits searches, which come in bursts, to half of the service's capacity.
var shedder = shed.MustNew(shed.Options[*http.Request]{
	MaxInFlight: 16,
	Classes: []shed.Class{
		interactive: {Name: "interactive"},
		searches:    {Name: "searches", Share: 50},
	},
	Classify: classify,
})

// The classes, the more important first.
const (
	interactive = iota
	searches
)

// client counts by an issued API key, otherwise by address: an invented key must not get a fresh
// limit.
var client = keyfuncs.First(
	keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet(apiKeys...)),
	keyfuncs.Address(keyfuncs.Peer),
)

var apiKeys = []string{"client-0", "client-1", "client-2", "client-3", "reader", "runaway"}

// clientName describes the key on the operator's page.
const clientName = "API key or address"

func isReport(r *http.Request) bool { return r.URL.Path == "/reports" }

// estimate returns the charge of a report until its rows are known.
func estimate(*http.Request) int64 { return 10 }

func classify(r *http.Request) int {
	if r.URL.Path == "/search" {
		return searches
	}
	return interactive
}

func main() {
	load := flag.Bool("load", false, "send requests to the API, so that there is something to see")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *load); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, load bool) error {
	counters := stats.New(stats.Options{})
	backend, closeBackend, err := openBackend(counters)
	if err != nil {
		return err
	}
	defer closeBackend() // runs after the last request

	requests := counters.Limiter("api")
	limiter, err := nethttp.New(nethttp.Config{
		Rules:    rules,
		Backend:  backend,
		Observer: requests,
	})
	if err != nil {
		return err
	}
	counters.WatchShedder("api", shedder)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items", items)
	mux.HandleFunc("GET /search", search)
	mux.HandleFunc("GET /reports", report)
	operators, err := operatorsPages(counters, limiter)
	if err != nil {
		return err
	}
	return serve(ctx, shed.Handler(shedder, limiter.Handler(mux)), operators, load)
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it. It adds
// the backend to counters.
func openBackend(counters *stats.Stats) (
	backend backends.Backend, closeBackend func() error, err error,
) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		store := memory.MustNew(memory.Options{})
		counters.WatchMemory("main", store)
		return store, func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{
		Prefix: "example",
		Wrap:   func(b backends.Backend) backends.Backend { return counters.Backend("redis", b) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	counters.WatchBreaker("redis", redis.Status)
	counters.WatchLeases("redis", redis.Leases)
	return redis, redis.Close, nil
}

// operatorsPages serves the page and the metrics. Any visitor may change limits, so they must not
// leave this machine. See docs/operations.md before you serve them elsewhere.
func operatorsPages(counters *stats.Stats, limiter *nethttp.Limiter) (http.Handler, error) {
	sources := admin.Sources{
		Stats:    counters,
		Limiters: map[string]admin.Limiter{"api": limiter},
	}
	page, err := admin.New(anyone, sources, admin.Options{Instance: "example", Changes: true})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics(counters))
	mux.Handle("/", page)
	return local(mux), nil
}

// local serves requests for localhost or an address. Any other name may be one that a page in the
// browser has pointed at this machine.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			http.Error(w, "ask for localhost or an address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// anyone accepts every request: this example has no passwords.
func anyone(*http.Request) (admin.Person, error) {
	return admin.Person{Name: "local", MayChange: true}, nil
}

func metrics(counters *stats.Stats) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(weirprom.NewCollector(counters))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

func items(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "[]") }

// search takes 50 ms.
func search(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(50 * time.Millisecond):
		fmt.Fprintln(w, "[]")
	case <-r.Context().Done(): // the client has left
	}
}

// report takes a while and costs one unit per row.
func report(w http.ResponseWriter, r *http.Request) {
	rows, err := strconv.ParseInt(r.URL.Query().Get("rows"), 10, 64)
	if err != nil || rows < 0 || rows > 100 {
		http.Error(w, "rows must be a number from 0 to 100", http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(time.Duration(rows) * 10 * time.Millisecond):
		nethttp.Spend(r.Context(), "reports", rows)
		fmt.Fprintln(w, "done")
	case <-r.Context().Done(): // the client has left and is charged the estimate
	}
}

// serve answers clients on $ADDR, or on port 8080 if it is not set, and operators on $ADMIN, or on
// port 8081 of this machine alone, until ctx ends. Then requests in flight have ten seconds.
func serve(ctx context.Context, api, operators http.Handler, load bool) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	adminListener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADMIN"), "127.0.0.1:8081"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	log.Printf("operators: http://%v", adminListener.Addr())
	server, adminServer := newServer(api), newServer(operators)
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	go func() { failed <- adminServer.Serve(adminListener) }()
	if load {
		go generate(listener.Addr())
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), adminServer.Shutdown(ctx))
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:      handler,
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 20 * time.Second, // from the header of a request to the end of the response
		IdleTimeout:  2 * time.Minute,
	}
}
