// Envoy limits requests as a proxy of a service mesh does: by a token bucket of this process, then
// by descriptors that all processes share, some of them in shadow mode. docs/systems.md says why.
//
//	for i in $(seq 11); do curl -i -H 'X-Envoy-Downstream-Service-Cluster: cart' localhost:8080/products; done
//	# all 200, within a minute
//	for i in $(seq 6); do curl -i -X POST localhost:8080/login; done   # 429, x-envoy-ratelimited
//	curl localhost:8081/stats   # over_limit: 1 of log-in, and 1 of next, which is in shadow mode
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/stats"
)

// services are the services of the mesh. Take the name from the certificate of the peer if there
// is one: a header is only as true as the network.
var services = map[string]bool{"cart": true, "checkout": true, "web": true}

// source is the service that sends a request. Those that nobody knows count together.
func source(r *http.Request) (string, error) {
	if name := r.Header.Get("X-Envoy-Downstream-Service-Cluster"); services[name] {
		return name, nil
	}
	return "", core.ErrAbsent
}

// denied answers like Envoy.
func denied(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	body := ""
	if o.Verdict() == core.Denied {
		w.Header().Set("X-Envoy-RateLimited", "true")
		for i := range o.Len() {
			if d := o.At(i); d.Rule == "local" && !d.Allowed {
				body = "local_rate_limited"
			}
		}
	}
	w.WriteHeader(o.Status())
	fmt.Fprint(w, body)
}

// show writes how often each rule was asked, and how often a request was over its limit.
func show(counters *stats.Stats) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, rule := range counters.Snapshot().Limiters[0].Rules {
			ok := rule.Count(func(d stats.DecisionCount) bool { return d.Allowed && d.Source.Counted() })
			over := rule.Count(func(d stats.DecisionCount) bool { return !d.Allowed && d.Source.Counted() })
			fmt.Fprintf(w, "ratelimit.%s.ok: %d\nratelimit.%s.over_limit: %d\n", rule.Name, ok, rule.Name, over)
		}
	}
}

func main() {
	p, err := policy.Load(cmp.Or(os.Getenv("POLICY"), "examples/systems/envoy/weir.yaml"), policy.Names[*http.Request]{
		Keys: map[string]func(*http.Request) (string, error){"source": source},
	})
	if err != nil {
		log.Fatal(err)
	}
	counters := stats.New(stats.Options{})
	mesh := counters.Limiter("mesh")
	config := nethttp.Config{
		Rules: p.Rules(), Denied: denied, Observe: stats.Observe[*http.Request](mesh),
		Headers: headers.Options{Formats: []headers.Format{headers.DeltaSeconds}},
	}
	if url := os.Getenv("REDIS_URL"); url != "" {
		backend, err := redisbackend.Open(url, redisbackend.Options{})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		config.Backend = remote.NewStack(backend, remote.Options{})
	}
	limit := nethttp.MustNew(config)
	mesh.Watch(limit)
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "upstream") })
	mux := http.NewServeMux()
	mux.Handle("/", limit.Handler(upstream))

	http.HandleFunc("GET /stats", show(counters)) // for your own people: clients would see who is near a limit
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	operators, failed := net.Listen("tcp", cmp.Or(os.Getenv("ADMIN"), "127.0.0.1:8081"))
	if err := cmp.Or(err, failed); err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	go func() { log.Fatal(http.Serve(operators, nil)) }()
	go policy.Watch(context.Background(), p, limit.Replace, policy.Options{})
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
