package faults

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

const units = 10 // of limit

// limit gives nothing back while a test runs, and has no window that could end.
var limit = limits.TokenBucket(limits.PerDay(1), units)

// The policies, each a rule and a limiter of its own.
var policies = [...]core.FailurePolicy{core.FallBack, core.FailOpen, core.FailClosed}

var scopes = [...]string{"falls back", "fails open", "fails closed"}

// instance is what a process of an application has: limiters in front of the
// recommended stack.
type instance struct {
	kind    string // of client
	id      int
	breaker *remote.Breaker
	stack   backends.Backend
	limiter [len(policies)]*core.Limiter[string]

	changes changes
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
	in.breaker = remote.MustNewBreaker(redisbackend.MustNewBare(client, redisbackend.BareOptions{}), remote.BreakerOptions{
		Budget:  budget,
		OpenFor: 250 * time.Millisecond, // instead of 500ms, for a shorter test
		Logger:  slog.New(&in.changes),
	})
	// Denials are believed for an hour, so that a slow machine changes nothing.
	in.stack = remote.MustNewDenialCache(in.breaker, remote.DenialCacheOptions{MaxAge: time.Hour})
	for i, policy := range policies {
		in.limiter[i] = core.MustNew(core.Config[string]{
			Rules:   []core.Rule[string]{{Name: scopes[i], Limit: limit, Key: self, OnFailure: policy}},
			Backend: in.stack,
		})
	}
	return in
}

func self(key string) (string, error) { return key, nil }

// changes is what a breaker has logged.
type changes struct {
	slog.Handler // has what a breaker does not use
	mu           sync.Mutex
	all          []slog.Record
}

func (c *changes) Enabled(context.Context, slog.Level) bool { return true }

func (c *changes) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, r)
	return nil
}

// opens reports whether a breaker has logged r because it opened.
func opens(r slog.Record) bool { return r.Level == slog.LevelWarn }

// opened returns how often the breaker has opened in a span of time, and the latest error
// for which it did.
func (c *changes) opened(from, to time.Time) (times int, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.all {
		if opens(r) && r.Time.After(from) && r.Time.Before(to) {
			times++
			r.Attrs(func(a slog.Attr) bool {
				if err, ok := a.Value.Any().(error); ok {
					why = brief(err)
				}
				return true
			})
		}
	}
	return times, why
}

// reports returns how often the breaker has logged that it opened, and fails
// the test if it has not said the same of closing.
func (in *instance) reports(t testing.TB) (opened int) {
	t.Helper()
	in.changes.mu.Lock()
	defer in.changes.mu.Unlock()
	for i, r := range in.changes.all {
		if opens(r) != (i%2 == 0) {
			t.Errorf("%s: line %d of the log is %q", in.kind, i+1, r.Message)
		}
		if opens(r) {
			opened++
		}
	}
	return opened
}

// state returns the state of a breaker: "open" or "closed".
func state(b interface{ Status() backends.BreakerStatus }) string { return b.Status().State }
