// Chi limits a small API with chi: every client to 60 requests a minute, and
// some routes further. A test compares its answers with those of the examples for
// the other frameworks: status, content and header fields, also for pages that do
// not exist, methods that no route takes and paths with escapes.
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

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/redisbackend"
)

// client is who is counted: the address at the other end of the connection.
// Behind a proxy, use keyfuncs.MustTrustedProxies or another of its kind.
var client = keyfuncs.Address(keyfuncs.Peer)

// caller is an API key that we have given out, or else the client.
var caller = keyfuncs.First(
	keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.Secrets("k1", "k2")),
	client,
)

// limited is false of health checks, which must always be answered.
func limited(r *http.Request) bool { return r.URL.Path != "/healthz" }

// limiter returns a limiter of one rule.
func limiter(state core.Backend, rule chimw.Rule) *chimw.Limiter {
	return chimw.MustNew(chimw.Config{Rules: []chimw.Rule{rule}, Backend: state})
}

func main() {
	state := backend()
	perClient := limiter(state, chimw.Rule{Name: "per-client", Limit: core.SlidingWindow(core.PerMinute(60)), Key: core.When(limited, client)})
	login := limiter(state, chimw.Rule{Name: "login", Limit: core.SlidingLog(core.PerMinute(5)), Key: client})
	search := limiter(state, chimw.Rule{Name: "search", Limit: core.TokenBucket(core.PerSecond(10), 20), Key: caller})
	users := limiter(state, chimw.Rule{Name: "users", Limit: core.SlidingWindow(core.PerMinute(30)), Key: keyfuncs.Join(chimw.RoutePattern, client)})

	r := chi.NewRouter()
	r.Use(perClient.Handler) // pages that do not exist count as well
	health := func(w http.ResponseWriter, _ *http.Request) { text(w, "ok\n") }
	r.Get("/healthz", health)
	r.Head("/healthz", health)
	r.With(login.Handler).Post("/login", func(w http.ResponseWriter, _ *http.Request) {
		text(w, "Welcome.\n")
	})
	r.With(search.Handler).Get("/search", func(w http.ResponseWriter, _ *http.Request) {
		text(w, "Nothing found.\n")
	})
	r.With(users.Handler).Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) {
		text(w, fmt.Sprintf("User %s.\n", chi.URLParam(r, "id")))
	})
	serve(r)
}

func text(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte(s))
}

// backend keeps the state of all limiters: in Redis, which all instances share,
// if REDIS_URL is set, and otherwise in this process. While Redis is away, each
// instance limits by itself. The scopes of the rules, which are their names, keep
// them apart.
func backend() core.Backend {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return core.NewMemory(core.MemoryOptions{})
	}
	b, err := redisbackend.Open(url, redisbackend.Options{Prefix: "example"})
	if err != nil {
		log.Fatalf("REDIS_URL: %v", err)
	}
	logging.Disable() // go-redis would log every attempt, the breaker logs changes
	return breaker.NewStack(b, breaker.Options{})
}

// serve answers on $ADDR until the process is interrupted, then lets the
// requests under way finish.
func serve(handler http.Handler) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()

	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
