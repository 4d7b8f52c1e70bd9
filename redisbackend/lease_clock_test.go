package redisbackend_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// The clock of the server steps while instances hold units. A step forward is time that
// passes: the limit is fresh once more, and what was held is spent on top. A step back
// admits nothing. All admissions are merged by the time that really passes.
func TestLeasesWhileTheClockOfTheServerSteps(t *testing.T) {
	testrun.FullOnly(t, "a clock that steps")
	t.Parallel()
	server := startRedis(t)
	const instances = 3
	const step = 1000 * time.Second // the test takes less, so an instant tells how far the clock has stepped
	steps := []time.Duration{step, 0, 2 * step, step}
	forward := 2
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerMinute(240_000), 4000), limits.FixedWindow(limits.PerSecond(4000)),
		limits.SlidingWindow(limits.PerSecond(4000)), limits.SlidingLog(limits.PerSecond(2000)),
	} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			clock := new(steppingClock)
			prefix := uniquePrefix()
			var mu sync.Mutex
			var admitted []int64 // real instants
			var leased, decided atomic.Int64
			var all sync.WaitGroup
			ended := make(chan struct{})
			var caches []*remote.LeaseCache
			for range instances {
				backend := redisbackend.WithClock(
					redisbackend.MustNewBare(newClient(t, server.addr), redisbackend.BareOptions{Prefix: prefix}), clock.now,
				)
				cache := remote.MustNewLeaseCache(onClock{backend, clock}, remote.LeaseOptions{})
				caches = append(caches, cache)
				all.Go(func() {
					charges, out := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}, make([]limits.Decision, 1)
					for i := 0; ; i++ {
						select {
						case <-ended:
							return
						default:
						}
						if err := cache.Take(context.Background(), charges, out); err != nil {
							t.Error(err)
							return
						}
						decided.Add(1)
						if !out[0].Allowed || i%1000 < 50 {
							<-time.After(time.Millisecond)
						}
						if !out[0].Allowed {
							continue
						}
						if out[0].Source == limits.SourceLease {
							leased.Add(1)
						}
						at := out[0].At - start.UnixMicro()
						mu.Lock()
						admitted = append(admitted, start.UnixMicro()+at-at/step.Microseconds()*step.Microseconds())
						mu.Unlock()
					}
				})
			}
			held := int64(0)
			for _, to := range steps {
				goal := decided.Load() + 1500
				until(t, "1,500 more decisions, and units that are held or many more", func() bool {
					now := int64(0)
					for _, cache := range caches {
						now += cache.Counts().Held
					}
					held = max(held, now)
					return decided.Load() > goal && now > 0 || decided.Load() > goal+20_000
				})
				clock.step(to)
			}
			goal := decided.Load() + 1500
			until(t, "1,500 more decisions", func() bool { return decided.Load() > goal })
			close(ended)
			all.Wait()
			if time.Since(start) >= step {
				t.Skip("the machine is too slow: no instant tells how far the clock had stepped")
			}

			slices.SortFunc(admitted, func(a, b int64) int { return cmp.Compare(a, b) })
			var at int64
			model := limitstest.NewExact(func() time.Time { return time.UnixMicro(at) })
			charges, out := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}, make([]limits.Decision, 1)
			beyond := 0
			for _, at = range admitted {
				if err := model.Take(t.Context(), charges, out); err != nil {
					t.Fatal(err)
				}
				if !out[0].Allowed {
					beyond++
				}
			}
			_, lease := remote.Leased(limit, time.Second)
			blocks := instances * int(limit.Rate().Units*lease.Microseconds()/limit.Rate().Period.Microseconds())
			bound := forward * (int(limit.Burst()) + blocks)
			t.Logf(
				"%d admitted, %d by leases, up to %d held; %d beyond the limit, bound %d", len(admitted), leased.Load(), held,
				beyond, bound,
			)
			if beyond > bound {
				t.Errorf("%d of %d are beyond the limit, want %d at most", beyond, len(admitted), bound)
			}
		})
	}
}

// steppingClock is the clock of a server. It does not step between the questions of two
// clients and their answers, which here bring the time along.
type steppingClock struct {
	mu     sync.RWMutex
	offset atomic.Int64
}

func (c *steppingClock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

func (c *steppingClock) step(to time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset.Store(int64(to))
}

// onClock is a backend on a server with that clock.
type onClock struct {
	*redisbackend.Bare
	clock *steppingClock
}

func (b onClock) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	b.clock.mu.RLock()
	defer b.clock.mu.RUnlock()
	return b.Bare.Take(ctx, charges, out)
}

func (b onClock) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	b.clock.mu.RLock()
	defer b.clock.mu.RUnlock()
	return b.Bare.Settle(ctx, endings, out)
}
