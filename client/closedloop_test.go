package client_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
)

var trace = flag.Bool("trace", false, "print what each closed loop reached")

// A loop has workers that send requests as fast as they may to one limiter of nethttp.
type loop struct {
	limit   limits.Limit
	format  headers.Format
	workers int
	windows int
	latency time.Duration // at most, before and after the decision, at random
}

type result struct {
	allowed, denied, early int64 // early: denied after the first answer
	most                   int64 // that the limit allows
}

func (r result) used() float64 { return float64(r.allowed) / float64(r.most) }

// mostOf is how many requests limit allows at most from the start of a window on.
func mostOf(limit limits.Limit, windows int) int64 {
	n := int64(windows) * limit.Rate().Units
	switch limit.Algorithm() {
	case limits.AlgorithmTokenBucket, limits.AlgorithmLeakyBucket, limits.AlgorithmLeakyQueue:
		return limit.Burst() + n
	}
	return n
}

// run lets a loop run, in a bubble.
func (l loop) run(t *testing.T, options client.Options, clients int) (r result) {
	t.Helper()
	limiter := nethttp.MustNew(nethttp.Config{
		Rules:      []nethttp.Rule{{Name: "everybody", Limit: l.limit, Key: keyfuncs.Constant[*http.Request]("everybody")}},
		Headers:    headers.Options{Formats: []headers.Format{l.format}},
		MaxWaiting: 1000,
	})
	var answered atomic.Bool
	served := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		atomic.AddInt64(&r.allowed, 1)
	}))
	random := func() {
		if l.latency > 0 {
			time.Sleep(rand.N(l.latency))
		}
	}
	base, stop := serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		random()
		served.ServeHTTP(w, q)
		random()
	}))
	defer stop()
	period := l.limit.Rate().Period
	// Windows begin at multiples of the period: the loop begins with one.
	begin := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	time.Sleep(time.Until(begin))
	ctx, cancel := context.WithDeadline(t.Context(), begin.Add(time.Duration(l.windows)*period-time.Millisecond))
	defer cancel()
	var wg sync.WaitGroup
	for range clients {
		options.Base, options.MaxWait, options.Attempts = base, 24*time.Hour, 100
		options.Observe = func(e client.Event) {
			if e.Kind == client.Limited {
				atomic.AddInt64(&r.denied, 1)
				if answered.Load() {
					atomic.AddInt64(&r.early, 1)
				}
			}
		}
		transport := client.MustNew(options)
		for range l.workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for ctx.Err() == nil {
					q, _ := http.NewRequestWithContext(ctx, "GET", "http://server/", nil)
					if _, err := do(transport, q); err != nil {
						return
					}
					answered.Store(true)
				}
			}()
		}
	}
	wg.Wait()
	r.most = mostOf(l.limit, l.windows)
	return r
}

var rateLimits = []limits.Limit{
	limits.TokenBucket(limits.PerMinute(240), 8),
	limits.LeakyBucket(limits.PerMinute(240), 8),
	limits.LeakyQueue(limits.PerMinute(240), 8),
	limits.FixedWindow(limits.PerMinute(120)),
	limits.SlidingWindow(limits.PerMinute(240)),
	limits.SlidingLog(limits.PerMinute(240)),
	limits.AnchoredWindow(limits.PerMinute(120)),
}

var formats = []headers.Format{headers.IETF, headers.Draft7, headers.Draft6, headers.GitHub,
	headers.DeltaSeconds, headers.Discord, headers.EpochSeconds}

// A short run tries one of eight.
func TestAClosedLoopUsesTheLimitAndIsNotDenied(t *testing.T) {
	random := testrun.Random(t)
	for _, limit := range rateLimits {
		for _, format := range formats {
			for _, workers := range []int{1, 16, 64} {
				if !testrun.Full() && random.IntN(8) > 0 {
					continue
				}
				t.Run(fmt.Sprintf("%v/%v/%d", limit.Algorithm(), format, workers), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := loop{limit: limit, format: format, workers: workers, windows: 10}.run(t,
							client.Options{}, 1)
						if *trace {
							fmt.Printf("%-16v %-12v %2d: %.3f of %d, %d denied\n", limit.Algorithm(), format, workers,
								r.used(), r.most, r.denied)
						}
						if r.early > 0 {
							t.Errorf("%d requests were denied after the first answer", r.early)
						}
						least := 0.97
						if limit.Algorithm().Delays() && format == headers.Discord {
							// A known weakness: where answers of Discord's form come out of order from a queue, as
							// some do on a busy machine, a client waits too long. The race detector lets
							// goroutines run in random order.
							if least = 0.9; raceEnabled {
								least = 0.5
							}
						}
						if r.used() < least {
							t.Errorf("%.1f%% of the limit was used (%d of %d)", 100*r.used(), r.allowed, r.most)
						}
					})
				})
			}
		}
	}
}

