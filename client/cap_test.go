package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

var illegal = limits.SlidingLog(limits.PerMinute(1_000_000))

func TestACapOfOnesOwnIsKept(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(10), 1), limits.LeakyQueue(limits.PerSecond(10), 100),
		limits.SlidingLog(limits.PerSecond(10)),
	} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(always(200))
				c := newClient(t, server, client.Options{Limit: limit})
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						if _, err := get(c, "http://a/"); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				for i := range server.at[10:] {
					if limit.Burst() == 10 && server.at[i+10]-server.at[i] < time.Second {
						t.Fatalf("11 requests in %v", server.at[i+10]-server.at[i])
					}
				}
				if elapsed := time.Since(server.began); elapsed < 9*time.Second || elapsed > 12*time.Second {
					t.Errorf("100 requests took %v, want some 10s", elapsed)
				}
			})
		})
	}
}

func TestACapOfRequestsAtOnceIsHeldUntilTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.MustNew(memory.Options{})
		var mu sync.Mutex
		inside, most := 0, 0
		server := scripted(func(int, *http.Request) *http.Response {
			mu.Lock()
			inside++
			most = max(most, inside)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inside--
			mu.Unlock()
			return answer(200)
		})
		var wg sync.WaitGroup
		for range 2 { // processes
			c := newClient(t, server, client.Options{Limit: limits.Concurrent(3), Backend: backend, MaxWait: time.Hour})
			for range 10 {
				wg.Go(func() {
					if _, err := get(c, "http://a/"); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if most != 3 || server.count() != 20 {
			t.Errorf("%d requests, %d at once, want 20 and 3", server.count(), most)
		}
	})
}

type down struct{}

func (down) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.New("no connection")
}

func TestAProcessKeepsTheCapByItselfWhileTheBackendFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(200))
		alone := 0
		c := newClient(t, server, client.Options{
			Limit: limits.TokenBucket(limits.PerSecond(1), 1), Backend: down{},
			Observe: func(e client.Event) {
				if e.Kind == client.Alone {
					alone++
				}
			},
		})
		for range 5 {
			if _, err := get(c, "http://a/"); err != nil {
				t.Fatal(err)
			}
		}
		if elapsed := time.Since(server.began); elapsed < 4*time.Second || elapsed > 5*time.Second || alone < 5 {
			t.Errorf("5 requests took %v, and the failure was reported %d times", elapsed, alone)
		}
	})
}

func TestAWaitForTheCapThatIsTooLongIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(200))
		c := newClient(t, server, client.Options{Limit: limits.FixedWindow(limits.PerDay(1))})
		if _, err := get(c, "http://a/"); err != nil {
			t.Fatal(err)
		}
		_, err := get(c, "http://a/")
		wantWaitError(t, err, time.Hour, "limit")
		if server.count() != 1 {
			t.Errorf("%d requests, want 1", server.count())
		}
	})
}

// late is a context of a request whose goroutine is short of CPU: it runs that much later when it
// begins to wait.
type late struct {
	context.Context
	by   time.Duration
	once *sync.Once
}

func (l late) Done() <-chan struct{} {
	l.once.Do(func() { time.Sleep(l.by) })
	return l.Context.Done()
}

func TestARequestThatIsLateDoesNotWaitForTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(int, *http.Request) *http.Response {
			time.Sleep(5 * time.Second)
			return answer(200)
		})
		c := newClient(t, server, client.Options{
			Limit: limits.LeakyQueue(limits.PerMinute(1), 10), MaxInFlight: 1,
			MaxWait: 10 * time.Second,
		})
		go get(c, "http://a/")
		synctest.Wait()
		_, err := get2(c, late{t.Context(), 15 * time.Second, new(sync.Once)})
		wantWaitError(t, err, 45*time.Second, "limit")
		if elapsed := time.Since(server.began); elapsed != 15*time.Second || server.count() != 1 {
			t.Errorf("the error came after %v and %d requests, want 15s and 1", elapsed, server.count())
		}
	})
}

// remote is a Backend across a network: it takes its time, and counts who asks.
type remote struct {
	*memory.Memory
	mu                  sync.Mutex
	asked, asking, most int
}

func (r *remote) Take(ctx context.Context, charges []backends.Charge, decisions []limits.Decision) error {
	r.mu.Lock()
	r.asked++
	r.asking++
	r.most = max(r.most, r.asking)
	r.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	r.mu.Lock()
	r.asking--
	r.mu.Unlock()
	return r.Memory.Take(ctx, charges, decisions)
}

// Many requests wait for a cap that is used up. They do not all ask the backend whether there
// is more.
func TestOneRequestAsksForACapThatIsUsedUp(t *testing.T) {
	for _, limit := range []limits.Limit{limits.FixedWindow(limits.Per(2, 10*time.Second)),
		limits.TokenBucket(limits.PerSecond(1), 1)} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := &remote{Memory: memory.MustNew(memory.Options{})}
				c := newClient(t, scripted(always(200)), client.Options{Limit: limit, Backend: backend,
					MaxWait: time.Hour})
				for range 2 { // it is known, and used up
					if _, err := get(c, "http://a/"); err != nil {
						t.Fatal(err)
					}
				}
				backend.asked, backend.most = 0, 0
				const requests = 40
				var wg sync.WaitGroup
				for range requests {
					wg.Go(func() {
						if _, err := get(c, "http://a/"); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				// Once each, and once for each window that turns out to be used up.
				if backend.asked > 2*requests || backend.most > 2 {
					t.Errorf("%d requests asked %d times, up to %d at once", requests, backend.asked, backend.most)
				}
			})
		})
	}
}

