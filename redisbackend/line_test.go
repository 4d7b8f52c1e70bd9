package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/redisbackend"
)

// gate is a hook that holds commands up until it is opened, and counts scripts.
type gate struct {
	mu      sync.Mutex
	closed  chan struct{} // nil: open
	held    atomic.Int64
	scripts atomic.Int64
	before  func() // nil: nothing
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
	g.closed = nil
}

func (g *gate) setBefore(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = f
}

func (g *gate) pass(commands ...redis.Cmder) {
	for _, command := range commands {
		if strings.HasPrefix(command.Name(), "eval") {
			g.scripts.Add(1)
		}
	}
	g.mu.Lock()
	closed, before := g.closed, g.before
	g.mu.Unlock()
	if closed != nil {
		g.held.Add(1)
		<-closed
		g.held.Add(-1)
	}
	if before != nil {
		before()
	}
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		g.pass(command)
		return next(ctx, command)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		g.pass(commands...)
		return next(ctx, commands)
	}
}

// startGate returns a client that has one call under way at a time, and its gate.
func startGate(t *testing.T) (*redis.Client, *gate) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr, PoolSize: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	g := new(gate)
	client.AddHook(g)
	return client, g
}

// queue has a call held up by the gate, and then every group wait behind it, in
// order. It returns what waits for all of them.
func queue(
	t *testing.T, ctx context.Context, b *redisbackend.Bare, g *gate, groups [][]backends.Charge,
) (decisions [][]limits.Decision, errs []error, wait func()) {
	t.Helper()
	decisions, errs = make([][]limits.Decision, len(groups)), make([]error, len(groups))
	redisbackend.WaitForEver(b)
	var callers sync.WaitGroup
	g.close()
	callers.Go(func() {
		first := []backends.Charge{charge("held up", "k", everyAlgorithm[0], 0)}
		if err := b.Take(t.Context(), first, make([]limits.Decision, 1)); err != nil {
			t.Error(err)
		}
	})
	until(t, "a call is held up", func() bool { return g.held.Load() == 1 })
	for i, group := range groups {
		decisions[i] = make([]limits.Decision, len(group))
		callers.Go(func() { errs[i] = b.Take(ctx, group, decisions[i]) })
		for redisbackend.Waiting(b) <= i {
			runtime.Gosched()
		}
	}
	return decisions, errs, callers.Wait
}

func TestOneCallDecidesEqualRequestsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	shadow := func(c backends.Charge) backends.Charge { c.Shadow = true; return c }
	for i, limit := range settled {
		name := fmt.Sprint("algorithm ", i)
		second := charge(name, "second", limits.FixedWindow(limits.PerMinute(20)), 1)
		for what, group := range map[string][]backends.Charge{
			"one key":          {charge(name, "k", limit, 3)},
			"two keys":         {charge(name, "two", limit, 1), second},
			"shadow":           {charge(name, "shadow", limit, 2), shadow(charge(name, "other", limit, 4))},
			"a key of both":    {charge(name, "both", limit, 2), shadow(charge(name, "both", limit, 1))},
			"never":            {charge(name, "never", limit, 11)},
			"nothing is taken": {charge(name, "nothing", limit, 0)},
			"lasting":          {lasting(name, "lasting", limit, 2), second},
			"lasting shadow":   {lasting(name, "lasts", limit, 2), shadow(lasting(name, "lasts", limit, 1))},
		} {
			b := bareAt(client, clock)
			store := memory.MustNew(memory.Options{MaxKeys: 1 << 10, Clock: clock})
			for round := range 3 {
				now = now.Add(time.Duration(1+round) * 1_234_567 * time.Microsecond)
				if round == 2 {
					now = now.Add(-20 * time.Millisecond) // the clock steps back
				}
				groups := slices.Repeat([][]backends.Charge{group}, 14)
				g.scripts.Store(0)
				decisions, errs, wait := queue(t, t.Context(), b, g, groups)
				g.open()
				wait()
				for j := range groups {
					if errs[j] != nil {
						t.Fatal(errs[j])
					}
					want := take(t, store, group...)
					if diff := cmp.Diff(withTickets(group, want), withTickets(group, decisions[j])); diff != "" {
						t.Fatalf("%v, %s, round %d, request %d: memory (-), Redis (+):\n%s", limit, what, round, j+1, diff)
					}
				}
				if n := g.scripts.Load(); n > 4 { // what was held up, and all others; twice if the script was not known
					t.Errorf("%v, %s: 14 equal requests took %d scripts", limit, what, n)
				}
			}
		}
	}
}

