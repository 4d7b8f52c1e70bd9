// Github limits an API as GitHub does: requests and GraphQL points per hour for each client, and
// secondary limits of points, endpoints, CPU time and concurrent requests. docs/systems.md
// explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/github
//	$ curl -i localhost:8080/repos/ann/weir/issues
//	HTTP/1.1 200 OK
//	X-Ratelimit-Limit: 60
//	X-Ratelimit-Remaining: 59
//	$ curl -i -H 'Authorization: Bearer ghp-ann' localhost:8080/repos/ann/weir/issues
//	HTTP/1.1 200 OK
//	X-Ratelimit-Limit: 5000
//	X-Ratelimit-Remaining: 4999
//	$ curl -s -o /dev/null -w '%{http_code}\n' \
//	    'localhost:8080/repos/ann/weir/issues?[1-60]' | uniq -c
//	     59 200
//	      1 403
//	$ curl -i localhost:8080/repos/ann/weir/issues
//	HTTP/1.1 403 Forbidden
//	X-Ratelimit-Remaining: 0
//	{"message":"API rate limit exceeded. X-RateLimit-Reset says when it starts anew."}
//
// $REDIS_URL sets a Redis for the counts.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// users are the owners of issued tokens.
var users = map[string]string{
	"ghp-ann":  "ann",
	"ghe-acme": "acme",
}

// The windows start with the first request of a client.
var (
	anonymousHour  = limits.AnchoredWindow(limits.PerHour(60))
	userHour       = limits.AnchoredWindow(limits.PerHour(5_000))
	enterpriseHour = limits.AnchoredWindow(limits.PerHour(15_000))
)

// client counts by the user of a token, otherwise by address. Behind a proxy, use
// keyfuncs.MustTrustedProxies.
var client = keyfuncs.First(user, keyfuncs.Address(keyfuncs.Peer))

// rules returns the hourly limit and the secondary ones.
func rules(mux *http.ServeMux) []nethttp.Rule {
	return []nethttp.Rule{{
		Name:     "core",
		Key:      core.When(isREST, client),
		LimitFor: hour,
	}, {
		Name:      "graphql", // points by nodes, which are known when the query has run
		Key:       core.When(isGraphQL, client),
		Limit:     limits.AnchoredWindow(limits.PerHour(5_000)),
		FinalCost: core.SpentCost,
	}, {
		Name:   "points",
		Key:    client,
		Limit:  limits.SlidingWindow(limits.PerMinute(900)),
		Cost:   points,
		Hidden: true,
	}, {
		Name:   "endpoint",
		Key:    keyfuncs.Join(client, keyfuncs.MuxPattern(mux)),
		Limit:  limits.SlidingWindow(limits.PerMinute(300)),
		Hidden: true,
	}, {
		Name:   "concurrent",
		Key:    client,
		Limit:  limits.Concurrent(100),
		Hidden: true,
	}, {
		Name:      "cpu", // 90 seconds a minute, in milliseconds
		Key:       client,
		Limit:     limits.SlidingWindow(limits.PerMinute(90_000)),
		FinalCost: core.SpentCost,
		Hidden:    true,
	}}
}

// fields describe the hourly limit, even on a denial by a secondary limit: these are hidden.
var fields = headers.Options{Formats: []headers.Format{headers.GitHub}}

// token returns the text after "Bearer" or "token".
func token(r *http.Request) string {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token
}

// user returns "", which means no key, for a request without a token.
func user(r *http.Request) (string, error) { return users[token(r)], nil }

func hour(r *http.Request, _ string) (limits.Limit, error) {
	switch users[token(r)] {
	case "":
		return anonymousHour, nil
	case "acme":
		return enterpriseHour, nil
	}
	return userHour, nil
}

func isGraphQL(r *http.Request) bool { return r.URL.Path == "/graphql" }

func isREST(r *http.Request) bool { return !isGraphQL(r) }

// points returns the units of a request in the secondary limits: changes are more work.
func points(r *http.Request) int64 {
	if isGraphQL(r) {
		if text, _ := r.Context().Value(queryKey{}).(string); strings.Contains(text, "mutation") {
			return 5 // or a query with that word in it
		}
		return 1
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "QUERY": // a GET with a body
		return 1
	}
	return 5
}

// queryKey is the key of a GraphQL query in the context of its request.
type queryKey struct{}

// readQuery reads a GraphQL query once, before the limiter looks at it.
func readQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isGraphQL(r) {
			next.ServeHTTP(w, r)
			return
		}
		var call struct {
			Query string `json:"query"`
		}
		if json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&call) != nil {
			answer(w, http.StatusBadRequest, "Problems parsing JSON")
			return
		}
		ctx := context.WithValue(r.Context(), queryKey{}, call.Query)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
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
	mux := http.NewServeMux()
	mux.HandleFunc("/repos/{owner}/{repo}/issues", work)
	mux.HandleFunc("/users/{user}", work)
	mux.HandleFunc("POST /graphql", graphQL)
	limiter, err := nethttp.New(nethttp.Config{
		Rules:   rules(mux),
		Backend: backend,
		Headers: fields,
		Denied:  denied,
	})
	if err != nil {
		return err
	}
	return serve(ctx, authenticated(readQuery(limiter.Handler(mux))))
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "github"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// authenticated rejects unknown credentials. Requests without credentials are anonymous.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, known := users[token(r)]
		if r.Header.Get("Authorization") != "" && !known {
			answer(w, http.StatusUnauthorized, "Bad credentials")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// work takes ms milliseconds, which stand for its CPU time.
func work(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	defer func() { nethttp.Spend(r.Context(), "cpu", time.Since(begun).Milliseconds()) }()
	ms, _ := strconv.Atoi(r.URL.Query().Get("ms")) // 0 if missing
	select {
	case <-time.After(time.Duration(min(max(ms, 0), 60_000)) * time.Millisecond):
		answer(w, http.StatusOK, "done")
	case <-r.Context().Done(): // the client has left
	}
}

// graphQL stands for an API of GraphQL. Its parameter nodes is the number of nodes that the query
// asks for: a point for each hundred, and at least one.
func graphQL(w http.ResponseWriter, r *http.Request) {
	nodes, _ := strconv.ParseInt(r.URL.Query().Get("nodes"), 10, 64)
	nethttp.Spend(r.Context(), "graphql", max(1, min(nodes, 500_000)/100))
	answer(w, http.StatusOK, "done")
}

// denied answers a denial by an hourly limit with 403 and without Retry-After. Only secondary
// limits have Retry-After: libraries distinguish them by that and by the message.
func denied(w http.ResponseWriter, r *http.Request, outcome core.Outcome) {
	switch {
	case outcome.Verdict() != core.Denied:
		answer(w, outcome.Status(), "Service unavailable.")
	case hourIsOver(outcome):
		w.Header().Del("Retry-After")
		answer(w, http.StatusForbidden,
			"API rate limit exceeded. X-RateLimit-Reset says when it starts anew.")
	default:
		answer(w, outcome.Status(), "You have exceeded a secondary rate limit.")
	}
}

// hourIsOver reports whether the hourly limit denied, alone or with others.
func hourIsOver(outcome core.Outcome) bool {
	for i := range outcome.Len() {
		decision := outcome.At(i)
		hourly := decision.Rule() == "core" || decision.Rule() == "graphql"
		if hourly && !decision.Allowed {
			return true
		}
	}
	return false
}

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
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
		WriteTimeout: 90 * time.Second, // work may take sixty of them
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
