// Operations shows what limits and a shedder do: the operator's page, and metrics for
// Prometheus.
//
//	go -C examples/operations run . -load
//
// The API is on $ADDR, on port 8080 if it is not set; page and /metrics are on $ADMIN, on
// 127.0.0.1:8081 if it is not set. With $REDIS_URL, Redis keeps the state.
package main

import (
	"cmp"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/stats/weirprom"
)

var client = keyfuncs.First(keyfuncs.APIKey("X-API-Key"), keyfuncs.Address(keyfuncs.Peer))

// rules has a limit of every kind that an operator meets.
var rules = []nethttp.Rule{
	{Name: "per-client", Limit: limits.TokenBucket(limits.PerSecond(10), 20), Key: client},
	{Name: "next-year", Limit: limits.TokenBucket(limits.PerSecond(5), 10), Key: client, Mode: core.Shadow},
	{
		Name:  "reports",
		Limit: limits.SlidingWindow(limits.PerMinute(600)), Key: core.When(isReport, client),
		Cost: estimate, FinalCost: core.SpentCost,
	},
	{Name: "at-once", Limit: limits.Concurrent(4), Key: core.When(isReport, client)},
}

// shedder keeps searches, of which there are suddenly many, to half of what the service does
// at once.
var shedder = shed.MustNew(shed.Options[*http.Request]{
	MaxInFlight: 16,
	Classes:     []shed.Class{{Name: "interactive"}, {Name: "searches", Share: 50}},
	Classify: func(r *http.Request) int {
		if r.URL.Path == "/search" {
			return 1
		}
		return 0
	},
})

func isReport(r *http.Request) bool { return r.URL.Path == "/reports" }

func estimate(*http.Request) int64 { return 10 }

func main() {
	load := flag.Bool("load", false, "send requests to the API, so that there is something to see")
	flag.Parse()

	counters := stats.New(stats.Options{})
	api := counters.Limiter("api")
	limit := nethttp.MustNew(nethttp.Config{
		Rules:      rules,
		Backend:    backend(counters),
		Observe:    stats.Observe[*http.Request](api),
		ObserveEnd: api.ObserveEnd,
	})
	api.Watch(limit)
	counters.WatchShedder("api", shedder)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("[]\n")) })
	mux.HandleFunc("GET /search", search)
	mux.HandleFunc("GET /reports", report)
	address := serve(cmp.Or(os.Getenv("ADDR"), ":8080"), shed.Handler(shedder, limit.Handler(mux)), "listening on ")
	serve(cmp.Or(os.Getenv("ADMIN"), "127.0.0.1:8081"), operations(counters, limit), "operators: http://")
	if *load {
		go generate("http://" + address)
	}
	select {}
}

// operations serves the page and the metrics. Whoever reaches it may change limits, so it
// listens on the local host alone; see docs/operations.md before it listens elsewhere.
func operations(counters *stats.Stats, limit *nethttp.Limiter) http.Handler {
	who := func(*http.Request) (admin.Person, error) { return admin.Person{Name: "local", MayChange: true}, nil }
	page, err := admin.New(who, admin.Sources{
		Stats:    counters,
		Limiters: map[string]admin.Limiter{"api": limit},
	}, admin.Options{Instance: "example", Changes: true})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(weirprom.NewCollector(counters))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", page)
	return mux
}

// search takes 50 ms.
func search(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(50 * time.Millisecond):
		w.Write([]byte("[]\n"))
	case <-r.Context().Done():
	}
}

// report takes a while and costs as many units as it has rows.
func report(w http.ResponseWriter, r *http.Request) {
	rows, _ := strconv.ParseInt(r.FormValue("rows"), 10, 64)
	rows = min(max(rows, 0), 100)
	select {
	case <-time.After(time.Duration(rows) * 10 * time.Millisecond):
		nethttp.Spend(r.Context(), "reports", rows)
		w.Write([]byte("done\n"))
	case <-r.Context().Done():
	}
}

// backend returns the Redis of $REDIS_URL, or memory, and has counters watch it.
func backend(counters *stats.Stats) limits.Backend {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		store := memory.New(memory.Options{})
		counters.WatchMemory("main", store)
		return store
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "example"})
	if err != nil {
		log.Fatalf("REDIS_URL: %v", err)
	}
	stack := remote.NewStack(counters.Backend("redis", redis), remote.Options{})
	counters.WatchBreaker("redis", stack.Status)
	counters.WatchLeases("redis", stack.Leases)
	return stack
}

// serve serves handler in the background and returns its address.
func serve(address string, handler http.Handler, what string) string {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(what, listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { log.Fatal(server.Serve(listener)) }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return "127.0.0.1:" + port
}