// stalling is a Backend that can stall: then it decides nothing until a context ends.
type stalling struct {
	*memory.Memory
	stalls atomic.Bool
}

func (s *stalling) Take(ctx context.Context, charges []backends.Charge, decisions []limits.Decision) error {
	if s.stalls.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Memory.Take(ctx, charges, decisions)
}

// Five requests take a unit each, wait for the cap, and are cancelled. They return their units,
// unless told was set to 0 meanwhile: then one of the next five requests goes first.
func TestACancelledRequestReturnsOnlyAUnitThatCounts(t *testing.T) {
	const latency = 3 * time.Second
	for name, test := range map[string]struct {
		told   string
		denies bool
		passes time.Duration // before the cancellation
		atOnce int           // of the next five requests
	}{
		"nothing":   {told: `"a";r=7;t=60`, atOnce: 5},
		"a denial":  {told: `"a";r=100;t=60`, denies: true, passes: 10 * time.Second, atOnce: 1},
		"a renewal": {told: `"a";r=5;t=10`, passes: 10 * time.Second, atOnce: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(n int, _ *http.Request) *http.Response {
					if n > 1 {
						time.Sleep(latency)
					}
					if n == 2 && test.denies {
						return answer(429, "Retry-After", "10")
					}
					return answer(200, "RateLimit", test.told)
				})
				backend := &stalling{Memory: memory.MustNew(memory.Options{})}
				c := newClient(t, server, client.Options{
					Limit: limits.TokenBucket(limits.PerSecond(100), 100), Backend: backend, Attempts: 1,
				})
				get(c, "http://a/")
				var wg sync.WaitGroup
				start := func(n int, ctx context.Context) {
					for range n {
						wg.Go(func() { get2(c, ctx) })
					}
					synctest.Wait()
				}
				if test.denies {
					start(1, t.Context())
				}
				backend.stalls.Store(true)
				ctx, cancel := context.WithCancel(t.Context())
				start(5, ctx)
				time.Sleep(test.passes)
				backend.stalls.Store(false)
				start(5, t.Context())
				cancel()
				wg.Wait()
				if n := server.count(); n < 6 {
					t.Fatalf("%d requests were sent", n)
				}
				next := server.at[len(server.at)-5:]
				atOnce := 0
				for _, at := range next {
					if at < next[0]+latency {
						atOnce++
					}
				}
				if atOnce != test.atOnce {
					t.Errorf("sent at %v: %d before the first answer, want %d", next, atOnce, test.atOnce)
				}
			})
		})
	}
}

// A request that is cancelled while it asks for the cap was never sent. The next starts as if there
// had been none, once the cap is asked again, a second later.
func TestACancelledRequestHoldsNoOtherBack(t *testing.T) {
	for name, test := range map[string]struct {
		told    []string
		options client.Options
		passes  time.Duration // before the cancelled request
		atOnce  int           // of three requests that follow it
	}{
		"it goes first after a renewal": {told: []string{"RateLimit", `"a";r=0;t=8`}, passes: 8 * time.Second, atOnce: 1},
		"it tests a claim": {told: []string{"RateLimit", `"a";r=0;t=86400`},
			options: client.Options{MaxWait: 10 * time.Second}, passes: 10 * time.Second, atOnce: 1},
		"it is spread": {told: []string{"RateLimit", `"a";r=9;t=100`}, options: client.Options{Pace: client.Evenly},
			passes: 10 * time.Second, atOnce: 1},
		"it counts against an account": {options: client.Options{Dialect: client.Discord,
			Account: limits.Rate{Units: 4, Period: 10 * time.Second}}, atOnce: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const latency = 3 * time.Second
				server := scripted(func(n int, _ *http.Request) *http.Response {
					if n > 1 {
						time.Sleep(latency)
					}
					return answer(200, test.told...)
				})
				backend := &stalling{Memory: memory.MustNew(memory.Options{})}
				test.options.Limit, test.options.Backend = limits.TokenBucket(limits.PerSecond(100), 100), backend
				c := newClient(t, server, test.options)
				get(c, "http://a/")
				time.Sleep(test.passes)
				backend.stalls.Store(true)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { get2(c, ctx) })
				synctest.Wait()
				cancel()
				wg.Wait()
				backend.stalls.Store(false)
				cancelled := time.Since(server.began)
				for range 3 {
					wg.Go(func() { get(c, "http://a/") })
				}
				wg.Wait()
				atOnce := 0
				for _, at := range server.at[1:] {
					if at <= cancelled+time.Second {
						atOnce++
					}
				}
				if atOnce != test.atOnce {
					t.Errorf("cancelled at %v, sent at %v: %d at once, want %d", cancelled, server.at, atOnce, test.atOnce)
				}
			})
		})
	}
}
