// Envoy limits requests like a proxy of a service mesh: by a token bucket of this process, then by
// descriptors that all processes share, some of them in shadow mode. The limits are in weir.yaml.
// docs/systems.md explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/envoy
//	$ curl -s -o /dev/null -w '%{http_code}\n' -H 'X-Envoy-Downstream-Service-Cluster: cart' \
//	    'localhost:8080/products?[1-11]' | uniq -c
//	     11 200
//	$ curl -s -o /dev/null -w '%{http_code}\n' -X POST 'localhost:8080/login?[1-6]' | uniq -c
//	      5 200
//	      1 429
//	$ curl -i -X POST localhost:8080/login
//	HTTP/1.1 429 Too Many Requests
//	X-Envoy-Ratelimited: true
//	X-Ratelimit-Limit: 5
//	X-Ratelimit-Remaining: 0
//	$ curl -s localhost:8081/stats
//	ratelimit.log-in.ok: 5
//	ratelimit.log-in.over_limit: 2
//	ratelimit.next.over_limit: 1
//
// The rule next is in shadow mode: it would have denied the eleventh request. $POLICY sets another
// file, and $REDIS_URL a Redis for the counts.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/stats"
)

// services are the services of the mesh.
var services = map[string]bool{"cart": true, "checkout": true, "web": true}

// names are functions for the file.
var names = policy.Names[*http.Request]{
	Keys: map[string]func(*http.Request) (string, error){"source": source},
}

// source returns the service that sends a request. Unknown services count together. A header is
// only as trustworthy as the network: take the name from the certificate of the peer if there is
// one.
func source(r *http.Request) (string, error) {
	name := r.Header.Get("X-Envoy-Downstream-Service-Cluster")
	if !services[name] {
		return "", core.ErrAbsent
	}
	return name, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	backend, closeBackend, err := openBackend()
	if err != nil {
		return err
	}
	defer closeBackend() // runs after the last request
	path := cmp.Or(os.Getenv("POLICY"), "examples/systems/envoy/weir.yaml")
	file, err := policy.Load(path, names)
	if err != nil {
		return err
	}
	counters := stats.New(stats.Options{})
	mesh := counters.Limiter("mesh")
	limiter, err := nethttp.New(nethttp.Config{
		Rules:    file.Rules(),
		Backend:  backend,
		Headers:  headers.Options{Formats: []headers.Format{headers.DeltaSeconds}},
		Denied:   denied,
		Observer: mesh,
	})
	if err != nil {
		return err
	}
	go policy.Watch(ctx, file, limiter.Replace, policy.Options{}) // logs every change of the file

	api := http.NewServeMux()
	api.Handle("/", limiter.Handler(http.HandlerFunc(upstream)))
	operators := http.NewServeMux() // for operators only: clients would see who is near a limit
	operators.Handle("GET /stats", statsPage{counters})
	return serve(ctx, api, local(operators))
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

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

func upstream(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "upstream") }

// denied answers like Envoy.
func denied(w http.ResponseWriter, r *http.Request, outcome core.Outcome) {
	if outcome.Verdict() == core.Denied {
		w.Header().Set("X-Envoy-RateLimited", "true")
	}
	w.WriteHeader(outcome.Status())
	if deniedLocally(outcome) {
		io.WriteString(w, "local_rate_limited")
	}
}

// deniedLocally reports whether the token bucket of this process denied.
func deniedLocally(outcome core.Outcome) bool {
	if outcome.Verdict() != core.Denied {
		return false
	}
	for i := range outcome.Len() {
		decision := outcome.At(i)
		if decision.Rule() == "local" && !decision.Allowed {
			return true
		}
	}
	return false
}

// statsPage lists the decisions and denials of each rule, with the names of Envoy's counters.
type statsPage struct{ counters *stats.Stats }

func (p statsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, limiter := range p.counters.Snapshot().Limiters {
		for _, rule := range limiter.Rules {
			fmt.Fprintf(w, "ratelimit.%s.ok: %d\n", rule.Name, rule.Count(isOK))
			fmt.Fprintf(w, "ratelimit.%s.over_limit: %d\n", rule.Name, rule.Count(isOverLimit))
		}
	}
}

func isOK(c stats.DecisionCount) bool { return c.Source.Counted() && c.Allowed }

func isOverLimit(c stats.DecisionCount) bool { return c.Source.Counted() && !c.Allowed }

// serve answers clients on $ADDR, or on port 8080 if it is not set, and operators on $ADMIN, or on
// port 8081 of this machine alone, until ctx ends. Then requests in flight have ten seconds.
func serve(ctx context.Context, api, operators http.Handler) error {
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
		ReadTimeout:  10 * time.Second, // otherwise a slow body holds the units of its request
		WriteTimeout: 20 * time.Second, // or an answer that the client does not read
		IdleTimeout:  2 * time.Minute,
	}
}
