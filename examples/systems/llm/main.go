// LLM is a gateway in front of a language model. Each tenant has limits on requests and tokens per
// minute, on money per month, and on concurrent streams. docs/systems.md explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/llm
//	$ curl -iN -H 'Authorization: Bearer k-pro' localhost:8080/v1/chat/completions \
//	    -d '{"model":"echo","max_tokens":40,"messages":[{"content":"to be"}],"pause_ms":100}'
//	HTTP/1.1 200 OK
//	Content-Type: text/event-stream
//	Ratelimit: "requests";r=599;t=60, "tokens";r=99880;t=60, "budget";r=999997600;...
//	data: {"choices":[{"delta":{"content":"to "}}],"usage":null}
//	data: {"choices":[{"delta":{"content":"be "}}],"usage":null}
//	data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":2}}
//	$ curl -s -H 'Authorization: Bearer k-pro' localhost:8080/rate_limit
//	{"resources":{"requests":{"limit":600,"used":1,"remaining":599,...
//	$ for i in $(seq 5); do
//	    curl -s -o /dev/null -w '%{http_code}\n' -H 'Authorization: Bearer k-trial' \
//	      -d '{"model":"echo","max_tokens":400,"messages":[{"content":"a"}],"pause_ms":1000}' \
//	      localhost:8080/v1/chat/completions &
//	  done | sort | uniq -c
//	      2 200
//	      3 429
//
// Two of five run at once, since each may use 478 of 1,000 tokens. Unused tokens return. The model
// is a part of this program, unless $UPSTREAM is the URL of another one; $UPSTREAM_KEY is its key.
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
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/tokens"
)

// meter knows each model that tenants may ask for, and its price in millionths of a dollar.
var meter = tokens.MustNew(tokens.Config{
	Prices: map[string]tokens.Price{"echo": {Input: 20_000_000, Output: 20_000_000}},
	Count:  func(body []byte) int64 { return int64(len(body)) }, // a token has at least one byte
	Output: 1000,                                                // the most that the model writes
})

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
		tokens:   limits.SlidingWindow(limits.PerMinute(1000)),
		budget:   limits.Calendar(150_000, limits.Month.From(31)),
	},
	"k-pro": {
		name:     "pro",
		requests: limits.SlidingWindow(limits.PerMinute(600)),
		tokens:   limits.SlidingWindow(limits.PerMinute(100_000)),
		budget:   limits.Calendar(1_000_000_000, limits.Month.From(15)),
	},
}

// rules are decided together: a denial by one takes nothing from the others.
var rules = []nethttp.Rule{
	{
		Name: "requests", Key: byTenant,
		LimitFor: of(func(t tenant) limits.Limit { return t.requests }),
	},
	tokens.ByCount(nethttp.Rule{
		Name: "tokens", Key: byTenant,
		LimitFor: of(func(t tenant) limits.Limit { return t.tokens }),
	}),
	tokens.ByPrice(nethttp.Rule{
		Name: "budget", Key: byTenant,
		LimitFor: of(func(t tenant) limits.Limit { return t.budget }),
	}),
	{Name: "streams", Key: byTenant, Limit: limits.Concurrent(8)},
}

func byTenant(r *http.Request) (string, error) { return tenantOf(r).name, nil }

// of returns the LimitFor that is a limit of the tenant.
func of(limit func(tenant) limits.Limit) func(*http.Request, string) (limits.Limit, error) {
	return func(r *http.Request, _ string) (limits.Limit, error) { return limit(tenantOf(r)), nil }
}

type tenantKey struct{}

func tenantOf(r *http.Request) tenant { return r.Context().Value(tenantKey{}).(tenant) }

// identified rejects requests without a known key, before their bodies are read.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		tenant, known := tenants[key]
		if !isBearer || !known {
			// SDKs show the message of JSON alone.
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"type":"authentication_error","message":"unknown API key"}}`)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, tenant)))
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
	defer closeBackend() // runs after the last stream
	limiter, err := nethttp.New(nethttp.Config{Rules: rules, Backend: backend})
	if err != nil {
		return err
	}
	model, err := openModel()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions",
		identified(meter.Handler(tokens.ChatCompletions, limiter.Handler, patient(model))))
	mux.Handle("GET /rate_limit", identified(limiter.Quota()))
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

// openModel returns a proxy to the model.
func openModel() (http.Handler, error) {
	at := os.Getenv("UPSTREAM")
	if at == "" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		fake := &http.Server{
			Handler: http.HandlerFunc(echo), ReadTimeout: 10 * time.Second,
			WriteTimeout: 10 * time.Minute, IdleTimeout: 2 * time.Minute,
		}
		go fake.Serve(listener) // until the program ends
		at = "http://" + listener.Addr().String()
	}
	target, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("UPSTREAM: %w", err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		// not that of the tenant
		r.Out.Header.Set("Authorization", "Bearer "+os.Getenv("UPSTREAM_KEY"))
	}}, nil
}

// patient ends an answer if the client does not read for ten seconds: it holds a stream and tokens.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := patientWriter{w}
		next.ServeHTTP(p, r)
		p.extend() // for the end
	})
}

type patientWriter struct{ http.ResponseWriter }

func (p patientWriter) extend() {
	http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(10 * time.Second))
}

func (p patientWriter) Write(b []byte) (int, error) {
	p.extend()
	return p.ResponseWriter.Write(b)
}

func (p patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter } // for Flush

// echo stands for a model. It repeats the words of the first message, and each is a token.
func echo(w http.ResponseWriter, r *http.Request) {
	call := struct {
		Messages  [1]struct{ Content string }
		MaxTokens int           `json:"max_tokens"`
		Pause     time.Duration `json:"pause_ms"` // after each token, in this example
	}{MaxTokens: 1000}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	prompt := strings.Fields(call.Messages[0].Content)
	answer := prompt[:min(len(prompt), call.MaxTokens, 1000)]
	for _, word := range answer {
		fmt.Fprintf(w, `data: {"choices":[{"delta":{"content":%q}}],"usage":null}`+"\n\n", word+" ")
		http.NewResponseController(w).Flush()
		select {
		case <-time.After(call.Pause * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprintf(w, `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`+
		"\n\ndata: [DONE]\n\n", len(prompt), len(answer))
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
		WriteTimeout: time.Minute,      // until the first token; patient allows 10 s for each
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
