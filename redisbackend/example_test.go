package redisbackend_test

import (
	"fmt"
	"net/http"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// One limit for all instances of a program, in the Redis that a URL names.
func ExampleOpen() {
	backend, err := redisbackend.Open("redis://localhost:6379/0", redisbackend.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	limit, err := nethttp.New(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: core.TokenBucket(core.PerMinute(100), 20),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
		Backend:   breaker.NewStack(backend, breaker.Options{}),
		Instances: 4,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = limit.Handler(http.NotFoundHandler())

	_, err = redisbackend.Open("redis://:secret@localhost/database", redisbackend.Options{})
	fmt.Println(err)
	// Output:
	// redisbackend: Open: the URL is not like redis://user:password@host:6379/0, rediss://host:6379 or unix:///path/to/redis.sock
}
