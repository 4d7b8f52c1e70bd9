package redisbackend_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// crowd is how many requests come at once.
const crowd = 4000

// BenchmarkCrowdOverSlots has a crowd of requests with 50 ms each come at once, by two rules in
// different slots of which one has 100 units. It reports how many of them ran out of time, and
// how long eight callers for other keys of the same servers wait, who ask every 2 ms.
func BenchmarkCrowdOverSlots(b *testing.B) {
	client := startCluster(b).client(b)
	scarce, ample := limits.FixedWindow(limits.PerDay(100)), limits.FixedWindow(limits.PerDay(1e9))
	for name, of := range map[string]func(i int) []backends.Charge{
		"of one client, the first rule denies": func(int) []backends.Charge {
			return []backends.Charge{charge("scarce", "k", scarce, 1), charge("ample", "k", ample, 1)}
		},
		"of one client, the last rule denies": func(int) []backends.Charge {
			return []backends.Charge{charge("ample", "k", ample, 1), charge("scarce", "k", scarce, 1)}
		},
		"of many clients, the first rule denies": func(i int) []backends.Charge {
			return []backends.Charge{charge("scarce", "k", scarce, 1), charge("ample", fmt.Sprint(i), ample, 1)}
		},
		"of many clients, the last rule denies": func(i int) []backends.Charge {
			return []backends.Charge{charge("ample", fmt.Sprint(i), ample, 1), charge("scarce", "k", scarce, 1)}
		},
	} {
		b.Run(name, func(b *testing.B) {
			backend := newBare(client)
			take := func(charges []backends.Charge) (time.Duration, error) {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				begin := time.Now()
				err := backend.Take(ctx, charges, make([]limits.Decision, len(charges)))
				return time.Since(begin), err
			}
			var failed, bystandersFailed atomic.Int64
			var waits []time.Duration
			var mu sync.Mutex
			for b.Loop() {
				var requests, bystanders sync.WaitGroup
				end := make(chan struct{})
				for i := range 8 {
					bystanders.Go(func() {
						for j := 0; ; j++ {
							select {
							case <-end:
								return
							case <-time.After(2 * time.Millisecond):
							}
							wait, err := take([]backends.Charge{charge("bystander", fmt.Sprint(i, j), ample, 1)})
							if err != nil {
								bystandersFailed.Add(1)
							}
							mu.Lock()
							waits = append(waits, wait)
							mu.Unlock()
						}
					})
				}
				for i := range crowd {
					requests.Go(func() {
						if _, err := take(of(i)); err != nil {
							failed.Add(1)
						}
					})
				}
				requests.Wait()
				close(end)
				bystanders.Wait()
			}
			slices.Sort(waits)
			b.ReportMetric(float64(failed.Load())/float64(b.N), "failed/op")
			b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "ms-p99")
			b.ReportMetric(100*float64(bystandersFailed.Load())/float64(len(waits)), "%failed")
		})
	}
}

// BenchmarkOthersOfADeniedTaking has 32 callers take large costs of a rule for everybody and be
// denied by a rule of their own. It reports how many of 4,000 requests of others are denied.
func BenchmarkOthersOfADeniedTaking(b *testing.B) {
	client := startCluster(b).client(b)
	backend := newBare(client)
	everybody := limits.TokenBucket(limits.PerDay(100_000), 100_000)
	own := charge("own", "attacker", limits.FixedWindow(limits.PerDay(1)), 1)
	take(b, backend, own)
	end := make(chan struct{})
	var attackers sync.WaitGroup
	for i := range 32 {
		attackers.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				charges := []backends.Charge{charge("everybody", "k", everybody, 50_000>>(i%17)), own}
				_ = backend.Take(context.Background(), charges, make([]limits.Decision, 2))
			}
		})
	}
	var denied atomic.Int64
	for b.Loop() {
		var others sync.WaitGroup
		for i := range 8 {
			others.Go(func() {
				for range crowd / 8 {
					out := make([]limits.Decision, 2)
					charges := []backends.Charge{charge("everybody", "k", everybody, 1), charge("own", fmt.Sprint(i), everybody, 1)}
					if err := backend.Take(context.Background(), charges, out); err != nil || !out[0].Allowed {
						denied.Add(1)
					}
				}
			})
		}
		others.Wait()
		ok(b, backend.Reset(b.Context(), "everybody", "k"))
	}
	close(end)
	attackers.Wait()
	b.ReportMetric(float64(denied.Load())/float64(b.N), "denied/op")
}
