//go:build !386 && !arm && !mips && !mipsle

// The constraint is that of testrun.MiniredisWorks.

package redisbackend_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/stats"
)

// One limit for all instances of a program, in the Redis that a URL names.
func ExampleOpen() {
	backend, err := redisbackend.Open("redis://localhost:6379/0", redisbackend.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	limiter, err := nethttp.PerAddress(limits.PerMinute(100), keyfuncs.Peer, backend)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = limiter.Handler(http.NotFoundHandler())

	_, err = redisbackend.Open("redis://:secret@localhost/database", redisbackend.Options{})
	fmt.Println(err)
	// Output:
	// redisbackend: url: is not like redis://user:password@host:6379/0, rediss://host:6379 or unix:///path/to/redis.sock
}

// What one instance denies for a while, all deny without asking. Here two instances in one
// program: the first has seen a client use up its day. Options.Announce does this.
func ExampleOpenAs() {
	access := redisbackend.Access{
		TLS: &tls.Config{RootCAs: x509.NewCertPool()}, // with the authority of your servers
		Credentials: func(context.Context) (user, password string, err error) {
			return "weir", "a token that expires", nil // asked for each new connection
		},
	}
	backend, err := redisbackend.OpenAs("rediss://redis.example:6379", access, redisbackend.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()

	_, err = redisbackend.OpenAs("redis://redis.example:6379", access, redisbackend.Options{})
	fmt.Println(err)
	// Output:
	// redisbackend: Access.TLS is for TLS: write rediss:// in the URL
}

func ExampleMustNewAnnouncer() {
	client, end := miniClient()
	defer end()
	limit := limits.FixedWindow(limits.PerDay(1))
	instance := func() (*redisbackend.Announcer, backends.Backend) {
		announcer := redisbackend.MustNewAnnouncer(client, redisbackend.AnnouncerOptions{})
		backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
		return announcer, remote.MustNewDenialCache(backend, remote.DenialCacheOptions{Announcer: announcer})
	}
	one, here := instance()
	two, there := instance()
	defer one.Close()
	defer two.Close()

	charges, out := []backends.Charge{{Scope: "per-client", Key: "ann", Limit: limit, Cost: 1}}, make([]limits.Decision, 1)
	for range 2 {
		if err := here.Take(context.Background(), charges, out); err != nil {
			fmt.Println(err)
		}
		fmt.Println(out[0].Allowed, out[0].Source)
	}
	if err := there.Take(context.Background(), charges, out); err != nil { // whether it has heard or not
		fmt.Println(err)
	}
	fmt.Println(out[0].Allowed)
	// Output:
	// true primary
	// false primary
	// false
}

// An announcer by the URL that [redisbackend.Open] has, too.
func ExampleOpenAnnouncer() {
	announcer, err := redisbackend.OpenAnnouncer("redis://localhost:6379/0", redisbackend.AnnouncerOptions{PerSecond: 200})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer announcer.Close()
	fmt.Println(announcer.Counts())
	// Output:
	// {0 0 0 0}
}

// Two processes count each other. While Redis is away, the fallback of each admits half of a limit.
func ExampleBackend_Instances() {
	client, end := miniClient()
	defer end()
	one := redisbackend.MustNew(client, redisbackend.Options{Heartbeat: true})
	defer one.Close()
	for one.Instances() == 0 { // the first beat is not answered yet
		time.Sleep(time.Millisecond)
	}
	two := redisbackend.MustNew(client, redisbackend.Options{Heartbeat: true})
	defer two.Close()
	for two.Instances() == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(two.Instances())
	// Output: 2
}

// miniClient returns a client of a Redis in this process, and a function that ends both.
func miniClient() (client *redis.Client, end func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	return client, func() {
		client.Close()
		server.Close()
	}
}

// signUp is one request of a client, under a limit of one a day.
var signUp = []backends.Charge{
	{Scope: "sign-up", Key: "198.51.100.7", Limit: limits.TokenBucket(limits.PerDay(1), 1), Cost: 1},
}

// The caller makes the client, and closes it after the backend.
func ExampleNew() {
	client, end := miniClient()
	defer end()
	backend, err := redisbackend.New(client, redisbackend.Options{Budget: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()

	out := make([]limits.Decision, 1)
	for range 3 {
		if err := backend.Take(context.Background(), signUp, out); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out[0].Allowed, out[0].Source)
	}
	// Output:
	// true primary
	// false primary
	// false denial-cache
}

// A health check says whether Redis decides. It should not be one whose failure restarts the server.
func ExampleBackend_Status() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNew(client, redisbackend.Options{})
	fmt.Println("ready:", backend.Status().State == "closed")
	// Output: ready: true
}

// What this process holds of busy keys.
func ExampleBackend_Leases() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNew(client, redisbackend.Options{Lease: time.Second})
	fmt.Println(backend.Leases().Held, "units held")
	// Output: 0 units held
}

// Limits in memory share the announcements of a backend.
func ExampleBackend_Announcer() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNew(client, redisbackend.Options{Announce: true})
	defer backend.Close()
	floods := remote.MustNewDenialCache(
		memory.MustNew(memory.Options{}), remote.DenialCacheOptions{Announcer: backend.Announcer()},
	)
	_ = floods // the Backend of a limiter
	fmt.Println(backend.Announcer().Counts().Sent)
	// Output: 0
}

