// Github limits an API as GitHub does: requests per hour by who asks, and secondary limits of
// points, endpoints, CPU time and requests at once. docs/systems.md says why.
//
//	curl -i localhost:8080/repos/ann/weir/issues   # X-Ratelimit-Limit: 60
//	curl -i -H 'Authorization: Bearer ghp-ann' localhost:8080/repos/ann/weir/issues   # 5000
//	for i in $(seq 61); do curl -s localhost:8080/repos/ann/weir/issues; done
//	# in the end API rate limit exceeded: with -i, 403
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
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

var users = map[string]string{"": "", "ghp-ann": "ann", "ghe-acme": "acme"} // by the tokens that were given out

var hourlyOf = map[string]limits.Limit{ // by user
	"":     limits.AnchoredWindow(limits.PerHour(60)), // anonymous: by address
	"ann":  limits.AnchoredWindow(limits.PerHour(5_000)),
	"acme": limits.AnchoredWindow(limits.PerHour(15_000)), // enterprise
}

// token returns what follows "Bearer" or "token".
func token(r *http.Request) string {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token
}
func user(r *http.Request) (string, error)         { return users[token(r)], nil }
func hourly(r *http.Request) (limits.Limit, error) { return hourlyOf[users[token(r)]], nil }

// points are what a request counts in the secondary limits: changes are more work.
func points(r *http.Request) int64 {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return 1
	}
	return 5
}

// denied answers a denial by an hourly limit with 403 and without Retry-After, which marks the
// secondary limits: libraries tell them apart by that and by the message.
func denied(w http.ResponseWriter, r *http.Request, o core.Outcome) {
	messages := map[core.Verdict]string{
		core.Denied:      "You have exceeded a secondary rate limit.",
		core.Unavailable: "Service unavailable.",
	}
	message, status := messages[o.Verdict()], o.Status()
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.Rule == "core" && o.Verdict() == core.Denied {
			message, status = "API rate limit exceeded. X-RateLimit-Reset says when it starts anew.", http.StatusForbidden
			w.Header().Del("Retry-After")
		}
	}
	answer(w, status, message)
}

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "{\"message\":%q}\n", message)
}

// work takes ms milliseconds. Its time stands for the CPU time that it has used.
func work(w http.ResponseWriter, r *http.Request) {
	defer func(start time.Time) { nethttp.Spend(r.Context(), "cpu", time.Since(start).Milliseconds()) }(time.Now())
	ms, _ := strconv.Atoi(r.URL.Query().Get("ms"))
	select {
	case <-time.After(time.Duration(min(max(ms, 0), 60_000)) * time.Millisecond):
		answer(w, http.StatusOK, "done")
	case <-r.Context().Done():
	}
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/repos/{owner}/{repo}/issues", work)
	mux.HandleFunc("/users/{user}", work)
	client := keyfuncs.First(user, keyfuncs.Address(keyfuncs.Peer)) // behind a proxy: keyfuncs.MustTrustedProxies
	config := nethttp.Config{Denied: denied, Rules: []nethttp.Rule{
		{Name: "core", Key: client, LimitFor: hourly},
		{Name: "points", Key: client, Limit: limits.SlidingWindow(limits.PerMinute(900)), Cost: points},
		{
			Name:  "endpoint",
			Key:   keyfuncs.Join(client, keyfuncs.MuxPattern(mux)),
			Limit: limits.SlidingWindow(limits.PerMinute(300)),
		},
		{Name: "concurrent", Key: client, Limit: limits.Concurrent(100)},
		{Name: "cpu", Key: client, Limit: limits.SlidingWindow(limits.Per(90_000, time.Minute)), FinalCost: core.SpentCost},
	}}
	config.Headers = headers.Options{
		Formats: []headers.Format{headers.GitHub},
		Hidden:  []string{"points", "endpoint", "concurrent", "cpu"},
	}
	if url := os.Getenv("REDIS_URL"); url != "" {
		backend, err := redisbackend.Open(url, redisbackend.Options{Prefix: "github"})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		config.Backend = remote.NewStack(backend, remote.Options{})
	}
	limited := nethttp.MustNew(config).Handler(mux)
	authenticated := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := users[token(r)]; !ok || token(r) == "" && r.Header.Get("Authorization") != "" {
			answer(w, http.StatusUnauthorized, "Bad credentials")
			return
		}
		limited.ServeHTTP(w, r)
	})

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	log.Fatal((&http.Server{Handler: authenticated, ReadTimeout: 10 * time.Second}).Serve(listener))
}
