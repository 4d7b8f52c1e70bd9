package world

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

// One process is beside the server, and the other 80 ms away from it. With leases both together admit
// what the limit allows and nothing beyond it. Below the limit the far one decides nearly all by itself.
// At twice the limit each admits a quarter at least.
func TestLeasesShareALimitBetweenRegions(t *testing.T) {
	const (
		rate   = 100 // units a second
		period = 20  // seconds: a lease is a second, much longer than the way and back
		burst  = rate * period
		lasts  = 2 * period * time.Second
		way    = 40 * time.Millisecond
	)
	limit := limits.TokenBucket(limits.Per(burst, period*time.Second), burst)
	for _, tt := range []struct {
		name       string
		perSecond  int // requests of each
		leastTotal float64
		leastShare float64
		mostWaits  float64
	}{
		{"below the limit", 40, 1, 0.5, 0.02},
		{"at twice the limit", 100, 0.97, 0.25, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seed := testrun.Seed(t)
			defer noticeHang(t, seed)()
			synctest.Test(t, func(t *testing.T) {
				w := New(t, seed, One)
				defer w.Close()
				rules := []core.Rule[Request]{{Name: "r", Limit: limit, Key: self}}
				var mu sync.Mutex
				var admitted []int64 // instants, in microseconds
				var allowed, waited, asked [2]int
				var all sync.WaitGroup
				for i := range 2 {
					p := w.Start("p", Program{Rules: rules})
					if i == 1 {
						path := w.path(p, w.servers[0])
						for _, r := range []*route{path.there, path.back} {
							r.set(func(r *route) { r.latency = Latency{Least: way} })
						}
					}
					cache := remote.MustNewLeaseCache(p.bare, remote.LeaseOptions{})
					ask := func() {
						out, begun := make([]limits.Decision, 1), time.Now()
						charges := []backends.Charge{{Scope: "r", Key: "k", Limit: limit, Cost: 1}}
						if err := cache.Take(context.Background(), charges, out); err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						asked[i]++
						if time.Since(begun) >= way {
							waited[i]++
						}
						if out[0].Allowed {
							allowed[i]++
							admitted = append(admitted, out[0].At)
						}
					}
					all.Go(func() {
						every := time.Second / time.Duration(tt.perSecond)
						for range int(lasts / every) {
							all.Go(ask)
							time.Sleep(every)
						}
					})
				}
				all.Wait()
				slices.Sort(admitted)
				inUse, last := int64(0), int64(0) // millionths of a unit, microseconds
				for _, at := range admitted {
					inUse, last = max(0, inUse-(at-last)*rate)+1e6, at
					if inUse > burst*1e6 {
						t.Fatalf("%d millionths of a unit are in use, of %d", inUse, int64(burst*1e6))
					}
				}
				wanted := min(float64(2*tt.perSecond)*lasts.Seconds(), burst+rate*lasts.Seconds())
				total := float64(allowed[0]+allowed[1]) / wanted
				share := float64(allowed[1]) / float64(allowed[0]+allowed[1])
				waits := float64(waited[1]) / float64(asked[1])
				t.Logf("admitted %.4f of what may be, %.3f of it far away, where %.4f of decisions wait", total, share, waits)
				if total < tt.leastTotal || min(share, 1-share) < tt.leastShare || waits > tt.mostWaits || waited[0] > 0 {
					t.Errorf("admitted %v, %v decisions waited", allowed, waited)
				}
			})
		})
	}
}
