package faults

import (
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

const units = 10 // of limit

// limit gives nothing back while a test runs, and has no window that could end.
var limit = limits.TokenBucket(limits.PerDay(1), units)

// The policies, each a rule and a limiter of its own.
var policies = [...]core.Failure{core.FallBack, core.FailOpen, core.FailClosed}

var scopes = [...]string{"falls back", "fails open", "fails closed"}

// instance is what a process of an application has: limiters in front of the
// recommended stack.
type instance struct {
	kind    string // of client
	id      int
	breaker *breaker.Breaker
	stack   limits.Backend
	limiter [len(policies)]*core.Limiter[string]

	mu      sync.Mutex
	changes []breaker.Change
}

// The kinds of clients. Retries are go-redis's own, and so are timeouts: without
// a budget, "patient" and "pipelined" wait 3 s for a reply, four times.
var kinds = [...]string{"deadlines", "patient", "pipelined"}

// startFleet returns an instance for every kind of client, with the budget that
// is the default.
func startFleet(t testing.TB, addr string, options redis.Options) []*instance {
	t.Helper()
	return startFleetWithin(t, 0, addr, options)
}

// startFleetWithin is startFleet with a budget of its own, for tests in which
// Redis is well and a slow machine must not look like a slow Redis.
func startFleetWithin(t testing.TB, budget time.Duration, addr string, options redis.Options) []*instance {
	t.Helper()
	var fleet []*instance
	for id, kind := range kinds {
		options := options
		options.Addr, options.ContextTimeoutEnabled = addr, kind == "deadlines"
		client := redis.NewClient(&options)
		t.Cleanup(func() { client.Close() })
		var scripter redis.Scripter = client
		if kind == "pipelined" {
			scripter = autoPipeline(t, client)
		}
		fleet = append(fleet, newInstance(id, scripter, budget))
	}
	return fleet
}

// autoPipeline returns the auto-pipeliner of a client, or the client before go-redis
// 9.22, which has none.
func autoPipeline(t testing.TB, client *redis.Client) redis.Scripter {
	t.Helper()
	method := reflect.ValueOf(client).MethodByName("AutoPipeline")
	if !method.IsValid() {
		return client
	}
	results := method.Call(nil)
	if err, failed := results[1].Interface().(error); failed {
		t.Fatal(err)
	}
	pipeliner := results[0].Interface().(interface {
		redis.Scripter
		Close() error
	})
	t.Cleanup(func() { pipeliner.Close() })
	return pipeliner
}

// newInstance returns an instance with the stack around a client of a kind.
func newInstance(id int, client redis.Scripter, budget time.Duration) *instance {
	in := &instance{kind: kinds[id], id: id}
	in.breaker = breaker.New(redisbackend.New(client, redisbackend.Options{}), breaker.Options{
		Budget:   budget,
		OpenFor:  250 * time.Millisecond, // instead of 1s, for a shorter test
		OnChange: in.add,
		Logger:   slog.New(slog.DiscardHandler),
	})
	// Denials are believed for an hour, so that a slow machine changes nothing.
	in.stack = remote.NewDenialCache(in.breaker, remote.DenialCacheOptions{MaxAge: time.Hour})
	for i, policy := range policies {
		in.limiter[i] = core.MustNew(core.Config[string]{
			Rules:   []core.Rule[string]{{Name: scopes[i], Limit: limit, Key: self, OnFailure: policy}},
			Backend: in.stack,
		})
	}
	return in
}

func self(key string) (string, error) { return key, nil }

func (in *instance) add(change breaker.Change) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.changes = append(in.changes, change)
}

// reports returns how often the breaker has reported that it opened, and fails
// the test if it has not said the same of closing.
func (in *instance) reports(t testing.TB) (opened int) {
	t.Helper()
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, change := range in.changes {
		if want := [...]breaker.State{breaker.Open, breaker.Closed}[i%2]; change.State != want {
			t.Errorf("%s: report %d says %v, want %v", in.kind, i+1, change.State, want)
		}
		if change.State == breaker.Open {
			opened++
		}
	}
	return opened
}

// openedIn returns how often the breaker opened in a span of time.
func (in *instance) openedIn(from, to time.Time) (opened int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, change := range in.changes {
		if change.State == breaker.Open && change.At.After(from) && change.At.Before(to) {
			opened++
		}
	}
	return opened
}
