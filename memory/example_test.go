package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// Each user may try five passwords in a row, and then one every two minutes.
func Example() {
	logins, err := memory.MustNew(memory.Options{}).Bind("logins", limits.TokenBucket(limits.PerHour(30), 5))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 6 {
		d, err := logins.Take("ann", 1)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Second), err)
	}
	// Output:
	// true 4 0s <nil>
	// true 3 0s <nil>
	// true 2 0s <nil>
	// true 1 0s <nil>
	// true 0 0s <nil>
	// false 0 2m0s <nil>
}

// A cost of several units is taken whole or not at all.
func ExampleBound_Take() {
	bytes, err := memory.MustNew(memory.Options{}).Bind("uploads", limits.FixedWindow(limits.PerDay(1_000_000)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, size := range []int64{700_000, 400_000, 300_000, -1} {
		d, err := bytes.Take("ann", size)
		fmt.Println(size, d.Allowed, d.Remaining, err)
	}
	// Output:
	// 700000 true 300000 <nil>
	// 400000 false 300000 <nil>
	// 300000 true 0 <nil>
	// -1 false 0 memory: cost must not be negative (got -1)
}

func ExampleMemory_Bind() {
	m := memory.MustNew(memory.Options{})
	for _, limit := range []limits.Limit{limits.SlidingLog(limits.PerMinute(100)), limits.SlidingLog(limits.PerMinute(0)),
		limits.Concurrent(5)} {
		_, err := m.Bind("api", limit)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// memory: limit of scope "api": units of a sliding-log must be 1 to 10000 (got 0)
	// memory: bind: a concurrency limit releases units when a request ends: use package core
}

// With room for as many keys as there are customers, nobody is ever displaced.
func ExampleOptions() {
	store := memory.MustNew(memory.Options{MaxKeys: 1_000, MaxLogEntries: 10_000})
	customers, _ := store.Bind("per-customer", limits.SlidingLog(limits.PerDay(10)))
	for i := range 1_000 {
		customers.Take(fmt.Sprint("customer ", i), 1)
	}
	live, err := store.Count(context.Background())
	fmt.Println(live, err, store.MaxKeys(), store.Displaced())
	// Output: 1000 <nil> 1000 0
}

// Options that come from outside the program may be wrong. The error reports every mistake.
func ExampleNew() {
	_, err := memory.New(memory.Options{MaxKeys: -1, MaxLogEntries: -1})
	fmt.Println(err)
	// Output:
	// memory: max keys: must be 1 to 1073741824, or 0 for 262144 (got -1)
	// memory: max log entries: must be 1 to 1073741824, or 0 for 1048576 (got -1)
}

// Replaying what happened yesterday, at yesterday's time.
func ExampleMustNew() {
	var now time.Time
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	ann, _ := store.Bind("per-customer", limits.FixedWindow(limits.PerMinute(1)))
	for _, at := range []string{"2026-11-20T08:00:10Z", "2026-11-20T08:00:59Z", "2026-11-20T08:01:00Z"} {
		now, _ = time.Parse(time.RFC3339, at)
		d, _ := ann.Take("ann", 1)
		fmt.Println(at, d.Allowed)
	}
	// Output:
	// 2026-11-20T08:00:10Z true
	// 2026-11-20T08:00:59Z false
	// 2026-11-20T08:01:00Z true
}

func ExampleBound_TakeInto() {
	frames, err := memory.MustNew(memory.Options{}).Bind("frames", limits.TokenBucket(limits.PerSecond(60), 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	var d limits.Decision // one for all
	for range 2 {
		err := frames.TakeInto(&d, "camera", 1)
		fmt.Println(d.Allowed, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleMemory_Displaced() {
	m := memory.MustNew(memory.Options{MaxKeys: 1000})
	fmt.Println(m.Displaced(), "keys displaced of", m.MaxKeys())
	// Output: 0 keys displaced of 1000
}
