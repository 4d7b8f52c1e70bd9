// Go-limiter serves a page behind github.com/sethvargo/go-limiter, which counts in Redis if STORE is set.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/sethvargo/go-redisstore"
)

func main() {
	counts, err := memorystore.New(&memorystore.Config{Tokens: 10, Interval: 2 * time.Second})
	if store := os.Getenv("STORE"); store != "" {
		counts, err = redisstore.New(&redisstore.Config{Tokens: 10, Interval: 2 * time.Second,
			Dial: func() (redis.Conn, error) { return redis.DialURL(store) }})
	}
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.NewMiddleware(counts, func(r *http.Request) (string, error) {
		return r.Header.Get("X-API-Key"), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Hello.\n") })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), limit.Handle(page)))
}
