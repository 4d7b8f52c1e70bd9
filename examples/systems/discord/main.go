// Discord limits an API as Discord does: buckets of routes and channels, 50 requests a second over
// everything, and a ban for addresses with 10,000 invalid requests. docs/systems.md says why.
//
//	for i in $(seq 6); do curl -i -X POST -H 'Authorization: Bot b-ann' localhost:8080/channels/1/messages; done
//	# the sixth: 429
//	curl -i -X PATCH -H 'Authorization: Bot b-ann' localhost:8080/channels/1/messages/7   # 429: the same bucket
//	curl -i localhost:8080/channels/1/messages   # 401, which counts for the ban
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

var bots = map[string]string{"Bot b-ann": "ann", "Bot b-bob": "bob"} // by the tokens that were given out

func bot(r *http.Request) (string, error) { return bots[r.Header.Get("Authorization")], nil }

// id is a number in the path: 01 has the bucket of 1, and what is no number has one bucket for all.
func id(name string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		n, _ := strconv.ParseUint(r.PathValue(name), 10, 64)
		return strconv.FormatUint(n, 10), nil
	}
}

var perChannel = keyfuncs.Join(bot, id("channel")) // a major parameter: other ids share the bucket

// buckets are limits of related routes. Windows start with the first request of a key.
var buckets = []struct {
	name, scope string
	limit       limits.Limit
	key         func(*http.Request) (string, error)
	routes      []string
}{
	{"messages", "user", limits.AnchoredWindow(limits.Per(5, 5*time.Second)), perChannel,
		[]string{"POST /channels/{channel}/messages", "PATCH /channels/{channel}/messages/{message}"}},
	{
		"reads", "user", limits.AnchoredWindow(limits.Per(100, time.Second)), perChannel,
		[]string{"GET /channels/{channel}", "GET /channels/{channel}/messages"},
	},
	{ // by all bots
		"emojis", "shared", limits.AnchoredWindow(limits.Per(3, time.Minute)), id("guild"),
		[]string{"POST /guilds/{guild}/emojis"},
	},
}

// invalid is what a request counts for the ban. Of some denials denied says that it is nothing.
func invalid(result core.Result) int64 {
	if s := result.Status; result.Spent != 0 && (s == 401 || s == 403 || s == 429) {
		return 1
	}
	return 0
}

func denied(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	global := false
	for i := range o.Len() {
		d := o.At(i)
		global = global || d.Rule == "global" && d.Source.Counted() && !d.Allowed
	}
	if global {
		w.Header().Set("X-RateLimit-Global", "true")
		w.Header().Set("X-RateLimit-Scope", "global")
	} else if w.Header().Get("X-RateLimit-Scope") == "shared" {
		nethttp.Spend(r.Context(), "invalid", 0) // others have used up the bucket
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(o.Status())
	const body = "{\"message\":\"You are being rate limited.\",\"retry_after\":%.3f,\"global\":%t}\n"
	fmt.Fprintf(w, body, o.RetryAfter().Seconds(), global)
}

func main() {
	var backend limits.Backend = memory.New(memory.Options{}) // of all limiters, for the global limit
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "discord"})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		backend = remote.NewStack(redis, remote.Options{})
	}
	mux := http.NewServeMux()
	for _, b := range buckets {
		config := nethttp.Config{Backend: backend, Denied: denied, Rules: []nethttp.Rule{
			{Name: b.name, Limit: b.limit, Key: b.key},
			{Name: "global", Limit: limits.SlidingWindow(limits.PerSecond(50)), Key: bot},
		}}
		config.Headers = headers.Options{Formats: []headers.Format{headers.Discord}, Hidden: []string{"global"}}
		if b.scope == "shared" {
			config.Headers.DiscordShared = []string{b.name}
		}
		answer := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "{}") }
		limited := nethttp.MustNew(config).Handler(http.HandlerFunc(answer))
		for _, route := range b.routes {
			mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
				if name, _ := bot(r); name == "" {
					http.Error(w, `{"message":"401: Unauthorized"}`, http.StatusUnauthorized)
					return
				}
				limited.ServeHTTP(w, r)
			})
		}
	}
	never := headers.Options{Show: headers.Omit}
	ban := nethttp.MustNew(nethttp.Config{Backend: backend, Headers: never, Rules: []nethttp.Rule{{
		Name:  "invalid",
		Limit: limits.Ban(limits.Per(10_000, 10*time.Minute), time.Hour),
		Key:   keyfuncs.Address(keyfuncs.Peer), // behind a proxy: keyfuncs.MustTrustedProxies
		Cost:  func(*http.Request) int64 { return 0 }, FinalCost: invalid,
	}}})

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	log.Fatal((&http.Server{Handler: ban.Handler(mux), ReadTimeout: 10 * time.Second}).Serve(listener))
}
