package limitstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// Units that lie idle in the blocks of one instance are denied to the others. Instances that
// together ask for twice the limit, or a little less than it, in equal parts or one of them
// for half of all, are admitted nearly as much as without leases.
func TestLeasesLeaveLittleOfTheLimitUnused(t *testing.T) {
	for _, limit := range []limits.Limit{limits.TokenBucket(limits.PerSecond(1000), 1000),
		limits.SlidingWindow(limits.PerSecond(1000)), limits.FixedWindow(limits.PerSecond(1000))} {
		for _, instances := range []int{1, 2, 8, 32} {
			for _, skewed := range []bool{false, true} {
				for _, demand := range []int{2000, 950} {
					if instances == 1 && skewed || instances != 8 && limit.Algorithm() != limits.AlgorithmTokenBucket {
						continue
					}
					name := fmt.Sprintf("%v, %d instances, skewed %v, %d asked a second", limit.Algorithm(), instances, skewed, demand)
					with, source := leaseShare(t, limit, instances, demand, skewed, true)
					without, _ := leaseShare(t, limit, instances, demand, skewed, false)
					unused := 1 - with/without
					t.Logf("%s: %.0f of %.0f a second, %.1f%% unused, %.2f leased", name, with, without, 100*unused, source)
					if instances <= 8 && unused > 0.03 {
						t.Errorf("%s: %.1f%% of what is admitted without leases is unused, want 3%% at most", name, 100*unused)
					}
				}
			}
		}
	}
}

// leaseShare returns how many units a second instances are admitted, and which share of
// them by leases.
func leaseShare(t *testing.T, limit limits.Limit, instances, perSecond int,
	skewed, leases bool) (admitted, leased float64) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.MustNew(memory.Options{})
		var mu sync.Mutex
		var counts leaseCounts
		var all sync.WaitGroup
		const lasts = 2 * time.Second
		warm := time.Now().Add(3 * time.Second)
		end := warm.Add(lasts)
		for i := range instances {
			var b backends.Backend = &leaseNetwork{inner: shared, dies: end.Add(time.Hour), delay: 500 * time.Microsecond,
				mu: &mu, counts: &counts, random: rand.New(rand.NewPCG(1, uint64(i)))}
			if leases {
				b = remote.MustNewLeaseCache(b, remote.LeaseOptions{})
			}
			b = remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
			share := 1 / float64(instances)
			if skewed {
				share = 0.5 / float64(instances-1)
				if i == 0 {
					share = 0.5
				}
			}
			const workers = 8
			pause := time.Duration(float64(workers) * float64(time.Second) / (share * float64(perSecond)))
			for w := range workers {
				random := rand.New(rand.NewPCG(2, uint64(i*workers+w)))
				all.Go(func() {
					out := make([]limits.Decision, 1)
					for next := time.Now(); next.Before(end); next = next.Add(time.Duration(random.Int64N(2 * int64(pause)))) {
						time.Sleep(time.Until(next))
						err := b.Take(context.Background(), []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}, out)
						if err == nil && out[0].Allowed && next.After(warm) {
							mu.Lock()
							if admitted++; out[0].Source == limits.SourceLease {
								leased++
							}
							mu.Unlock()
						}
					}
				})
			}
		}
		all.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		leased /= max(1, admitted)
		admitted /= lasts.Seconds()
	})
	return admitted, leased
}
