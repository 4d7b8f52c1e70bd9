package remote_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

func byItself(key string) (string, error) { return key, nil }

func ExampleNewDenialCache() {
	far := memory.MustNew(memory.Options{}) // imagine one across the network
	limiter := core.MustNew(core.Config[string]{
		Backend: remote.MustNewDenialCache(far, remote.DenialCacheOptions{MaxEntries: 4096, MaxAge: 2 * time.Second}),
		Rules:   []core.Rule[string]{{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byItself}},
	})
	for range 4 {
		outcome := limiter.Decide(context.Background(), "ann")
		fmt.Println(outcome.Verdict(), "by", outcome.At(0).Source)
	}
	// Output:
	// allowed by primary
	// denied by primary
	// denied by denial-cache
	// denied by denial-cache
}

// A caller that counts each charge apart asks the backend for those alone that no denial answers.
func ExampleDenialCache_Recall() {
	far := memory.MustNew(memory.Options{})
	cache := remote.MustNewDenialCache(far, remote.DenialCacheOptions{})
	charge := backends.Charge{
		Scope: "calls", Key: "ann", Limit: limits.FixedWindow(limits.PerDay(1)), Cost: 2, Shadow: true,
	}

	out := make([]limits.Decision, 1)
	fmt.Println(cache.Recall(&charge, &out[0], false))

	sent := time.Now()
	if err := cache.Take(context.Background(), []backends.Charge{charge}, out); err != nil {
		fmt.Println(err)
	}
	cache.Remember(&charge, &out[0], sent)
	fmt.Println(cache.Recall(&charge, &out[0], false), out[0].Allowed)
	// Output:
	// false
	// true false
}

// The first charges of a busy key ask the backend; then a block is spent.
func ExampleNewLeaseCache() {
	shared := memory.MustNew(memory.Options{}) // in place of Redis
	leases := remote.MustNewLeaseCache(shared, remote.LeaseOptions{})

	limit := limits.SlidingWindow(limits.PerMinute(6000))
	fmt.Println(remote.Leased(limit, time.Second))
	charges, out := []backends.Charge{{Scope: "calls", Key: "tenant 1", Limit: limit, Cost: 1}}, make([]limits.Decision, 1)
	for range 8 {
		if err := leases.Take(context.Background(), charges, out); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(out[0].Source, out[0].Allowed)
	// Output:
	// sliding-window 6000/1m 1s
	// primary true
}

// What a process holds, and what became of the units that it has taken.
func ExampleLeaseCache_Counts() {
	leases := remote.MustNewLeaseCache(memory.MustNew(memory.Options{}), remote.LeaseOptions{})
	n := leases.Counts()
	fmt.Println(n.Held, "units of", n.Keys, "keys,", n.UnitsVoid, "of", n.UnitsTaken, "taken were void")
	// Output: 0 units of 0 keys, 0 of 0 taken were void
}

// What a backend is asked for, so that units may be spent up to a lease later.
func ExampleLeased() {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(1000), 1000),
		limits.SlidingLog(limits.PerMinute(600)),
		limits.FixedWindow(limits.PerMinute(100)),
		limits.TokenBucket(limits.PerSecond(1000), 15),
	} {
		tight, lease := remote.Leased(limit, time.Second)
		fmt.Println(limit, "->", tight, "for", lease)
	}
	// Output:
	// token-bucket 1000/1s burst 1000 -> token-bucket 1000/1s burst 950 for 50ms
	// sliding-log 600/1m -> sliding-log 600/1m1s for 1s
	// fixed-window 100/1m -> fixed-window 100/1m for 0s
	// token-bucket 1000/1s burst 15 -> token-bucket 1000/1s burst 15 for 0s
}

// loudspeaker is an announcer between two caches of one program. Package redisbackend has
// one between processes.
type loudspeaker struct {
	hears  func(backends.Announcement)
	others []*loudspeaker
}

func (l *loudspeaker) Listen(heard func(backends.Announcement)) { l.hears = heard }

func (l *loudspeaker) Announce(a backends.Announcement) {
	for _, other := range l.others {
		other.hears(a)
	}
}

// A client that one instance has banned is banned at the other, which has never seen it.
func ExampleDenialCacheOptions() {
	there := &loudspeaker{}
	here := &loudspeaker{others: []*loudspeaker{there}}
	one := remote.MustNewDenialCache(memory.MustNew(memory.Options{}), remote.DenialCacheOptions{Announcer: here})
	two := remote.MustNewDenialCache(memory.MustNew(memory.Options{}), remote.DenialCacheOptions{Announcer: there})

	charges := []backends.Charge{
		{Scope: "flood", Key: "192.0.2.1", Limit: limits.Ban(limits.PerMinute(2), time.Hour), Cost: 1},
	}
	out := make([]limits.Decision, 1)
	for _, instance := range []backends.Backend{one, one, one, two} {
		if err := instance.Take(context.Background(), charges, out); err != nil {
			fmt.Println(err)
		}
		fmt.Println(out[0].Allowed, out[0].Source)
	}
	// Output:
	// true primary
	// true primary
	// false primary
	// false denial-cache
}
