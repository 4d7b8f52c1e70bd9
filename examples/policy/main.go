// Policy reads its limits from a file and follows the file: edit examples/policy/weir.yaml while
// the program runs.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/policy
//	$ curl -i -H 'X-API-Key: k-alice' localhost:8080
//	HTTP/1.1 200 OK
//	Ratelimit: "per-customer";r=99;t=60
//	Hello, here is your answer.
//	$ curl -s -o /dev/null -w '%{http_code}\n' -H 'X-API-Key: k-bob' \
//	    'localhost:8080/reports/[1-5]' | uniq -c
//	      4 200
//	      1 429
//	$ curl -s -o /dev/null -w '%{http_code}\n' -d 'user=ann&password=guess' \
//	    'localhost:8080/login?[1-11]' | uniq -c
//	     10 401
//	      1 429
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

type customer struct{ name, plan string }

// customers are the owners of issued API keys.
var customers = map[string]customer{
	"k-alice": {name: "alice", plan: "pro"},
	"k-bob":   {name: "bob", plan: "free"},
	"k-carol": {name: "carol", plan: "free"},
}

// names are functions for the file.
var names = policy.Names[*http.Request]{
	Keys:  map[string]func(*http.Request) (string, error){"customer": customerName},
	Plans: map[string]func(*http.Request) (string, error){"plan": customerPlan},
	Costs: map[string]func(*http.Request) int64{"kilobytes": kilobytes},
}

// maxUpload is the largest upload in kilobytes.
const maxUpload = 10_000

// customerName returns the sender of a request, or core.ErrAbsent if its API key is unknown.
func customerName(r *http.Request) (string, error) {
	customer, known := customers[r.Header.Get("X-API-Key")]
	if !known {
		return "", core.ErrAbsent
	}
	return customer.name, nil
}

// customerPlan returns the plan of a customer. Other senders have no plan and get the default
// limit.
func customerPlan(r *http.Request) (string, error) {
	return customers[r.Header.Get("X-API-Key")].plan, nil
}

// kilobytes returns the size of an upload, or maxUpload if the client does not announce it.
func kilobytes(r *http.Request) int64 {
	if r.ContentLength < 0 || r.ContentLength > maxUpload*1000 {
		return maxUpload
	}
	return (r.ContentLength + 999) / 1000
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	file, err := policy.Load(cmp.Or(os.Getenv("POLICY"), "examples/policy/weir.yaml"), names)
	if err != nil {
		return err
	}
	limiter, err := nethttp.New(nethttp.Config{Rules: file.Rules()})
	if err != nil {
		return err
	}
	// Watch logs every change of the file.
	go policy.Watch(context.Background(), file, limiter.Replace, policy.Options{})

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", hello)
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /reports/{id}", report)
	mux.Handle("POST /upload", http.MaxBytesHandler(http.HandlerFunc(upload), maxUpload*1000))
	mux.HandleFunc("POST /login", login)
	mux.HandleFunc("POST /chat", chat)
	sameSite := http.NewCrossOriginProtection().Handler(limiter.Handler(mux))
	return serve(sameSite) // rejects forms of other sites
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "Hello, here is your answer.")
}

func health(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") }

func report(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "The report has one page.") }

func upload(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "the upload is too large", http.StatusRequestEntityTooLarge)
		return
	}
	fmt.Fprintln(w, "Stored.")
}

// login always fails, so that there are failures to count.
func login(w http.ResponseWriter, r *http.Request) {
	http.Error(w, "wrong user name or password", http.StatusUnauthorized)
}

// chat uses 250 tokens.
func chat(w http.ResponseWriter, r *http.Request) {
	nethttp.Spend(r.Context(), "tokens", 250)
	fmt.Fprintln(w, "It depends.")
}

// serve answers on $ADDR, or on port 8080 if it is not set, until it is interrupted. Then requests
// in flight have ten seconds.
func serve(handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{
		Handler:      handler,
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 20 * time.Second, // from the header of a request to the end of the response
		IdleTimeout:  2 * time.Minute,
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
