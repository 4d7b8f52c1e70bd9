// Chi limits a small API with chi: every client to 60 requests a minute, and some
// routes to less. The examples for the other frameworks answer in the same way.
package main

import (
	"cmp"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// client counts by the address at the other end of the connection. Behind a proxy,
// use keyfuncs.MustTrustedProxies or a similar function.
var client = keyfuncs.Address(keyfuncs.Peer)

// caller counts by an API key that we have issued, or else by client.
var caller = keyfuncs.First(
	keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1", "k2")),
	client,
)

// limited returns false for health checks, which must always be answered.
func limited(r *http.Request) bool { return r.URL.Path != "/healthz" }

// limiter returns a limiter with one rule.
func limiter(rule chimw.Rule) *chimw.Limiter {
	return chimw.MustNew(chimw.Config{Rules: []chimw.Rule{rule}})
}

func main() {
	perClient := limiter(chimw.Rule{
		Name:  "per-client",
		Limit: limits.SlidingWindow(limits.PerMinute(60)),
		Key:   core.When(limited, client),
	})
	login := limiter(chimw.Rule{Name: "login", Limit: limits.SlidingLog(limits.PerMinute(5)), Key: client})
	search := limiter(chimw.Rule{Name: "search", Limit: limits.TokenBucket(limits.PerSecond(10), 20), Key: caller})
	users := limiter(chimw.Rule{
		Name:  "users",
		Limit: limits.SlidingWindow(limits.PerMinute(30)),
		Key:   keyfuncs.Join(chimw.RoutePattern, client),
	})

	r := chi.NewRouter()
	r.Use(perClient.Handler) // requests for missing pages count too
	r.Get("/healthz", text("ok"))
	r.Head("/healthz", text("ok"))
	r.With(login.Handler).Post("/login", text("Welcome."))
	r.With(search.Handler).Get("/search", text("Nothing found."))
	r.With(users.Handler).Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) {
		text("User "+chi.URLParam(r, "id")+".")(w, r)
	})
	serve(r)
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte(s + "\n"))
	}
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
