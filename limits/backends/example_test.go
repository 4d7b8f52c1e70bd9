package backends_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// job is a request of an application that is not about HTTP at all.
type job struct{ customer string }

func byCustomer(j job) (string, error) { return j.customer, nil }

// A backend around another forwards what the other can do besides.
func ExampleBackend() {
	audited := &audit{inner: memory.MustNew(memory.Options{})}
	limiter := core.MustNew(core.Config[job]{
		Backend: audited,
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byCustomer}},
	})
	for range 2 {
		limiter.Decide(context.Background(), job{customer: "ann"})
	}
	fmt.Println(audited.denied, backends.Reset(context.Background(), audited, "per-customer", "ann"))
	// Output: 1 <nil>
}

type audit struct {
	inner  backends.Backend
	denied int // use something safe for concurrent use
}

func (a *audit) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	err := a.inner.Take(ctx, charges, out)
	for _, d := range out {
		if err == nil && !d.Allowed {
			a.denied++
		}
	}
	return err
}

// Reset implements [backends.Resetter]; backends.Peeker and backends.Counter go the same way.
func (a *audit) Reset(ctx context.Context, scope, key string) error {
	return backends.Reset(ctx, a.inner, scope, key)
}

// Trying a stricter limit out: what it would have denied is seen, not felt.
func ExampleCharge() {
	charges := []backends.Charge{
		{Scope: "today", Key: "ann", Limit: limits.FixedWindow(limits.PerDay(3)), Cost: 1},
		{Scope: "planned", Key: "ann", Limit: limits.FixedWindow(limits.PerDay(1)), Cost: 1, Shadow: true},
	}
	decisions := make([]limits.Decision, len(charges))
	store := memory.MustNew(memory.Options{})
	for range 4 {
		if err := store.Take(context.Background(), charges, decisions); err != nil {
			fmt.Println(err)
		}
		fmt.Println(decisions[0].Allowed, decisions[1].Allowed)
	}
	// Output:
	// true true
	// true false
	// true false
	// false false
}

// A backend decides accounts, not charges: here two rules of one scope charge one key.
func ExampleAccounts() {
	limit := limits.FixedWindow(limits.PerMinute(10))
	accounts, owners, err := backends.Accounts([]backends.Charge{
		{Scope: "site", Key: "ann", Limit: limit, Cost: 2},
		{Scope: "site", Key: "bob", Limit: limit, Cost: 1},
		{Scope: "site", Key: "ann", Limit: limit, Cost: 3},
	}, nil, nil)
	fmt.Println(owners, err)
	for _, a := range accounts {
		fmt.Println(a.Key, a.Enforced)
	}
	// Output:
	// [0 1 0] <nil>
	// ann 5
	// bob 1
}

func ExampleReset() {
	ctx := context.Background()
	store := memory.MustNew(memory.Options{})
	limiter := core.MustNew(core.Config[job]{
		Backend: store,
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byCustomer}},
	})
	for range 2 {
		outcome := limiter.Decide(ctx, job{customer: "ann"})
		live, _ := backends.Count(ctx, store)
		fmt.Println(outcome.Verdict(), live)
	}
	fmt.Println(backends.Reset(ctx, store, "per-customer", "ann")) // the scope is the rule's name
	outcome := limiter.Decide(ctx, job{customer: "ann"})
	fmt.Println(outcome.Verdict())
	// Output:
	// allowed 1
	// denied 1
	// <nil>
	// allowed
}

func ExamplePeek() {
	store := memory.MustNew(memory.Options{})
	charges := []backends.Charge{{Scope: "per-customer", Key: "ann", Limit: limits.FixedWindow(limits.PerDay(5)), Cost: 3}}
	decisions := make([]limits.Decision, 1)
	for _, decide := range []func() error{
		func() error { return backends.Peek(context.Background(), store, charges, decisions) },
		func() error { return store.Take(context.Background(), charges, decisions) },
		func() error { return backends.Peek(context.Background(), store, charges, decisions) },
	} {
		err := decide()
		fmt.Println(decisions[0].Allowed, decisions[0].Remaining, err)
	}
	// Output:
	// true 5 <nil>
	// true 2 <nil>
	// false 2 <nil>
}

// firstSix is a backend that decides the first six algorithms.
type firstSix struct{ backends.Backend }

