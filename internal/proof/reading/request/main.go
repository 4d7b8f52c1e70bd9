// Request serves requests of one client, with a limit in memory or, if an address is given, in
// Redis. It prints the calls of one of them: a goroutine and the number of a function a line.
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/weir-go/weir/internal/proof/reading/note"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

func main() {
	config := nethttp.Config{Rules: []nethttp.Rule{{
		Name:  "per-client",
		Limit: limits.SlidingWindow(limits.PerMinute(1000)),
		Key:   keyfuncs.Address(keyfuncs.Peer),
	}}}
	if len(os.Args) > 1 {
		backend, err := redisbackend.Open("redis://"+os.Args[1]+"/0", redisbackend.Options{Budget: time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		config.Backend = backend
	}
	handler := nethttp.MustNew(config).Handler(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	serve := func() {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	for range 20 { // what the first requests learn and load is another story
		serve()
	}
	// The shortest of many has nothing that is due now and then, and nothing because it was late. One
	// that a worker sent is not recorded to its end.
	var usual []note.Entry
	for range 400 {
		note.Record()
		serve()
		calls := note.Stop()
		if isAlone(calls) && (usual == nil || len(calls) < len(usual)) {
			usual = calls
		}
	}
	if usual == nil {
		log.Fatal("each of 400 requests waited for other goroutines")
	}
	for _, e := range usual {
		fmt.Println(e.Goroutine, e.Function)
	}
}

// isAlone reports whether one goroutine made all calls.
func isAlone(calls []note.Entry) bool {
	for _, c := range calls {
		if c.Goroutine != calls[0].Goroutine {
			return false
		}
	}
	return true
}
