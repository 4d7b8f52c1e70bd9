// Uploads limits what a request shows only at its end: how many uploads run at once, how
// many log-ins fail, how many tokens a model really used.
//
//	curl -X POST -H 'X-API-Key: ann' 'localhost:8080/upload?ms=5000'
//	curl -d 'user=ann&password=wrong' localhost:8080/login
//	curl -i -X POST -H 'X-API-Key: ann' 'localhost:8080/chat?tokens=250'
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

var (
	address = keyfuncs.Address(keyfuncs.Peer) // behind a proxy: keyfuncs.MustTrustedProxies
	client  = keyfuncs.First(keyfuncs.APIKey("X-API-Key"), address)

	// A log-in is charged when it starts, so parallel guesses cannot pass the limit, and
	// has its unit back unless it fails.
	failed = core.OnStatus(func(status int) bool { return status == http.StatusUnauthorized })
)

// user returns the key of the user who wants to log in.
func user(r *http.Request) (string, error) {
	name := strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
	if name == "" {
		return "", core.ErrAbsent
	}
	return keyfuncs.Digest(name), nil
}

func main() {
	backend := backend()
	limit := func(rules ...nethttp.Rule) func(http.HandlerFunc) http.Handler {
		limiter := nethttp.MustNew(nethttp.Config{Rules: rules, Backend: backend})
		return func(next http.HandlerFunc) http.Handler { return limiter.Handler(next) }
	}
	uploads := limit(nethttp.Rule{Name: "uploads", Limit: limits.Concurrent(2), Key: client})
	logins := limit(
		nethttp.Rule{Name: "failures", Limit: limits.SlidingLog(limits.Per(3, 5*time.Minute)), Key: user, FinalCost: failed},
		nethttp.Rule{
			Name:      "ban",
			Limit:     limits.Ban(limits.Per(10, 10*time.Minute), time.Minute),
			Key:       address,
			FinalCost: failed,
		},
	)
	chats := limit(nethttp.Rule{
		Name:      "tokens",
		Limit:     limits.TokenBucket(limits.PerMinute(1000), 1000),
		Key:       client,
		Cost:      func(*http.Request) int64 { return 100 }, // an estimate
		FinalCost: core.SpentCost,
	})

	mux := http.NewServeMux()
	mux.Handle("POST /upload", uploads(upload))
	mux.Handle("POST /login", http.MaxBytesHandler(logins(login), 4096)) // bound the body, since user reads it
	mux.Handle("POST /chat", chats(chat))
	serve(mux)
}

// upload takes ms milliseconds.
func upload(w http.ResponseWriter, r *http.Request) {
	ms, _ := strconv.Atoi(r.FormValue("ms"))
	select {
	case <-time.After(time.Duration(min(max(ms, 0), 60_000)) * time.Millisecond):
		fmt.Fprintln(w, "Stored.")
	case <-r.Context().Done():
	}
}

func login(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("password") != "right" {
		http.Error(w, "wrong user name or password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "Welcome.")
}

// chat uses as many tokens as the client asks for.
func chat(w http.ResponseWriter, r *http.Request) {
	tokens, err := strconv.ParseInt(r.FormValue("tokens"), 10, 64)
	if err != nil || tokens < 0 {
		http.Error(w, "tokens must be a number", http.StatusBadRequest)
		return
	}
	nethttp.Spend(r.Context(), "tokens", tokens)
	fmt.Fprintf(w, "That took %d tokens.\n", tokens)
}

// backend returns the Redis of $REDIS_URL, or nil, which is memory, if it is not set.
func backend() limits.Backend {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return nil
	}
	backend, err := redisbackend.Open(url, redisbackend.Options{Prefix: "example"})
	if err != nil {
		log.Fatalf("REDIS_URL: %v", err)
	}
	return remote.NewStack(backend, remote.Options{})
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