// A part that measures goes inside the time budget.
func ExampleOptions_wrap() {
	client, end := miniClient()
	defer end()
	counts := stats.New(stats.Options{})
	backend := redisbackend.MustNew(client, redisbackend.Options{
		Budget: time.Minute,
		Wrap:   func(redis backends.Backend) backends.Backend { return counts.Backend("redis", redis) },
	})
	for range 3 {
		if err := backend.Take(context.Background(), signUp, make([]limits.Decision, 1)); err != nil {
			fmt.Println(err)
		}
	}
	take := counts.Snapshot().Backends[0].Operations[0]
	fmt.Println(take.Succeeded.Count(), "of 3 were asked of Redis")
	// Output: 2 of 3 were asked of Redis
}

// A program may compose what stands in front of Redis itself.
func ExampleNewBare() {
	client, end := miniClient()
	defer end()
	bare, err := redisbackend.NewBare(client, redisbackend.BareOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bare.Close()
	breaker, err := remote.NewBreaker(bare, remote.BreakerOptions{Budget: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(breaker.Take(context.Background(), signUp, make([]limits.Decision, 1)))
	// Output: <nil>
}

// Two applications on one Redis do not share limits if their prefixes differ.
func ExampleOptions() {
	client, end := miniClient()
	defer end()
	for _, prefix := range []string{"shop", "blog"} {
		backend := redisbackend.MustNew(client, redisbackend.Options{Prefix: prefix, Budget: time.Minute})
		out := make([]limits.Decision, 1)
		err := backend.Take(context.Background(), signUp, out)
		fmt.Println(prefix, out[0].Allowed, err)
	}
	// Output:
	// shop true <nil>
	// blog true <nil>
}

// A peek takes nothing.
func ExampleBare_Peek() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	out := make([]limits.Decision, 1)
	for range 2 {
		err := backend.Peek(context.Background(), signUp, out)
		fmt.Println(out[0].Allowed, err)
	}
	// Output:
	// true <nil>
	// true <nil>
}

// Reset makes a key fresh.
func ExampleBare_Reset() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	out := make([]limits.Decision, 1)
	for range 2 {
		if err := backend.Take(context.Background(), signUp, out); err != nil {
			fmt.Println(err)
			return
		}
		if err := backend.Reset(context.Background(), "sign-up", "198.51.100.7"); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out[0].Allowed)
	}
	// Output:
	// true
	// true
}

// A program may start without Redis, and say so.
func ExampleBackend_Check() {
	backend, err := redisbackend.Open("redis://127.0.0.1:1", redisbackend.Options{}) // nothing listens there
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	err = backend.Check(context.Background())
	switch {
	case errors.Is(err, redisbackend.ErrEvicts):
		fmt.Println("limits may be lost when Redis is full")
	case err != nil:
		fmt.Println("the rules decide what happens without Redis")
	}
	// Output:
	// the rules decide what happens without Redis
}

// The error says which setting of the server to change.
func ExampleErrEvicts() {
	fmt.Println(redisbackend.ErrEvicts)
	// Output:
	// the eviction policy drops live state: set maxmemory-policy to noeviction
}

// Decisions fail after Close.
func ExampleBackend_Close() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	backend, err := redisbackend.Open("redis://"+server.Addr(), redisbackend.Options{Budget: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	out := make([]limits.Decision, 1)
	fmt.Println(backend.Take(context.Background(), signUp, out))
	fmt.Println(backend.Close())
	fmt.Println(backend.Take(context.Background(), signUp, out) != nil)
	// Output:
	// <nil>
	// <nil>
	// true
}

// The backend decides all algorithms of this version.
func ExampleBare_Supports() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	fmt.Println(backend.Supports(limits.SlidingLog(limits.PerHour(10))))
	// Output:
	// true
}

// All processes with one Prefix find the same number of a value.
func ExampleBare_Digest() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: "shop-1f6be0c4"})
	fmt.Printf("%016x\n", backend.Digest("login", "203.0.113.7", "ann"))
	// Output: a473134b67a82ff8
}

// A request charges all of its rules in one step, or none.
func ExampleBare_Take() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	request := append(
		[]backends.Charge{{Scope: "per-day", Key: "all", Limit: limits.TokenBucket(limits.PerDay(10), 10), Cost: 1}},
		signUp...)
	out := make([]limits.Decision, len(request))
	for range 2 {
		if err := backend.Take(context.Background(), request, out); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out[0].Allowed, out[0].Remaining, out[1].Allowed, out[1].Remaining)
	}
	// Output:
	// true 9 true 0
	// true 9 false 0
}

// Package remote asks, and calls the backend without a goroutine of its own.
func ExampleBare_HonoursDeadline() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	fmt.Println(backend.HonoursDeadline())
	// Output:
	// true
}

// Units of a concurrency limit are held until they are released.
func ExampleBare_Settle() {
	client, end := miniClient()
	defer end()
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	defer backend.Close()

	limit := limits.Concurrent(1)
	upload := []backends.Charge{{Scope: "uploads", Key: "198.51.100.7", Limit: limit, Cost: 1}}
	first, second := make([]limits.Decision, 1), make([]limits.Decision, 1)
	fmt.Println(backend.Take(context.Background(), upload, first), first[0].Allowed)
	fmt.Println(backend.Take(context.Background(), upload, second), second[0].Allowed)

	endings := []backends.Ending{{Scope: "uploads", Key: "198.51.100.7", Limit: limit, Taken: 1, Ticket: first[0].Ticket}}
	settled := make([]limits.Settlement, 1)
	fmt.Println(backend.Settle(context.Background(), endings, settled), settled[0].Returned)
	fmt.Println(backend.Take(context.Background(), upload, second), second[0].Allowed)
	// Output:
	// <nil> true
	// <nil> false
	// <nil> 1
	// <nil> true
}