func TestRequestsThatWaitAreSentInOnePipeline(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	limit := limits.LeakyBucket(limits.PerDay(1), 400)
	var groups [][]backends.Charge
	for i := range 600 {
		groups = append(groups, []backends.Charge{charge("s", fmt.Sprint(i%3), limit, 1)})
	}
	for i := range 40 {
		groups = append(groups, []backends.Charge{charge("distinct", fmt.Sprint(i), limit, 1)})
	}
	for _, known := range []bool{true, false} {
		if !known {
			ok(t, client.ScriptFlush(t.Context()).Err())
		}
		decisions, errs, wait := queue(t, t.Context(), b, g, groups)
		g.open()
		wait()
		for i, err := range errs {
			if err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			if !decisions[i][0].Allowed {
				t.Fatalf("request %d is denied: %+v", i, decisions[i][0])
			}
		}
	}
}

func TestACrowdAboveWhatOneCallDecidesGetsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	const most = 600
	groups := slices.Repeat([][]backends.Charge{{charge("s", "k", limits.LeakyBucket(limits.PerDay(1), most), 1)}}, 1000)
	decisions, errs, wait := queue(t, t.Context(), b, g, groups)
	g.scripts.Store(0)
	g.open()
	wait()
	for i := range groups {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if want := i < most; decisions[i][0].Allowed != want || want && decisions[i][0].Remaining != int64(most-1-i) {
			t.Fatalf("request %d of %d: %+v", i+1, most, decisions[i][0])
		}
	}
	if n := g.scripts.Load(); n > 8 { // what was held up, 128 requests each, and once more if the script was not known
		t.Errorf("1000 equal requests took %d scripts", n)
	}
}

func TestWhoLeavesBeforeItsTurnTakesNothing(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	limit := limits.LeakyBucket(limits.PerDay(1), 10)
	ctx, leave := context.WithCancel(t.Context())
	groups := [][]backends.Charge{
		{charge("s", "k", limit, 1)}, {charge("s", "k", limit, 1)}, {charge("s", "other", limit, 1)},
		{charge("s", "k", limit, 2)},
	}
	_, errs, wait := queue(t, ctx, b, g, groups)
	leave()
	until(t, "nobody waits", func() bool { return redisbackend.Waiting(b) == 0 })
	g.open()
	wait()
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("request %d: got %v", i, err)
		}
	}
	for _, key := range []string{"k", "other"} {
		if d := take(t, b, charge("s", key, limit, 0))[0]; d.Remaining != 10 {
			t.Errorf("%s: %d of 10 remain", key, d.Remaining)
		}
	}
}

