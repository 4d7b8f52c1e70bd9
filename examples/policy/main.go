// Policy takes its limits from a file and applies it again when it changes: edit
// examples/policy/weir.yaml while the program runs.
//
//	curl -i -H 'X-API-Key: k-alice' localhost:8080/
//	curl -i -H 'X-API-Key: k-carol' localhost:8080/reports/7
//	curl -i -d 'user=ann&password=guess' localhost:8080/login
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

// customers are those to whom API keys were given out.
var customers = map[string]struct{ name, plan string }{
	"k-alice": {"alice", "pro"}, "k-bob": {"bob", "free"}, "k-carol": {"carol", "free"},
}

// names are the functions that the file may use.
var names = policy.Names[*http.Request]{
	Keys:  map[string]func(*http.Request) (string, error){"customer": customer},
	Plans: map[string]func(*http.Request) (string, error){"plan": plan},
	Costs: map[string]func(*http.Request) int64{"kilobytes": kilobytes},
}

// customer returns who sends a request, core.ErrAbsent if its API key is not known.
func customer(r *http.Request) (string, error) {
	if c, ok := customers[r.Header.Get("X-API-Key")]; ok {
		return c.name, nil
	}
	return "", core.ErrAbsent
}

// plan returns the plan of a customer; others have none, which is the default limit.
func plan(r *http.Request) (string, error) { return customers[r.Header.Get("X-API-Key")].plan, nil }

// mostKilobytes bounds an upload.
const mostKilobytes = 10_000

// kilobytes returns the size of an upload, the largest if the client does not announce it.
func kilobytes(r *http.Request) int64 {
	if r.ContentLength < 0 || r.ContentLength > mostKilobytes*1000 {
		return mostKilobytes
	}
	return (r.ContentLength + 999) / 1000
}

func main() {
	p, err := policy.Load(cmp.Or(os.Getenv("POLICY"), "examples/policy/weir.yaml"), names)
	if err != nil {
		log.Fatal(err)
	}
	limit, err := nethttp.New(nethttp.Config{Rules: p.Rules()})
	if err != nil {
		log.Fatal(err)
	}
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, text) }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", answer("Hello, here is your answer."))
	mux.HandleFunc("GET /healthz", answer("ok"))
	mux.HandleFunc("GET /reports/{id}", answer("The report has one page."))
	mux.Handle("POST /upload", http.MaxBytesHandler(answer("Stored."), mostKilobytes*1000))
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "wrong user name or password", http.StatusUnauthorized)
	})
	mux.HandleFunc("POST /chat", func(w http.ResponseWriter, r *http.Request) {
		nethttp.Spend(r.Context(), "tokens", 250)
		fmt.Fprintln(w, "It depends.")
	})

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	go policy.Watch(context.Background(), p, limit.Replace, policy.Options{}) // logs what it applies and what it refuses
	server := &http.Server{Handler: limit.Handler(mux), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
