package faults

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
)

// trips are round trips to servers from the next zone to another continent's
// near end. All of them are within the budget; with those to connect, they are
// not.
var trips = [...]time.Duration{5, 10, 15, 20, 40} // milliseconds

// handshakes are the round trips that connecting takes before the first command:
// one for TCP, and three more as TLS can have them.
var handshakes = [...]int{1, 1 + 3}

// Redis is far away, which is no fault, and stays there. All connections are
// reset, twice. Each time Redis must decide again, though connecting takes longer
// than the budget of any decision.
func TestADistantServerDecidesAndDoesSoAfterResets(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, trip := range trips {
		trip *= time.Millisecond
		for _, handshake := range handshakes {
			t.Run(fmt.Sprintf("%v, %d to connect", trip, handshake), func(t *testing.T) {
				t.Parallel()
				p := startDistantProxy(t, s.addr, trip, handshake)
				fleet := startFleet(t, p.addr(), redis.Options{MaxRetries: -1, DialerRetries: 1})
				shared := func(t *testing.T, fleet []*instance) { shareExactly(t, fleet) }
				if trip > budget/2 {
					fleet = fleet[:2]       // an auto-pipeliner's command waits for the batch before it: two trips
					shared = decidedByRedis // for all to be in time is too much to ask of a slow machine
				}
				prove(t, fleet, fault{
					name: fmt.Sprintf("round trips of %v, %d of them to connect, all connections reset twice", trip, handshake),
					strike: func(*load) {
						p.reset()
						shared(t, fleet)
					},
					struck: func(*load) bool { return true },
					heal:   func(*load) { p.reset() },
					shared: shared,
				})
			})
		}
	}
}

// decidedByRedis waits until each instance has had Redis decide five times, under
// each policy.
func decidedByRedis(t *testing.T, fleet []*instance) {
	t.Helper()
	var primary [len(kinds)][len(policies)]int
	eventually(t, "Redis decides five times for each", func() bool {
		var group sync.WaitGroup
		for _, in := range fleet {
			for policy := range policies {
				group.Go(func() {
					o := in.limiter[policy].Decide(t.Context(), fmt.Sprint("far ", prefixes.Add(1)))
					if o.At(0).Source == limits.SourcePrimary {
						primary[in.id][policy]++
					}
				})
			}
		}
		group.Wait()
		for _, in := range fleet {
			if slices.Min(primary[in.id][:]) < 5 {
				return false
			}
		}
		return true
	})
}

const (
	crowded  = 128 // callers
	perCrowd = 8   // requests of each, fewer than its limit
)

// All callers share one connection, a millisecond from the server: they cannot
// be served one after the other within the budget, but they can together.
func TestOneConnectionServesACrowd(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := startDistantProxy(t, s.addr, time.Millisecond, 1)
	for _, in := range startFleet(t, p.addr(), redis.Options{PoolSize: 1, MaxRetries: -1, DialerRetries: 1}) {
		const rounds, all = 50, crowded * perCrowd
		round, primary, first := 0, 0, 0
		for ; primary < all && round < rounds; round++ {
			primary = in.askedBy(t, crowded, perCrowd)[limits.SourcePrimary]
			if round == 0 {
				first = primary
			}
			if primary < all {
				eventually(t, "its breaker is closed", func() bool {
					in.askedBy(t, 1, 1) // probes, if it is open
					return state(in.breaker) == "closed"
				})
			}
		}
		if primary < all {
			t.Errorf("%s: in the last of %d rounds, Redis decided %d of %d", in.kind, rounds, primary, all)
		}
		t.Logf("FAULT one connection for %d callers, %v from the server, %s: by Redis in the first round %d "+
			"of %d, in round %d %d",
			crowded, p.trip, in.kind, first, all, round, primary)
	}
}

// askedBy has so many callers at once make so many requests each, one after the
// other, of keys that are new. It returns how many each source decided, and fails
// the test if a request was denied.
func (in *instance) askedBy(t *testing.T, callers, requests int) (by [limits.SourceNotAsked + 1]int) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			key := fmt.Sprint("caller ", prefixes.Add(1))
			for range requests {
				o := in.limiter[0].Decide(t.Context(), key)
				if !o.Allowed() {
					t.Errorf("%s: %v by %v, within the limit", in.kind, o.Verdict(), o.At(0).Source)
				}
				mu.Lock()
				by[o.At(0).Source]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return by
}
