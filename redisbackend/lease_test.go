package redisbackend_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// Instances with leases, each with a client of its own, ask for one key of one Redis as fast
// as they can, and rest in turns. What they admit, merged by the time of the server, fits
// the limit of the user as the exact model counts it. How fast the machine is decides how
// much is leased, not whether that holds.
func TestLeasesOfOneRedisAdmitNothingBeyondTheLimit(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(8000), 8000), limits.FixedWindow(limits.PerSecond(8000)),
		limits.SlidingWindow(limits.PerSecond(8000)), limits.SlidingLog(limits.PerSecond(4000)),
	} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			t.Parallel()
			seed, prefix := testrun.Seed(t), uniquePrefix()
			var mu sync.Mutex
			var admitted []limits.Decision
			var all sync.WaitGroup
			asked, leased, returned := 0, 0, int64(0)
			for instance := range 4 {
				backend := redisbackend.MustNewBare(newClient(t, server.addr), redisbackend.BareOptions{Prefix: prefix})
				cache := remote.MustNewLeaseCache(backend, remote.LeaseOptions{})
				random := rand.New(rand.NewPCG(seed, uint64(instance)))
				all.Go(func() {
					charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}
					if instance == 1 {
						charges[0].Lasts = 50 * time.Millisecond
					}
					out := make([]limits.Decision, 1)
					for start := time.Now(); time.Since(start) < time.Duration(sized(3000))*time.Millisecond; {
						if err := cache.Take(context.Background(), charges, out); err != nil {
							t.Error(err)
							return
						}
						d := out[0]
						ended := d.Allowed && instance == 1 && random.IntN(4) == 0
						if ended { // it has cost nothing
							e := []backends.Ending{{Scope: "s", Key: "k", Limit: limit, Taken: 1, Ticket: d.Ticket, Lasts: charges[0].Lasts}}
							s := make([]limits.Settlement, 1)
							if err := cache.Settle(context.Background(), e, s); err != nil {
								t.Error(err)
							}
							returned += s[0].Returned
						}
						mu.Lock()
						asked++
						if d.Source == limits.SourceLease {
							leased++
						}
						if d.Allowed && !ended {
							admitted = append(admitted, d)
						}
						mu.Unlock()
						if !d.Allowed || random.IntN(500) == 0 {
							<-time.After(time.Duration(random.Int64N(int64(60 * time.Millisecond))))
						}
					}
				})
			}
			all.Wait()
			slices.SortStableFunc(admitted, func(a, b limits.Decision) int { return cmp.Compare(a.At, b.At) })
			var now int64
			model := limitstest.NewExact(func() time.Time { return time.UnixMicro(now) })
			charges, out := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}, make([]limits.Decision, 1)
			for i, d := range admitted {
				now = d.At
				if err := model.Take(t.Context(), charges, out); err != nil {
					t.Fatal(err)
				}
				if !out[0].Allowed {
					t.Fatalf("admission %d of %d, by %v at %d, is beyond the limit: %+v", i, len(admitted), d.Source, d.At, out[0])
				}
			}
			t.Logf("%d asked, %d admitted, %d leased, %d returned", asked, len(admitted), leased, returned)
			if len(admitted) == 0 {
				t.Error("nothing was admitted")
			}
		})
	}
}
