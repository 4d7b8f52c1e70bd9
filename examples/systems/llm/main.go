// LLM is a gateway in front of a language model: requests and tokens per minute, streams at
// once, and a budget per day, for each tenant. docs/systems.md says why.
//
//	curl -iN -H 'Authorization: Bearer k-pro' localhost:8080/v1/completions \
//	  -d '{"prompt":"to be or not to be","max_tokens":4,"pause_ms":500}'
//	# 4 words, one each half a second
//	for i in 1 2 3 4 5; do
//	  curl -s -H 'Authorization: Bearer k-trial' localhost:8080/v1/completions \
//	    -d '{"prompt":"hello","max_tokens":30,"pause_ms":1000}' &
//	done; wait
//	# two of five: each may use 35 tokens
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
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

type tenant struct {
	name                     string
	requests, tokens, budget limits.Limit // the budget in millionths of a dollar, by days of UTC
}

var tenants = map[string]tenant{ // by their keys
	"Bearer k-trial": {
		"trial",
		limits.SlidingWindow(limits.PerMinute(10)), limits.SlidingWindow(limits.PerMinute(100)), limits.FixedWindow(limits.PerDay(5_000)),
	},
	"Bearer k-pro": {
		"pro",
		limits.SlidingWindow(limits.PerMinute(600)), limits.SlidingWindow(limits.PerMinute(100_000)),
		limits.FixedWindow(limits.PerDay(50_000_000)),
	},
}

const price = 20 // of a token, in millionths of a dollar

type call struct { // a request that has been read
	tenant    tenant
	Prompt    string
	MaxTokens int64 `json:"max_tokens"`
	PauseMS   int64 `json:"pause_ms"` // after each token, in this example
}

func of(r *http.Request) call                  { return r.Context().Value(call{}).(call) } // put there by read
func tenantOf(r *http.Request) (string, error) { return of(r).tenant.name, nil }

// mostTokens is never too low: a token has a byte.
func mostTokens(r *http.Request) int64               { return int64(len(of(r).Prompt)) + of(r).MaxTokens }
func mostPrice(r *http.Request) int64                { return price * mostTokens(r) }
func requests(r *http.Request) (limits.Limit, error) { return of(r).tenant.requests, nil }
func tokens(r *http.Request) (limits.Limit, error)   { return of(r).tenant.tokens, nil }
func budget(r *http.Request) (limits.Limit, error)   { return of(r).tenant.budget, nil }

func read(next http.Handler) http.Handler { // once, before the limiter looks at a request
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, known := tenants[r.Header.Get("Authorization")]
		if !known {
			http.Error(w, "unknown API key", http.StatusUnauthorized)
			return
		}
		c := call{tenant: t, MaxTokens: 16}
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&c)
		if err != nil || c.MaxTokens < 1 || c.MaxTokens > 100_000 || c.PauseMS < 0 || c.PauseMS > 60_000 {
			http.Error(w, "invalid request", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), call{}, c)))
	})
}

// complete is a model that repeats the prompt. Who leaves pays for what was made.
func complete(w http.ResponseWriter, r *http.Request) {
	stream, words := http.NewResponseController(w), strings.Fields(of(r).Prompt)
	used := int64(len(words))
	defer func() { nethttp.Spend(r.Context(), "tokens", used) }()
	defer func() { nethttp.Spend(r.Context(), "budget", used*price) }()
	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range words[:min(int(of(r).MaxTokens), len(words))] {
		stream.SetWriteDeadline(time.Now().Add(10 * time.Second)) // who does not read holds a stream
		fmt.Fprintf(w, "data: %q\n\n", word)
		used++
		stream.Flush()
		stream.SetWriteDeadline(time.Time{})
		select {
		case <-r.Context().Done():
			return
		case <-time.After(time.Duration(of(r).PauseMS) * time.Millisecond):
		}
	}
}

func main() {
	config := nethttp.Config{Rules: []nethttp.Rule{
		{Name: "requests", Key: tenantOf, LimitFor: requests},
		{Name: "tokens", Key: tenantOf, LimitFor: tokens, Cost: mostTokens, FinalCost: core.SpentCost},
		{Name: "budget", Key: tenantOf, LimitFor: budget, Cost: mostPrice, FinalCost: core.SpentCost},
		{Name: "streams", Key: tenantOf, Limit: limits.Concurrent(8)},
	}}
	if url := os.Getenv("REDIS_URL"); url != "" {
		backend, err := redisbackend.Open(url, redisbackend.Options{Prefix: "llm"})
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err)
		}
		defer backend.Close()
		config.Backend = remote.NewStack(backend, remote.Options{})
	}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/completions", read(nethttp.MustNew(config).Handler(http.HandlerFunc(complete))))
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	go func() { log.Print(server.Serve(listener)) }()
	stop, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	<-stop.Done() // then streams end, and what they have not used returns
	server.Shutdown(context.Background())
}
