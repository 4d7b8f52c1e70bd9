package store

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

func weir() []Contestant {
	return []Contestant{
		{"weir token bucket", Backend, openBackend(tokenBucket)},
		{"weir leaky bucket", Backend, openBackend(leakyBucket)},
		{"weir leaky queue", Backend, openBackend(leakyQueue)},
		{"weir fixed window", Backend, openBackend(fixedWindow)},
		{"weir sliding window", Backend, openSliding},
		{"weir Limiter.Decide, token bucket", Limiter, openLimiter},
		{"weir Limiter.DecideInto, token bucket", Limiter, openLimiterInto},
		{"weir memory.Bound.Take, token bucket", Bound, openBound},
	}
}

func tokenBucket(q Quota) limits.Limit {
	return limits.TokenBucket(limits.Per(1, q.Refill), q.Burst)
}
func leakyBucket(q Quota) limits.Limit {
	return limits.LeakyBucket(limits.Per(1, q.Refill), q.Burst)
}
func leakyQueue(q Quota) limits.Limit { return limits.LeakyQueue(limits.Per(1, q.Refill), q.Burst) }

// fixedWindow returns a limit whose window has just begun, so that it does not end, which would
// clear every counter, during the run.
func fixedWindow(q Quota) limits.Limit {
	return limits.FixedWindow(limits.Per(q.Burst, windowTurning(time.Now(), q.Window)))
}

// windowTurning returns a period, near the given one, such that a window begins at the given time
// or less than a second before. Windows begin at whole multiples of their period since the Unix
// epoch.
func windowTurning(at time.Time, period time.Duration) time.Duration {
	since := at.Sub(time.Unix(0, 0))
	windows := since / period
	return (since / windows).Truncate(time.Microsecond)
}

// backend decides through backends.Backend: one charge, with reused slices.
type backend struct {
	memory *memory.Memory
	limit  limits.Limit
}

func openBackend(limit func(Quota) limits.Limit) func(Quota, int) Store {
	return func(q Quota, keys int) Store {
		return &backend{memory.MustNew(memory.Options{MaxKeys: keys}), limit(q)}
	}
}

func (s *backend) Decider() Decider {
	d := &backendDecider{backend: s.memory}
	d.charge[0] = backends.Charge{Scope: "per-client", Limit: s.limit, Cost: 1}
	return d
}

func (s *backend) Live() int {
	n, err := s.memory.Count(context.Background())
	if err != nil {
		panic(err)
	}
	return n
}

type backendDecider struct {
	_        [128]byte // keeps goroutines on different cache lines
	backend  backends.Backend
	charge   [1]backends.Charge
	decision [1]limits.Decision
	_        [128]byte
}

func (d *backendDecider) Allow(key string) bool {
	d.charge[0].Key = key
	err := d.backend.Take(context.Background(), d.charge[:], d.decision[:])
	return err == nil && d.decision[0].Allowed
}

// sliding is a backend whose window turns soon after its keys are in, if asked for. The timed
// decisions then weigh a previous window, as for any client that comes back. Otherwise its window
// has just begun.
type sliding struct {
	backend
	turn time.Time // zero if not asked for
}

func openSliding(q Quota, keys int) Store {
	s := new(sliding)
	begin := time.Now()
	if q.Turns {
		loading := time.Duration(keys) * 2 * time.Microsecond
		begin = begin.Add(loading + 600*time.Millisecond)
		s.turn = begin
	}
	s.memory = memory.MustNew(memory.Options{MaxKeys: keys})
	s.limit = limits.SlidingWindow(limits.Per(q.Burst, windowTurning(begin, q.Window)))
	return s
}

func (s *sliding) Settle() {
	if s.turn.IsZero() {
		return
	}
	if time.Now().After(s.turn) {
		fmt.Fprintln(os.Stderr, "weir sliding window: the keys went in too slowly, some have no "+
			"previous window")
	}
	time.Sleep(time.Until(s.turn))
}

// decideLimiter decides through core.Limiter with one rule. Its requests are keys.
type decideLimiter struct {
	backend
	limiter *core.Limiter[string]
}

func openLimiter(q Quota, keys int) Store { return newDecideLimiter(q, keys) }

func newDecideLimiter(q Quota, keys int) *decideLimiter {
	store := memory.MustNew(memory.Options{MaxKeys: keys})
	limit := tokenBucket(q)
	return &decideLimiter{backend{store, limit}, core.MustNew(core.Config[string]{
		Backend: store,
		Rules: []core.Rule[string]{{
			Name:  "per-client",
			Limit: limit,
			Key:   func(client string) (string, error) { return client, nil },
		}},
	})}
}

func (s *decideLimiter) Decider() Decider { return s }

func (s *decideLimiter) Allow(key string) bool {
	outcome := s.limiter.Decide(context.Background(), key)
	return outcome.Allowed()
}

// decideInto is decideLimiter with an outcome for each goroutine.
type decideInto struct{ *decideLimiter }

func openLimiterInto(q Quota, keys int) Store { return decideInto{newDecideLimiter(q, keys)} }

func (s decideInto) Decider() Decider { return &intoDecider{limiter: s.limiter} }

type intoDecider struct {
	limiter *core.Limiter[string]
	outcome core.Outcome
	_       [128]byte // keeps goroutines on different cache lines
}

func (d *intoDecider) Allow(key string) bool {
	d.limiter.DecideInto(context.Background(), key, &d.outcome)
	return d.outcome.Allowed()
}

// bound decides through a memory.Bound.
type bound struct {
	backend
	limiter *memory.Bound
}

func openBound(q Quota, keys int) Store {
	s := &bound{backend: backend{memory.MustNew(memory.Options{MaxKeys: keys}), tokenBucket(q)}}
	var err error
	if s.limiter, err = s.memory.Bind("per-client", s.limit); err != nil {
		panic(err)
	}
	return s
}

func (s *bound) Decider() Decider { return s }

func (s *bound) Allow(key string) bool {
	d, err := s.limiter.Take(key, 1)
	return err == nil && d.Allowed
}