func TestAClosedLoopIsNotDeniedThoughAnswersOvertakeEachOther(t *testing.T) {
	for _, limit := range rateLimits {
		for _, format := range []headers.Format{headers.IETF, headers.GitHub} {
			t.Run(fmt.Sprintf("%v/%v", limit.Algorithm(), format), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := loop{limit: limit, format: format, workers: 64, windows: 4, latency: 200 * time.Millisecond}
					r := l.run(t, client.Options{}, 1)
					if *trace {
						fmt.Printf("%-16v %-12v %2d, latency: %.3f of %d, %d denied\n", limit.Algorithm(), format,
							l.workers, r.used(), r.most, r.denied)
					}
					if r.early > 0 {
						t.Errorf("%d requests were denied after the first answer", r.early)
					}
					if r.used() < 0.95 {
						t.Errorf("%.1f%% of the limit was used (%d of %d)", 100*r.used(), r.allowed, r.most)
					}
				})
			})
		}
	}
}

// Of small limits less is used if the fields say only when all is renewed: docs/outgoing.md has
// these shares. A queue of one request every two seconds answers later than most servers.
func TestSmallLimitsAreNotDeniedAndOlderFieldsLeaveAPartUnused(t *testing.T) {
	for _, test := range []struct {
		limit limits.Limit
		used  float64 // with older fields
	}{
		{limits.SlidingWindow(limits.PerMinute(60)), 0.95},
		// 248 to 254 of 300: by the order in which workers ask.
		{limits.SlidingWindow(limits.PerMinute(30)), 0.80},
		{limits.SlidingLog(limits.PerMinute(30)), 0.80},
		{limits.FixedWindow(limits.PerMinute(30)), 0.97},
		{limits.TokenBucket(limits.PerMinute(30), 2), 0.65},
		{limits.LeakyQueue(limits.PerMinute(30), 2), 0.65},
		{limits.LeakyQueue(limits.PerMinute(60), 2), 0.65},
	} {
		for _, format := range []headers.Format{headers.IETF, headers.Draft6, headers.GitHub, headers.Discord} {
			for _, workers := range []int{1, 16} {
				t.Run(fmt.Sprintf("%v/%v/%d", test.limit, format, workers), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := loop{limit: test.limit, format: format, workers: workers, windows: 10}.run(t,
							client.Options{}, 1)
						if r.early > 0 {
							t.Errorf("%d requests were denied after the first answer", r.early)
						}
						want := test.used
						if format == headers.IETF {
							want = 0.97
						}
						if r.used() < want {
							t.Errorf("%.1f%% of the limit was used (%d of %d), want %.0f%%", 100*r.used(), r.allowed,
								r.most, 100*want)
						}
					})
				})
			}
		}
	}
}

func TestTwoProcessesShareACapThroughABackend(t *testing.T) {
	for _, limit := range rateLimits {
		for _, workers := range []int{1, 16} {
			t.Run(fmt.Sprintf("%v/%d", limit.Algorithm(), workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := loop{limit: limit, format: headers.IETF, workers: workers, windows: 10,
						latency: 20 * time.Millisecond}
					r := l.run(t, client.Options{Limit: limit, Backend: memory.MustNew(memory.Options{})}, 2)
					if *trace {
						fmt.Printf("%-16v shared %2d: %.3f of %d, %d denied\n", limit.Algorithm(), workers, r.used(),
							r.most, r.denied)
					}
					// Most often none; 15 of 1200 by the order in which workers ask.
					if share := float64(r.denied) / float64(r.denied+r.allowed); share > 0.02 {
						t.Errorf("%.1f%% were denied (%d of %d)", 100*share, r.denied, r.denied+r.allowed)
					}
					if r.used() < 0.90 {
						t.Errorf("%.1f%% of the limit was used (%d of %d)", 100*r.used(), r.allowed, r.most)
					}
				})
			})
		}
	}
}
