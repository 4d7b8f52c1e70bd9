// LLM is a gateway in front of a language model. Each tenant has limits on requests and tokens per
// minute, on concurrent streams, and on money per month. docs/systems.md explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/llm
//	$ curl -iN -H 'Authorization: Bearer k-pro' localhost:8080/v1/completions \
//	    -d '{"prompt":"to be or not to be","max_tokens":4,"pause_ms":100}'
//	HTTP/1.1 200 OK
//	Content-Type: text/event-stream
//	data: "to"
//	data: "be"
//	data: "or"
//	data: "not"
//	$ for i in $(seq 5); do
//	    curl -s -o /dev/null -w '%{http_code}\n' -H 'Authorization: Bearer k-trial' \
//	      -d '{"prompt":"hello","max_tokens":30,"pause_ms":1000}' localhost:8080/v1/completions &
//	  done | sort | uniq -c
//	      2 200
//	      3 429
//
// Two of five run at once, since each may use 35 of 100 tokens. Unused tokens return. $REDIS_URL
// sets a Redis for the counts.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// price of a token, in millionths of a dollar.
const price = 20

type tenant struct {
	name     string
	requests limits.Limit
	tokens   limits.Limit
	budget   limits.Limit // in millionths of a dollar, for months from the day of the contract
}

// tenants are known by their API keys.
var tenants = map[string]tenant{
	"k-trial": {
		name:     "trial",
		requests: limits.SlidingWindow(limits.PerMinute(10)),
		tokens:   limits.SlidingWindow(limits.PerMinute(100)),
		budget:   limits.Calendar(150_000, limits.Month.From(31)),
	},
	"k-pro": {
		name:     "pro",
		requests: limits.SlidingWindow(limits.PerMinute(600)),
		tokens:   limits.SlidingWindow(limits.PerMinute(100_000)),
		budget:   limits.Calendar(1_000_000_000, limits.Month.From(15)),
	},
}

// rules are decided together: a denial by one takes nothing from the others. A request is charged
// the most that it may use, and at its end what it used.
var rules = []nethttp.Rule{{
	Name: "requests",
	Key:  tenantName,
	LimitFor: func(r *http.Request, _ string) (limits.Limit, error) {
		return callOf(r).tenant.requests, nil
	},
}, {
	Name: "tokens",
	Key:  tenantName,
	LimitFor: func(r *http.Request, _ string) (limits.Limit, error) {
		return callOf(r).tenant.tokens, nil
	},
	Cost:      mostTokens,
	FinalCost: core.SpentCost,
}, {
	Name: "budget",
	Key:  tenantName,
	LimitFor: func(r *http.Request, _ string) (limits.Limit, error) {
		return callOf(r).tenant.budget, nil
	},
	Cost:      mostPrice,
	FinalCost: core.SpentCost,
}, {
	Name:  "streams",
	Key:   tenantName,
	Limit: limits.Concurrent(8),
}}

func tenantName(r *http.Request) (string, error) { return callOf(r).tenant.name, nil }

// mostTokens returns an upper bound: a token has at least one byte.
func mostTokens(r *http.Request) int64 {
	call := callOf(r)
	return int64(len(call.Prompt)) + call.MaxTokens
}

func mostPrice(r *http.Request) int64 { return price * mostTokens(r) }

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
	defer closeBackend() // runs after the last stream
	limiter, err := nethttp.New(nethttp.Config{Rules: rules, Backend: backend})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/completions", readCall(limiter.Handler(http.HandlerFunc(complete))))
	return serve(ctx, mux)
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "llm"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// call is the content of a request.
type call struct {
	tenant    tenant
	Prompt    string `json:"prompt"`
	MaxTokens int64  `json:"max_tokens"`
	PauseMS   int64  `json:"pause_ms"` // after each token, in this example
}

// callKey is the key of a call in the context of its request.
type callKey struct{}

// callOf returns the call that readCall stored.
func callOf(r *http.Request) call { return r.Context().Value(callKey{}).(call) }

// readCall reads a request once, before the limiter. It rejects requests without a known key.
func readCall(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		tenant, known := tenants[key]
		if !isBearer || !known {
			http.Error(w, "unknown API key", http.StatusUnauthorized)
			return
		}
		parsed := call{tenant: tenant, MaxTokens: 16}
		if err := parsed.read(http.MaxBytesReader(w, r.Body, 1<<20)); err != nil {
			http.Error(w, "invalid request: "+err.Error(), http.StatusBadRequest)
			return
		}
		ctx := context.WithValue(r.Context(), callKey{}, parsed)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (c *call) read(body io.Reader) error {
	if err := json.NewDecoder(body).Decode(c); err != nil {
		return errors.New("the body must be JSON of at most a megabyte")
	}
	if c.MaxTokens < 1 || c.MaxTokens > 100_000 {
		return errors.New("max_tokens must be from 1 to 100000")
	}
	if c.PauseMS < 0 || c.PauseMS > 60_000 {
		return errors.New("pause_ms must be from 0 to 60000")
	}
	return nil
}

// complete stands for a model, and repeats the prompt. A client that leaves pays for the tokens
// sent until then.
func complete(w http.ResponseWriter, r *http.Request) {
	call := callOf(r)
	words := strings.Fields(call.Prompt)
	used := int64(len(words))
	defer func() {
		nethttp.Spend(r.Context(), "tokens", used)
		nethttp.Spend(r.Context(), "budget", used*price)
	}()

	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range words[:min(int(call.MaxTokens), len(words))] {
		if err := send(w, word); err != nil {
			return
		}
		used++
		select {
		case <-time.After(time.Duration(call.PauseMS) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second)) // for the end
}

// send sends a token. It ends the stream if the client does not read for ten seconds.
func send(w http.ResponseWriter, token string) error {
	stream := http.NewResponseController(w)
	if err := stream.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	fmt.Fprintf(w, "data: %q\n\n", token)
	if err := stream.Flush(); err != nil {
		return err
	}
	return stream.SetWriteDeadline(time.Time{}) // until the next token
}

// serve answers on $ADDR, or on port 8080 if it is not set, until ctx ends. Then streams have a
// minute to end, so that unused tokens return.
func serve(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{
		Handler:      handler,
		ReadTimeout:  10 * time.Second, // otherwise a slow body holds the units of its request
		WriteTimeout: 20 * time.Second, // until the first token; send allows ten for each token
		IdleTimeout:  2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return server.Shutdown(ctx)
}
