// Shed is a small API over a pool of 20 workers that need 50 ms for a request, so it can serve 400
// requests a second. It sheds the rest, the least important requests first: those in test mode,
// then reads, then writes.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/shed
//	$ curl -i -X POST localhost:8080/charges
//	HTTP/1.1 200 OK
//	Done.
//	$ curl --no-progress-meter -Z --parallel-immediate --parallel-max 300 -o /dev/null \
//	    -w '%{http_code}\n' -H 'X-Mode: test' 'localhost:8080/charges?[1-300]' | sort | uniq -c
//	... 200
//	... 503
//	$ curl -i -X POST localhost:8080/charges
//	HTTP/1.1 200 OK
//
// It can make its own load, and then prints a line a second:
//
//	go run ./examples/shed -load 1200
//
// "shed reads 571 of 708" means that 708 reads came and 571 of them were shed. The limit is the one
// for writes: reads may fill half of it, test mode 30%. The limit is therefore well above 20, and
// fewer requests are in flight.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/weir/shed"
)

const (
	workers  = 20
	workTime = 50 * time.Millisecond
	slo      = 300 * time.Millisecond // a good answer for clients
)

// The classes, the most important first.
const (
	writes = iota
	reads
	tests
)

var shedder = shed.MustNew(shed.Options[*http.Request]{
	SLO: slo,
	Classes: []shed.Class{
		writes: {Name: "writes"},
		reads:  {Name: "reads"},
		tests:  {Name: "tests"},
	},
	Classify: classify,
	Exempt:   isHealthCheck,
})

// classify returns the class of a request. A client may lower its own class, but not raise it.
func classify(r *http.Request) int {
	switch {
	case r.Header.Get("X-Mode") == "test":
		return tests
	case r.Method == http.MethodPost:
		return writes
	}
	return reads
}

func isHealthCheck(r *http.Request) bool { return r.URL.Path == "/healthz" }

func main() {
	load := flag.Int("load", 0, "requests a second that the program sends to itself")
	flag.Parse()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /charges", charge)
	mux.HandleFunc("POST /charges", charge)
	mux.HandleFunc("GET /healthz", health)
	if err := serve(shed.Handler(shedder, mux), *load); err != nil {
		log.Fatal(err)
	}
}

// pool has a place for each request in progress.
var pool = make(chan struct{}, workers)

// charge waits for a worker, and then for its work.
func charge(w http.ResponseWriter, r *http.Request) {
	pool <- struct{}{}
	time.Sleep(workTime)
	<-pool
	fmt.Fprintln(w, "Done.")
}

func health(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Well.") }

// serve answers on $ADDR, or on port 8080 if it is not set, until it is interrupted. Then requests
// in flight have ten seconds. It sends itself requests if load is not 0.
func serve(handler http.Handler, load int) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	if load > 0 {
		go generate(load, "http://"+listener.Addr().String()+"/charges")
		go report()
	}
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
