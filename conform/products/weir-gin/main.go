// Weir-gin serves a page of gin behind weir, which counts in Redis if STORE is set.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

func main() {
	config := ginmw.Config{Rules: []ginmw.Rule{{
		Name:  "per-client",
		Limit: limits.TokenBucket(limits.Per(10, 2*time.Second), 10),
		Key:   ginmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("127.0.0.0/8"))),
	}}}
	if store := os.Getenv("STORE"); store != "" {
		backend, err := redisbackend.Open(store, redisbackend.Options{Prefix: "conform", Budget: time.Second})
		if err != nil {
			log.Fatal(err)
		}
		config.Backend = backend
	}
	limiter, err := ginmw.New(config)
	if err != nil {
		log.Fatal(err)
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(limiter.Handler())
	r.Any("/", func(c *gin.Context) { c.String(http.StatusOK, "Hello.\n") })
	log.Fatal(r.Run("127.0.0.1:" + os.Getenv("PORT")))
}
