// Apigateway limits an API as Amazon API Gateway does: its account, its stages, its methods, and
// the usage plan of each API key, all from weir.yaml. docs/systems.md explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/apigateway
//	$ curl -i -H 'X-API-Key: k-basic' localhost:8080/prod/pets
//	HTTP/1.1 200 OK
//	Ratelimit-Policy: "account";q=5000;w=1, ... "plan-rate";q=20;w=2, "plan-quota";q=1000;...
//	{"pets":[]}
//	$ curl -s -o /dev/null -w '%{http_code}\n' -H 'X-API-Key: k-basic' \
//	    'localhost:8080/prod/pets?[1-30]' | sort | uniq -c
//	... 200
//	... 429
//	$ curl -i -H 'X-API-Key: k-gold' -d '{}' localhost:8080/prod/orders
//	HTTP/1.1 200 OK
//	Ratelimit-Policy: "account";q=5000;w=1, ... "method-orders";q=100;w=1, ...
//	$ curl -i localhost:8080/prod/pets
//	HTTP/1.1 403 Forbidden
//	X-Amzn-Errortype: ForbiddenException
//
// $POLICY sets another file, and $REDIS_URL a Redis for the counts.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/redisbackend"
)

type apiKey struct{ owner, plan string }

// apiKeys are the issued keys.
var apiKeys = map[string]apiKey{
	"k-basic": {owner: "ann", plan: "basic"},
	"k-gold":  {owner: "bob", plan: "gold"},
}

// names are functions for the file.
var names = policy.Names[*http.Request]{
	Keys:  map[string]func(*http.Request) (string, error){"api-key-owner": owner},
	Plans: map[string]func(*http.Request) (string, error){"usage-plan": plan},
}

// routes are the methods with limits in the file.
var routes = []string{
	"GET /prod/pets", "GET /test/pets",
	"GET /prod/orders", "POST /prod/orders",
}

func owner(r *http.Request) (string, error) {
	return apiKeys[r.Header.Get("X-API-Key")].owner, nil
}

func plan(r *http.Request) (string, error) {
	return apiKeys[r.Header.Get("X-API-Key")].plan, nil
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
	path := cmp.Or(os.Getenv("POLICY"), "examples/systems/apigateway/weir.yaml")
	file, err := policy.Load(path, names)
	if err != nil {
		return err
	}
	limiter, err := nethttp.New(nethttp.Config{
		Rules:   file.Rules(),
		Backend: backend,
		Denied:  denied,
	})
	if err != nil {
		return err
	}
	go policy.Watch(ctx, file, limiter.Replace, policy.Options{}) // logs every change of the file

	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route, api)
	}
	mux.HandleFunc("/", notFound)
	return serve(ctx, withKey(limiter.Handler(mux)))
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it. All
// requests share the key of the account: with leases, most are decided here, without a call to
// Redis.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Lease: time.Second})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// withKey rejects requests without a known API key before they reach the limiter.
func withKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, known := apiKeys[r.Header.Get("X-API-Key")]; !known {
			fail(w, http.StatusForbidden, "ForbiddenException", "Forbidden")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func api(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintln(w, `{"pets":[]}`)
}

// notFound answers requests that the file has no limit for.
func notFound(w http.ResponseWriter, r *http.Request) {
	fail(w, http.StatusForbidden, "MissingAuthenticationTokenException",
		"Missing Authentication Token")
}

// denied answers like API Gateway, with Retry-After and RateLimit in addition. Quotas and rates
// have different texts.
func denied(w http.ResponseWriter, r *http.Request, outcome core.Outcome) {
	switch {
	case outcome.Verdict() != core.Denied:
		fail(w, outcome.Status(), "ServiceUnavailableException", "Service Unavailable")
	case bindingRule(outcome) == "plan-quota":
		fail(w, outcome.Status(), "LimitExceededException", "Limit Exceeded")
	default:
		fail(w, outcome.Status(), "TooManyRequestsException", "Too Many Requests")
	}
}

// bindingRule returns the name of the binding rule: the one that denied with the longest wait.
func bindingRule(outcome core.Outcome) string {
	i := outcome.BindingRule()
	if i < 0 {
		return ""
	}
	return outcome.At(i).Rule()
}

func fail(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-ErrorType", kind)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"message": message})
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