// twoServers keeps the keys up to m on one server, and the others on another.
type twoServers struct{ backends.Backend }

func (twoServers) ServerOf(_, key string, _ limits.Limit) any { return key < "n" }

// A backend that does not say what it supports decides the first six algorithms.
func ExampleSupports() {
	limit := limits.AnchoredWindow(limits.PerHour(60))
	fmt.Println(backends.Supports(memory.MustNew(memory.Options{}), limit))
	fmt.Println(backends.Supports(firstSix{}, limit))
	// Output:
	// true
	// false
}

func ExampleCount() {
	_, err := backends.Count(context.Background(), firstSix{})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.ErrUnsupported))
	// Output:
	// backends: a backends_test.firstSix cannot count: unsupported operation
	// true
}

// A proxy tells of the end of a request wherever it likes: units that are lent come back by the name of
// their holder, and end by themselves if none comes.
func ExampleCanLend() {
	ctx, store := context.Background(), memory.MustNew(memory.Options{})
	fmt.Println(backends.CanLend(store), backends.CanLend(firstSix{}))
	const holder = 0x5bd1e995 // of a request
	lent := backends.Charge{
		Scope: "models", Key: "ann", Limit: limits.Concurrent(1), Cost: 1, Value: holder, Lends: time.Hour,
	}
	back := backends.Ending{
		Scope: "models", Key: "ann", Limit: lent.Limit, Taken: 1, Value: holder, Lends: time.Hour,
	}
	decided, settled := make([]limits.Decision, 1), make([]limits.Settlement, 1)
	for range 2 {
		store.Take(ctx, []backends.Charge{lent}, decided)
		fmt.Println(decided[0].Allowed)
	}
	for range 2 {
		backends.Settle(ctx, store, []backends.Ending{back}, settled)
		fmt.Println(settled[0].Returned)
	}
	// Output:
	// true false
	// true
	// false
	// 1
	// 0
}

// The end of a request of Ann does not wait for the server of Zoe.
func ExampleDivided() {
	var backend backends.Divided = twoServers{memory.MustNew(memory.Options{})}
	limit := limits.Concurrent(5)
	fmt.Println(backend.ServerOf("uploads", "ann", limit) == backend.ServerOf("uploads", "zoe", limit))
	// Output: false
}

// replicas is a backend whose program learns from elsewhere how many processes there are: from the
// orchestrator, say.
type replicas struct {
	unreachable
	desired atomic.Int64
}

func (r *replicas) Instances() int { return int(r.desired.Load()) }

// unreachable is a backend that is out of order.
type unreachable struct{}

func (unreachable) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.New("connection refused")
}

// The fallback of each process allows its share of 100, as many processes as there may be.
func ExampleInstanceCounter() {
	backend := new(replicas)
	limiter := core.MustNew(core.Config[job]{
		Backend: backend,
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(100)), Key: byCustomer}},
	})
	for _, n := range []int64{0, 4, 10} {
		backend.desired.Store(n)
		outcome := limiter.Decide(context.Background(), job{customer: "ann"})
		fmt.Println(outcome.At(0).Limit(), outcome.At(0).Remaining)
	}
	// Output:
	// fixed-window 100/1d 99
	// fixed-window 25/1d 23
	// fixed-window 10/1d 7
}

func ExampleInstances() {
	backend := new(replicas)
	backend.desired.Store(4)
	fmt.Println(backends.Instances(backend))
	fmt.Println(backends.Instances(memory.MustNew(memory.Options{}))) // it does not count
	// Output:
	// 4
	// 0
}

// fleet is a backend whose states several processes share, and with them the secret.
type fleet struct {
	backends.Backend
	secret string
}

// Unwrap shows limiters the backend within.
func (f fleet) Unwrap() backends.Backend { return f.Backend }

func (f fleet) Digest(scope, key, value string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", f.secret, scope, key, value))
	return binary.BigEndian.Uint64(sum[:])
}

func ExampleDigester() {
	one, other := fleet{secret: "1f6be0c4"}, fleet{secret: "1f6be0c4"}
	a, b := one.Digest("login", "203.0.113.7", "ann"), other.Digest("login", "203.0.113.7", "ann")
	fmt.Println(a == b, a == one.Digest("login", "203.0.113.7", "bob"))
	// Output: true false
}
