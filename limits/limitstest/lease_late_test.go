package limitstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// A denial counts units that lie idle in blocks as used, and is by the tighter limit. Of a
// bucket its RetryAfter is never sooner than the limit of the user would say, and later by
// at most its bound: a lease, what one unit takes to drain, and what one block of each
// instance does. Some instances ask steadily and then rest, others spend all that is left.
func TestDenialsOfLeasedBucketsAreLateByAtMostTheirBound(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(1000), 1000), limits.LeakyBucket(limits.PerSecond(3000), 700),
		limits.TokenBucket(limits.PerMinute(6000), 2000),
	} {
		for _, instances := range []int{1, 2, 8, 32} {
			t.Run(fmt.Sprintf("%v, %d instances", limit, instances), func(t *testing.T) {
				tight, lease := remote.Leased(limit, time.Second)
				perUnit := float64(limit.Rate().Period.Microseconds()) / float64(limit.Rate().Units)
				units := func(n int64) time.Duration { return time.Duration(float64(n)*perUnit) * time.Microsecond }
				block := limit.Burst() - tight.Burst() // what the rate brings in a lease
				bound := lease + units(1) + units(int64(instances)*((block+1)/2)) + time.Microsecond
				latest, n, leased, seed := time.Duration(0), 0, 0, testrun.Seed(t)
				for i := range uint64(4) {
					admitted, denials := lateRun(t, limit, lease, instances, seed+i)
					u, counted := fresh(limit, 0), 0
					for _, d := range denials { // by time: each comes after all that the last one did
						for _, a := range admitted[counted:d.after] {
							u = u.plus(a.at, a.units)
						}
						counted = d.after
						least := leastWait(u, d)
						if late := d.retry - least; late < 0 || late > bound {
							t.Fatalf("a charge of %d at %d has to wait for %v, by the limit itself for %v: want later by 0 to %v", d.units,
								d.at, d.retry, least, bound)
						} else {
							latest = max(latest, late)
						}
					}
					n += len(denials)
					for _, a := range admitted {
						if a.leased {
							leased++
						}
					}
				}
				t.Logf("%d denials, %d admitted by leases: late by %v at most, bound %v", n, leased, latest, bound)
				if n == 0 || leased == 0 {
					t.Error("nothing was denied, or leased")
				}
			})
		}
	}
}

// lateCharge is a charge that was admitted, or denied for a time.
type lateCharge struct {
	at, units int64
	retry     time.Duration
	after     int // how many were admitted before
	leased    bool
}

// lateRun returns what instances of a backend without delays were admitted, and which
// denials that backend made, each by time.
func lateRun(t *testing.T, limit limits.Limit, lease time.Duration, instances int,
	seed uint64) (admitted, denials []lateCharge) {
	synctest.Test(t, func(t *testing.T) {
		tight, _ := remote.Leased(limit, time.Second)
		shared := memory.MustNew(memory.Options{})
		var mu sync.Mutex
		var all sync.WaitGroup
		start := time.Now()
		for i := range instances {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			cache := remote.MustNewLeaseCache(shared, remote.LeaseOptions{})
			ask := func(cost int64) bool {
				mu.Lock() // one after the other, so that it is known what a denial comes after
				defer mu.Unlock()
				out := make([]limits.Decision, 1)
				if err := cache.Take(context.Background(), []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: cost}},
					out); err != nil {
					t.Error(err)
					return false
				}
				d := out[0]
				if d.Allowed {
					admitted = append(admitted, lateCharge{at: d.At, units: cost, leased: d.Source == limits.SourceLease})
				} else {
					denials = append(denials, lateCharge{at: d.At, units: cost, retry: d.RetryAfter, after: len(admitted)})
				}
				return d.Allowed
			}
			all.Go(func() {
				for round := range 5 {
					// A lease or two of charges, at the rate at most, so that blocks are large; then one
					// charge late in the lease, so that there may be two of them; then a rest in which
					// the bucket drains.
					pause := max(lease/30, limit.Rate().Period/time.Duration(limit.Rate().Units))
					for began := time.Now(); time.Since(began) < lease*time.Duration(1+random.IntN(2)); time.Sleep(pause) {
						ask(1)
					}
					time.Sleep(time.Duration(random.Int64N(int64(lease))))
					ask(1)
					time.Sleep(time.Duration(random.Int64N(int64(lease / 4))))
					if random.IntN(1+instances/3) == 0 {
						for _, most := range []int64{tight.Burst(), tight.Burst() / 2, 5} { // large charges wait for whatever lies idle
							for ask(1 + random.Int64N(most)) {
							}
						}
					}
					time.Sleep(time.Until(start.Add(time.Duration(1+round) * 30 * lease)))
				}
			})
		}
		all.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
	})
	return admitted, denials
}

// leastWait returns how long the limit of the user would have d wait, with u in use.
func leastWait(u usage, d lateCharge) time.Duration {
	us := sort.Search(int(d.retry.Microseconds())+1,
		func(us int) bool { return u.inUse(d.at+int64(us))+d.units <= u.limit.Burst() })
	return time.Duration(us) * time.Microsecond
}