func TestAConnectionOutlivesTheCallerWhoHadItMade(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	var dials atomic.Int64
	connect := make(chan struct{})
	client := redis.NewClient(&redis.Options{
		Addr: server.addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		OnConnect: func(ctx context.Context, _ *redis.Conn) error { // as a slow handshake
			dials.Add(1)
			select {
			case <-connect:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := []backends.Charge{charge("s", "k", limits.LeakyBucket(limits.PerDay(1), 10), 0)} // so that nothing is given back
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := b.Take(ctx, c, make([]limits.Decision, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the time is up", err)
	}
	until(t, "a connection is being made", func() bool { return dials.Load() == 1 })
	close(connect)
	until(t, "it is in the pool", func() bool { return client.PoolStats().IdleConns == 1 })
	take(t, b, c...)
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections were made, want the one that the first caller had made", n)
	}
}

func TestHooksThatEndTheirGoroutineHarmNobodyElse(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("s", "k", limits.LeakyBucket(limits.PerDay(1), 1000), 1)
	for name, before := range map[string]func(){"panic": func() { panic("hook") }, "exit": runtime.Goexit} {
		g.before = before
		groups := [][]backends.Charge{{c}, {c}, {charge("s", "other", c.Limit, 1)}}
		errs := make([]error, len(groups))
		var callers sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context()) // so that no call is made on the caller's goroutine
		for i, group := range groups {
			callers.Go(func() { errs[i] = b.Take(ctx, group, make([]limits.Decision, 1)) })
		}
		callers.Wait()
		cancel()
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "hook") {
				t.Errorf("%s: request %d: got %v", name, i, err)
			}
		}
		g.before = nil
		take(t, b, c)
	}
}

func TestNoGoroutineIsLeftWhenNothingHappens(t *testing.T) {
	client, _ := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	take(t, b, charge("s", "k", everyAlgorithm[0], 1))
	before := runtime.NumGoroutine()
	var callers sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for i := range 200 {
		callers.Go(func() {
			_ = b.Take(ctx, []backends.Charge{charge("s", fmt.Sprint(i%50), everyAlgorithm[0], 1)}, make([]limits.Decision, 1))
		})
	}
	callers.Wait()
	until(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

func TestALostReplyIsAnErrorOfAllWhomItAnswers(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	client := redis.NewClient(&redis.Options{
		Addr: startRedis(t).addr, PoolSize: 1, MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: loser(&lose),
	})
	defer client.Close()
	g := new(gate)
	client.AddHook(g)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	limit := limits.LeakyBucket(limits.PerDay(1), 10)
	take(t, b, charge("s", "k", limit, 1))
	_, errs, wait := queue(t, t.Context(), b, g, slices.Repeat([][]backends.Charge{{charge("s", "k", limit, 1)}}, 5))
	g.mu.Lock()
	g.before = func() { lose.Store(g.scripts.Load() > 2) } // not of what was held up
	g.scripts.Store(2)
	g.mu.Unlock()
	g.open()
	wait()
	for i, err := range errs {
		if err == nil {
			t.Errorf("request %d: no error", i)
		}
	}
	g.before = nil
	lose.Store(false)
	if d := take(t, b, charge("s", "k", limit, 0))[0]; d.Remaining != 4 {
		t.Errorf("%d remain, want 4: what was taken without a reply stays taken", d.Remaining)
	}
}

// Resets that wait are one call, which forgets the key of each.
func TestResetsThatWaitForgetAllTheirKeys(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: uniquePrefix()})
	limit := limits.FixedWindow(limits.PerDay(10))
	keys := []string{"a", "b", "c", "b"}
	for _, key := range keys {
		take(t, b, charge("s", key, limit, 3))
	}
	errs := make([]error, len(keys))
	redisbackend.WaitForEver(b)
	var callers sync.WaitGroup
	g.close()
	callers.Go(func() {
		b.Take(t.Context(), []backends.Charge{charge("held up", "k", limit, 0)}, make([]limits.Decision, 1))
	})
	until(t, "a call is held up", func() bool { return g.held.Load() == 1 })
	for i, key := range keys {
		callers.Go(func() { errs[i] = b.Reset(t.Context(), "s", key) })
		until(t, "a reset waits", func() bool { return redisbackend.Waiting(b) > i })
	}
	g.open()
	callers.Wait()
	ok(t, errors.Join(errs...))
	for _, key := range keys {
		if d := take(t, b, charge("s", key, limit, 0))[0]; d.Remaining != 10 {
			t.Errorf("%s: %d of 10 remain after a reset", key, d.Remaining)
		}
	}
}
