// Httprate serves a page of chi behind github.com/go-chi/httprate, which counts in Redis if STORE is set.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/redis/go-redis/v9"
)

func main() {
	var options []httprate.Option
	if store := os.Getenv("STORE"); store != "" {
		o, err := redis.ParseURL(store)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, httprateredis.WithRedisLimitCounter(&httprateredis.Config{Client: redis.NewClient(o)}))
	}
	r := chi.NewRouter()
	r.Use(middleware.ClientIPFromXFF("127.0.0.0/8"))
	r.Use(httprate.LimitBy(10, 2*time.Second, func(r *http.Request) (string, error) {
		return httprate.CanonicalizeIP(middleware.GetClientIP(r.Context())), nil
	}, options...))
	r.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Hello.\n") })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), r))
}
