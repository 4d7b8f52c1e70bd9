// Telemetry is a gate in front of a collector of OTLP and of Sentry's events. All waits that it
// tells are seconds, and a denial of Sentry's transactions does not stop errors. docs/systems.md
// explains why.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/systems/telemetry
//	$ printf '{}\n{"type":"transaction"}\n{}' >/tmp/transaction
//	$ printf '{}\n{"type":"event"}\n{}' >/tmp/error
//	$ for i in $(seq 30); do
//	    curl -s -o /dev/null --data-binary @/tmp/transaction \
//	      localhost:8080/api/1/envelope/?sentry_key=one
//	  done
//	$ curl -i --data-binary @/tmp/transaction localhost:8080/api/1/envelope/?sentry_key=one
//	HTTP/1.1 429 Too Many Requests
//	Retry-After: 2
//	X-Sentry-Rate-Limits: 2:transaction:key
//	$ curl -i --data-binary @/tmp/error localhost:8080/api/1/envelope/?sentry_key=one
//	HTTP/1.1 200 OK
//	$ curl -i --json '{"resourceSpans":[]}' localhost:8080/v1/traces
//	HTTP/1.1 200 OK
//
// The collector is a part of this program, unless $UPSTREAM is the URL of another one. $REDIS_URL
// sets a Redis for the counts.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// longest is the longest wait that OTLP is told. SDKs drop a batch that would wait for longer than
// ten seconds. Without the field they come back by themselves; Sentry's stop for a minute.
const longest = 5 * time.Second

// batches are requests of OTLP. An SDK sends one in five seconds. An empty bucket has a unit again
// after a second.
var batches = []nethttp.Rule{{
	Name:  "batches",
	Limit: limits.TokenBucket(limits.PerSecond(1), 20),
	Key:   keyfuncs.Address(keyfuncs.Peer),
}}

// events has a rule for each category of Sentry. The name of a rule is that of the category.
var events = []nethttp.Rule{
	ofCategory("error", limits.TokenBucket(limits.PerSecond(10), 100)),
	ofCategory("transaction", limits.TokenBucket(limits.Per(1, 2*time.Second), 20)),
}

// ofCategory returns a rule that counts the items of a category.
func ofCategory(name string, limit limits.Limit) nethttp.Rule {
	count := func(r *http.Request) int64 { return envelopeOf(r).items[name] }
	isOf := func(r *http.Request) bool { return count(r) > 0 }
	return nethttp.Rule{Name: name, Limit: limit, Key: core.When(isOf, byProject), Cost: count}
}

func byProject(r *http.Request) (string, error) { return envelopeOf(r).project, nil }

// nameCategory has Sentry's SDKs stop the categories that were denied. By Retry-After alone they
// stop all.
func nameCategory(h http.Header, o core.Outcome) {
	seconds := h.Get("Retry-After")
	if o.Allowed() || seconds == "" {
		return
	}
	var denied []string
	for i := range o.Len() {
		if rule := o.At(i); rule.Source.Counted() && !rule.Allowed {
			denied = append(denied, rule.Rule())
		}
	}
	h.Set("X-Sentry-Rate-Limits", seconds+":"+strings.Join(denied, ";")+":key")
}

// projects are known by the key of their DSN.
var projects = map[string]string{"one": "1", "two": "2"}

type envelope struct {
	project string
	items   map[string]int64 // by category
}

type envelopeKey struct{}

func envelopeOf(r *http.Request) envelope { return r.Context().Value(envelopeKey{}).(envelope) }

