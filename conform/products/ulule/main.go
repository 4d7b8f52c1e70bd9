// Ulule serves a page behind github.com/ulule/limiter, which counts in Redis if STORE is set.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	redisstore "github.com/ulule/limiter/v3/drivers/store/redis"
)

func main() {
	counts := memory.NewStore()
	if store := os.Getenv("STORE"); store != "" {
		o, err := redis.ParseURL(store)
		if err != nil {
			log.Fatal(err)
		}
		if counts, err = redisstore.NewStore(redis.NewClient(o)); err != nil {
			log.Fatal(err)
		}
	}
	key := stdlib.WithKeyGetter(func(r *http.Request) string { return r.Header.Get("X-API-Key") })
	limit := stdlib.NewMiddleware(limiter.New(counts, limiter.Rate{Limit: 10, Period: 2 * time.Second}), key)
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Hello.\n") })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), limit.Handler(page)))
}
