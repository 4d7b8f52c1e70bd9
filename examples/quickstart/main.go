// Quickstart limits every client address to 10 requests a minute.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/quickstart
//	$ curl -i localhost:8080
//	HTTP/1.1 200 OK
//	Ratelimit: "per-address";r=9;t=54
//	Ratelimit-Policy: "per-address";q=10;w=60
//	Hello, here is your answer.
//	$ curl -s -o /dev/null -w '%{http_code}\n' 'localhost:8080/?[1-10]' | uniq -c
//	      9 200
//	      1 429
//	$ curl -i localhost:8080
//	HTTP/1.1 429 Too Many Requests
//	Retry-After: ...
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// Behind a proxy: keyfuncs.MustTrustedProxies.
var limiter = nethttp.MustPerAddress(limits.PerMinute(10), keyfuncs.Peer)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", hello)
	if err := serve(limiter.Handler(mux)); err != nil {
		log.Fatal(err)
	}
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "Hello, here is your answer.")
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
