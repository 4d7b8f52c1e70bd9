package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/remote"
)

// byPath counts by the request's path.
func byPath(r *http.Request) (string, error) { return r.URL.Path, nil }

// instance is one server of several that share a backend.
type instance struct {
	limiter *nethttp.Limiter
	handler http.Handler
}

func newInstance(backend backends.Backend, instances int, rules ...nethttp.Rule) instance {
	l := nethttp.MustNew(nethttp.Config{Rules: rules, Backend: backend, Instances: instances})
	return instance{l, l.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hi") }))}
}

func (s instance) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

// admits requests path n times and returns how many requests are let in. All
// decisions must come from source.
func (s instance) admits(t *testing.T, path string, n int, source limits.Source) (admitted int) {
	t.Helper()
	for range n {
		o := s.limiter.Decide(httptest.NewRequest("GET", path, nil))
		if d := o.At(0); d.Source != source {
			t.Fatalf("%s: decided by %v (%v), want %v", path, d.Source, o.Err(), source)
		}
		if o.Allowed() {
			admitted++
		}
	}
	return admitted
}

func TestEveryPolicyIsFollowedWhileTheBackendFails(t *testing.T) {
	hundred := limits.FixedWindow(limits.PerDay(100))
	rule := func(f core.FailurePolicy) nethttp.Rule {
		return nethttp.Rule{Name: fmt.Sprint("policy-", f), Limit: hundred, Key: byPath, OnFailure: f}
	}
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		for round, fault := range []func(context.Context) error{refuses, panics, w.inner.hangs(w.T)} {
			path := fmt.Sprint("/round/", round)
			back := newInstance(w.breaker, 3, rule(core.FallBack))
			open := newInstance(w.breaker, 3, rule(core.FailOpen))
			closed := newInstance(w.breaker, 3, rule(core.FailClosed))
			w.inner.startsFailing(fault)
			for i := range 100 { // from the first failure, through the opening and many probes
				if n := back.admits(w.T, path, 1, limits.SourceFallback); n == 1 != (i < 34) {
					w.Errorf("request %d: %d admitted; a third of 100 is 34", i, n)
				}
				if n := open.admits(w.T, path, 1, limits.SourceOpen); n != 1 {
					w.Errorf("fail open: request %d was not let in", i)
				}
				closed.admits(w.T, path, 1, limits.SourceClosed)
				if got := closed.get(path); got.Code != 503 || got.Header().Get("Retry-After") != "1" {
					w.Errorf("fail closed: status %d, Retry-After %q, want 503 and 1", got.Code, got.Header().Get("Retry-After"))
				}
				if got := open.get(path); got.Code != 200 || got.Header().Get("RateLimit") != "" {
					w.Errorf("fail open: status %d, RateLimit %q", got.Code, got.Header().Get("RateLimit"))
				}
				time.Sleep(100 * time.Millisecond)
			}
			if got := back.get(path); got.Code != 429 {
				w.Errorf("fall back: status %d, want 429", got.Code)
			}
			w.is("open")
			w.inner.recovers()
			time.Sleep(time.Minute)
			for _, s := range []instance{back, open, closed} {
				if n := s.admits(w.T, fmt.Sprint("/", w.inner.asked.Load()), 101, limits.SourcePrimary); n != 100 {
					w.Errorf("afterwards %d were let in, want 100", n)
				}
			}
			w.is("closed")
		}
	})
}

func TestTheOutcomeSaysWhatFailed(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		s := newInstance(w.breaker, 0, nethttp.Rule{Name: "r", Limit: day, Key: byPath})
		r := httptest.NewRequest("GET", "/", nil)
		w.inner.startsFailing(w.inner.hangs(w.T))
		if o := s.limiter.Decide(r); !o.Allowed() || !errors.Is(o.Err(), remote.ErrBudget) {
			w.Errorf("%v, %v", o.Verdict(), o.Err())
		}
		w.opens()
		if o := s.limiter.Decide(r); !o.Allowed() || !errors.Is(o.Err(), remote.ErrOpen) {
			w.Errorf("%v, %v", o.Verdict(), o.Err())
		}
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if o := s.limiter.Decide(r.WithContext(ctx)); o.Verdict() != core.Abandoned {
			w.Errorf("%v, want abandoned", o.Verdict())
		}
	})
}

// client is the connection of one process to a shared backend.
type client struct{ *inner }

// Three instances share a backend that fails for a while. None of their requests
// waits longer than the budget, and each instance admits at most its share during
// the outage. Then they share the limit again, exactly: units taken before the
// outage are still taken, and units taken during it count for nobody.
func TestLimitsAreSharedAndExactAgainAfterwards(t *testing.T) {
	for _, honours := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			shared := &inner{Memory: memory.MustNew(memory.Options{}), honours: honours}
			var servers [3]instance
			for i := range servers {
				servers[i] = newInstance(remote.MustNewStack(&client{shared}, remote.StackOptions{Logger: silence}), 3,
					nethttp.Rule{Name: "r", Limit: limits.FixedWindow(limits.PerDay(300)), Key: byPath})
			}
			before := 0
			for i := range 150 {
				before += servers[i%3].admits(t, "/", 1, limits.SourcePrimary)
			}
			shared.startsFailing(shared.hangs(t))
			during := 0
			for range 200 {
				for _, s := range servers {
					start := time.Now()
					during += s.admits(t, "/", 1, limits.SourceFallback)
					if took := time.Since(start); took > 50*time.Millisecond {
						t.Errorf("a request waited %v", took)
					}
				}
				time.Sleep(20 * time.Millisecond)
			}
			shared.recovers()
			time.Sleep(2 * time.Second)
			for _, s := range servers { // probes, about another key
				s.admits(t, "/other", 3, limits.SourcePrimary)
			}
			after := 0
			for i := range 151 { // beyond that the denial caches answer
				after += servers[i%3].admits(t, "/", 1, limits.SourcePrimary)
			}
			if before != 150 || during != 300 || after != 150 {
				t.Errorf(
					"honours %t: %d, %d and %d were let in before, during and after, want 150, 3 times 100, and the other 150",
					honours, before, during, after,
				)
			}
		})
	}
}

func TestCachedDenialsHoldWhileItIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &inner{Memory: memory.MustNew(memory.Options{}), honours: true}
		stack := remote.MustNewStack(store, remote.StackOptions{Logger: silence})
		s := newInstance(
			stack, 0, nethttp.Rule{Name: "r", Limit: limits.TokenBucket(limits.Per(1, 5*time.Second), 1), Key: byPath},
		)
		s.admits(t, "/", 2, limits.SourcePrimary) // the second is denied until 5s from now
		store.startsFailing(refuses)
		for range 40 {
			s.admits(t, "/other", 1, limits.SourceFallback)
			if n := s.admits(t, "/", 1, limits.SourceDenialCache); n != 0 {
				t.Fatal("a cached denial did not hold")
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := s.admits(t, "/", 1, limits.SourceFallback); n != 1 {
			t.Error("the denial held for longer than its RetryAfter")
		}
	})
}
