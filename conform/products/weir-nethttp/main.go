// Weir-nethttp serves a page of net/http behind weir, which counts in Redis if STORE is set.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

func main() {
	config := nethttp.Config{Rules: []nethttp.Rule{{
		Name:  "per-key",
		Limit: limits.SlidingWindow(limits.Per(10, 2*time.Second)),
		Key:   keyfuncs.APIKey("X-API-Key"),
	}}}
	if store := os.Getenv("STORE"); store != "" {
		backend, err := redisbackend.Open(store, redisbackend.Options{Prefix: "conform", Budget: time.Second})
		if err != nil {
			log.Fatal(err)
		}
		config.Backend = backend
	}
	limiter, err := nethttp.New(config)
	if err != nil {
		log.Fatal(err)
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Hello.\n") })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), limiter.Handler(page)))
}
