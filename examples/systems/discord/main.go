// Discord limits an API as Discord does: buckets of routes and channels, 50 requests a second over
// everything, and a ban for addresses with 10,000 invalid requests. docs/systems.md explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/discord
//	$ curl -i -X POST -H 'Authorization: Bot b-ann' localhost:8080/channels/1/messages
//	HTTP/1.1 200 OK
//	X-Ratelimit-Bucket: messages
//	X-Ratelimit-Limit: 5
//	X-Ratelimit-Remaining: 4
//	$ curl -s -o /dev/null -w '%{http_code}\n' -X POST -H 'Authorization: Bot b-ann' \
//	    'localhost:8080/channels/1/messages?[1-5]' | uniq -c
//	      4 200
//	      1 429
//	$ curl -i -X PATCH -H 'Authorization: Bot b-ann' localhost:8080/channels/1/messages/7
//	HTTP/1.1 429 Too Many Requests
//	Retry-After: 5
//	X-Ratelimit-Bucket: messages
//	X-Ratelimit-Scope: user
//	{"message":"You are being rate limited.","retry_after":4...,"global":false}
//	$ curl -i localhost:8080/channels/1/messages
//	HTTP/1.1 401 Unauthorized
//
// Editing a message takes from the same bucket as posting one. The 401 counts for the ban.
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

// bots are the owners of issued tokens.
var bots = map[string]string{
	"Bot b-ann": "ann",
	"Bot b-bob": "bob",
}

// bucket is a limit that related routes share.
type bucket struct {
	name   string
	routes []string
	limit  limits.Limit
	key    func(*http.Request) (string, error)
	shared bool // all bots share it
}

// The windows of buckets start with the first request of a key.
var buckets = []bucket{{
	name: "messages",
	routes: []string{
		"POST /channels/{channel}/messages",
		"PATCH /channels/{channel}/messages/{message}",
	},
	limit: limits.AnchoredWindow(limits.Per(5, 5*time.Second)),
	key:   botAndChannel,
}, {
	name: "reads",
	routes: []string{
		"GET /channels/{channel}",
		"GET /channels/{channel}/messages",
	},
	limit: limits.AnchoredWindow(limits.PerSecond(100)),
	key:   botAndChannel,
}, {
	name:   "emojis",
	routes: []string{"POST /guilds/{guild}/emojis"},
	limit:  limits.AnchoredWindow(limits.PerMinute(3)),
	key:    id("guild"),
	shared: true,
}}

// global is a rule of every bucket's limiter. Rules of one name on one backend count together.
var global = nethttp.Rule{
	Name:   "global",
	Limit:  limits.SlidingWindow(limits.PerSecond(50)),
	Key:    bot,
	Hidden: true, // the fields describe the bucket
}

// ban counts answers, so its limiter wraps all others.
var ban = nethttp.Rule{
	Name:      "invalid",
	Limit:     limits.Ban(limits.Per(10_000, 10*time.Minute), time.Hour),
	Key:       keyfuncs.Address(keyfuncs.Peer), // behind a proxy: keyfuncs.MustTrustedProxies
	Cost:      nothing,
	FinalCost: invalid,
}

func bot(r *http.Request) (string, error) { return bots[r.Header.Get("Authorization")], nil }

// botAndChannel counts by bot and channel, a major parameter: all messages of a channel share a
// bucket.
var botAndChannel = keyfuncs.Join(bot, id("channel"))

// id returns a number in the path: 01 shares the bucket of 1, and all texts that are not numbers
// share a bucket.
func id(name string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		n, err := strconv.ParseUint(r.PathValue(name), 10, 64)
		if err != nil {
			return "0", nil
		}
		return strconv.FormatUint(n, 10), nil
	}
}

// nothing returns the cost of a running request: it is not invalid yet.
func nothing(*http.Request) int64 { return 0 }

// invalid returns the units of a request for the ban. For some denials, denied has already set 0.
func invalid(result core.Result) int64 {
	if result.Spent == 0 {
		return 0
	}
	switch result.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return 1
	}
	return 0
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
	for _, b := range buckets {
		limiter, err := b.limiter(backend)
		if err != nil {
			return err
		}
		handler := authenticated(limiter.Handler(http.HandlerFunc(api)))
		for _, route := range b.routes {
			mux.Handle(route, handler)
		}
	}
	banning, err := nethttp.New(nethttp.Config{
		Rules:   []nethttp.Rule{ban},
		Backend: backend,
		Headers: headers.Options{Show: headers.Omit},
	})
	if err != nil {
		return err
	}
	return serve(ctx, banning.Handler(mux))
}

// limiter returns the limiter around the handlers of a bucket's routes. It decides bucket and
// global limit in one step, and shows only the bucket in header fields.
func (b bucket) limiter(backend backends.Backend) (*nethttp.Limiter, error) {
	fields := headers.Options{Formats: []headers.Format{headers.Discord}}
	if b.shared {
		fields.DiscordScopes = map[string]headers.DiscordScope{b.name: headers.DiscordShared}
	}
	return nethttp.New(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: b.name, Limit: b.limit, Key: b.key},
			global,
		},
		Backend: backend,
		Headers: fields,
		Denied:  denied,
	})
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it. All
// limiters share one backend, for the global limit.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "discord"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// authenticated rejects requests without a known bot token.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, known := bots[r.Header.Get("Authorization")]; !known {
			http.Error(w, `{"message":"401: Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func api(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintln(w, "{}")
}

// denial is the body of a denial.
type denial struct {
	Message    string  `json:"message"`
	RetryAfter float64 `json:"retry_after"` // in seconds
	Global     bool    `json:"global"`
}

func denied(w http.ResponseWriter, r *http.Request, outcome core.Outcome) {
	isGlobal := deniedByGlobal(outcome)
	switch {
	case isGlobal:
		w.Header().Set("X-RateLimit-Global", "true")
		w.Header().Set("X-RateLimit-Scope", "global")
	case w.Header().Get("X-RateLimit-Scope") == "shared":
		nethttp.Spend(r.Context(), ban.Name, 0) // other bots used up the bucket
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(outcome.Status())
	json.NewEncoder(w).Encode(denial{
		Message:    "You are being rate limited.",
		RetryAfter: outcome.Turn().Seconds(),
		Global:     isGlobal,
	})
}

func deniedByGlobal(outcome core.Outcome) bool {
	for i := range outcome.Len() {
		decision := outcome.At(i)
		if decision.Rule() == global.Name && !decision.Allowed && decision.Source.Counted() {
			return true
		}
	}
	return false
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