// opened finds project and items of an envelope, and rejects those of unknown projects.
func opened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		project := projects[dsnKey(r)]
		if project == "" || project != r.PathValue("project") {
			http.Error(w, "unknown project", http.StatusForbidden)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "the envelope is too large, or did not arrive", http.StatusBadRequest)
			return
		}
		items, err := itemsOf(body, r.Header.Get("Content-Encoding"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		ctx := context.WithValue(r.Context(), envelopeKey{}, envelope{project, items})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// dsnKey returns the key that a client sends, in X-Sentry-Auth or in the query.
func dsnKey(r *http.Request) string {
	fields := strings.TrimPrefix(r.Header.Get("X-Sentry-Auth"), "Sentry ")
	for field := range strings.SplitSeq(fields, ",") {
		if key, found := strings.CutPrefix(strings.TrimSpace(field), "sentry_key="); found {
			return key
		}
	}
	return r.URL.Query().Get("sentry_key")
}

// itemsOf counts the items of an envelope by category: all of them, since a client could put one of
// another category before a thousand. Other items than transactions count as errors.
func itemsOf(body []byte, encoding string) (map[string]int64, error) {
	packed := bytes.NewReader(body)
	switch encoding {
	case "":
		return countItems(packed)
	case "gzip":
		unpacked, err := gzip.NewReader(packed)
		if err != nil {
			return nil, errors.New("the envelope is not gzip")
		}
		return countItems(http.MaxBytesReader(nil, unpacked, 16<<20))
	}
	return nil, errors.New("the envelope must be in gzip, or not compressed")
}

// countItems reads the line of an envelope, and a line and the payload of each item.
func countItems(r io.Reader) (map[string]int64, error) {
	lines, items := bufio.NewReaderSize(r, 64<<10), make(map[string]int64)
	_, err := lines.ReadSlice('\n')
	for err == nil {
		var line []byte
		if line, err = lines.ReadSlice('\n'); len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		category, length, wrong := readItem(line)
		if wrong != nil {
			return nil, wrong
		}
		items[category]++
		if err == nil {
			err = skipPayload(lines, length)
		}
	}
	if err != io.EOF || len(items) == 0 {
		return nil, errors.New("the envelope has no items, or they cannot be read")
	}
	return items, nil
}

// readItem returns the category of an item, and the length of its payload: nil if that is a line.
func readItem(line []byte) (category string, length *int, err error) {
	var fields map[string]json.RawMessage // a struct would take "Type" for "type"
	if json.Unmarshal(line, &fields) != nil || json.Unmarshal(fields["type"], &category) != nil {
		return "", nil, errors.New("the envelope has an item without a type")
	}
	if text, found := fields["length"]; found && json.Unmarshal(text, &length) != nil {
		return "", nil, errors.New("the length of an item is no number")
	}
	if category != "transaction" {
		category = "error"
	}
	return category, length, nil
}

func skipPayload(lines *bufio.Reader, length *int) error {
	if length == nil {
		for {
			if _, err := lines.ReadSlice('\n'); err != bufio.ErrBufferFull {
				return err
			}
		}
	}
	if _, err := lines.Discard(*length); err != nil {
		return errors.New("the payload of an item is shorter than its length")
	}
	rest, err := lines.ReadSlice('\n')
	if len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("the payload of an item is longer than its length")
	}
	return err
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
	otlp, err := nethttp.New(nethttp.Config{
		Rules: batches, Backend: backend,
		Headers: headers.Options{MaxRetryAfter: longest},
	})
	if err != nil {
		return err
	}
	sentry, err := nethttp.New(nethttp.Config{
		Rules: events, Backend: backend,
		Headers: headers.Options{Custom: nameCategory},
	})
	if err != nil {
		return err
	}
	collector, err := openCollector()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for _, path := range []string{"POST /v1/traces", "POST /v1/metrics", "POST /v1/logs"} {
		mux.Handle(path, otlp.Handler(collector))
	}
	mux.Handle("POST /api/{project}/envelope/", opened(sentry.Handler(collector)))
	return serve(ctx, mux)
}

// openBackend returns memory, or the Redis at $REDIS_URL, and a function that closes it.
func openBackend() (backend backends.Backend, closeBackend func() error, err error) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return memory.MustNew(memory.Options{}), func() error { return nil }, nil
	}
	redis, err := redisbackend.Open(url, redisbackend.Options{Prefix: "telemetry"})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return redis, redis.Close, nil
}

// openCollector returns a proxy to $UPSTREAM, or what stands for a collector.
func openCollector() (http.Handler, error) {
	at := os.Getenv("UPSTREAM")
	if at == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}\n")
		}), nil
	}
	target, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("UPSTREAM: %w", err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}, nil
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
		ReadTimeout:  10 * time.Second, // otherwise a slow body holds memory
		WriteTimeout: 30 * time.Second,
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
