package remote_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// A limit that is leased, for 50 ms: 50 units less.
var leased = limits.TokenBucket(limits.PerSecond(1000), 1000)

// leaseBackend is a backend far away: it counts what it is asked, and fails on purpose.
type leaseBackend struct {
	*memory.Memory
	mu    sync.Mutex
	calls int
	err   error
	gate  chan struct{} // nil: answers are not held up
	begin chan struct{} // nil: blocks are asked for at once

	noBlocks bool // fails where more than 4 units are asked for
}

func newLeaseBackend() *leaseBackend {
	return &leaseBackend{Memory: memory.MustNew(memory.Options{})}
}

func (b *leaseBackend) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	b.mu.Lock()
	err, gate, begin := b.err, b.gate, b.begin
	if b.noBlocks && charges[0].Cost > 4 {
		err = errors.New("down")
	}
	b.calls++
	b.mu.Unlock()
	if err != nil {
		return err
	}
	if begin != nil && charges[0].Cost > 4 {
		<-begin
	}
	err = b.Memory.Take(ctx, charges, out)
	if gate != nil && charges[0].Cost > 4 {
		<-gate
	}
	return err
}

func (b *leaseBackend) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *leaseBackend) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// left returns what remains of a key in the backend.
func (b *leaseBackend) left(t *testing.T, key string, limit limits.Limit) int64 {
	t.Helper()
	tight, _ := remote.Leased(limit, time.Second)
	out := make([]limits.Decision, 1)
	if err := b.Peek(t.Context(), []backends.Charge{{Scope: "s", Key: key, Limit: tight}}, out); err != nil {
		t.Fatal(err)
	}
	return out[0].Remaining
}

// busy has a key charged until there is a block, and returns what else it charges. A block
// that a charge has asked for is there before the next charge.
func busy(t *testing.T, b backends.Backend, limit limits.Limit) backends.Charge {
	t.Helper()
	ch := backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}
	for range 8 {
		if d := takeOf(t, b, ch); !d.Allowed {
			t.Fatalf("denied: %+v", d)
		}
		synctest.Wait()
	}
	return ch
}

func takeOf(t *testing.T, b backends.Backend, charges ...backends.Charge) limits.Decision {
	t.Helper()
	out := make([]limits.Decision, len(charges))
	if err := b.Take(t.Context(), charges, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func TestABusyKeyIsDecidedInThisProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLeaseBackend()
		inner.begin = make(chan struct{}) // after the last charge, whoever runs first
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		ch := busy(t, cache, leased)
		close(inner.begin)
		synctest.Wait()
		asked := inner.asked()
		if asked != 9 {
			t.Fatalf("%d calls, want 8 of charges and one for a block", asked)
		}
		d := takeOf(t, cache, ch)
		want := limits.Decision{
			Allowed: true, Source: limits.SourceLease, Remaining: 950 - 8 - 1,
			ResetAfter: 24 * time.Millisecond, EffectiveWindow: 941 * time.Millisecond, At: time.Now().UnixMicro(),
			Ticket: d.Ticket,
		}
		if d != want || inner.asked() != asked {
			t.Errorf("got %+v\nwant %+v, and nobody asked", d, want)
		}
	})
}

func TestAQuietKeyIsNotLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLeaseBackend()
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		ch := backends.Charge{Scope: "s", Key: "k", Limit: leased, Cost: 1}
		for range 100 {
			if d := takeOf(t, cache, ch); d.Source != limits.SourcePrimary {
				t.Fatalf("got %+v", d)
			}
			time.Sleep(8 * time.Millisecond) // 7 in a lease
		}
	})
}

func TestUnitsAreSpentForALease(t *testing.T) { testTheEndOfALease(t, true) }

func TestUnitsAreNotSpentAfterTheLeaseAndReturn(t *testing.T) { testTheEndOfALease(t, false) }

func testTheEndOfALease(t *testing.T, early bool) {
	for _, limit := range []limits.Limit{
		leased, limits.SlidingWindow(limits.PerSecond(1000)), limits.FixedWindow(limits.PerSecond(1000)),
		limits.SlidingLog(limits.PerSecond(1000)),
	} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newLeaseBackend()
				cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
				ch := busy(t, cache, limit)
				_, lease := remote.Leased(limit, time.Second)
				end := time.Now().Add(lease - time.Millisecond)
				before := inner.left(t, "k", limit)
				if limit.Algorithm() == limits.AlgorithmTokenBucket {
					before = 950 - 8 // all has drained by the end
				}
				time.Sleep(time.Until(end) - time.Microsecond)
				if early {
					if d := takeOf(t, cache, ch); d.Source != limits.SourceLease {
						t.Errorf("just before the end: %+v", d)
					}
					return
				}
				time.Sleep(time.Microsecond)
				synctest.Wait()
				after := inner.left(t, "k", limit)
				if d := takeOf(t, cache, ch); d.Source != limits.SourcePrimary {
					t.Errorf("at the end: %+v", d)
				}
				if after <= before {
					t.Errorf("%d remain after the end, %d before: nothing has returned", after, before)
				}
			})
		})
	}
}

// All that a window does not spend is void with it, and none of it is spent in the next.
func TestUnitsOfAWindowEndWithIt(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.FixedWindow(limits.PerSecond(1000)), limits.Calendar(100_000_000, limits.Day),
		limits.Calendar(100_000_000, limits.Week.In("Asia/Kathmandu")),
	} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newLeaseBackend()
				cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
				_, end, _ := limit.Window(time.Now())
				time.Sleep(time.Until(end) - 20*time.Millisecond)
				ch := busy(t, cache, limit)
				if d := takeOf(t, cache, ch); d.Source != limits.SourceLease || d.EffectiveWindow != 20*time.Millisecond {
					t.Errorf("in the window: %+v", d)
				}
				time.Sleep(19 * time.Millisecond)
				if d := takeOf(t, cache, ch); d.Source != limits.SourcePrimary {
					t.Errorf("a millisecond before its end: %+v", d)
				}
			})
		})
	}
}

func TestWhileTheBackendFailsWhatIsHeldIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLeaseBackend()
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		ch := busy(t, cache, leased)
		down := errors.New("down")
		inner.fail(down)
		out := make([]limits.Decision, 1)
		spent := 0
		for cache.Take(t.Context(), []backends.Charge{ch}, out) == nil {
			spent++
		}
		if spent != 16 {
			t.Errorf("%d units are spent, want a block of 16", spent)
		}
		synctest.Wait()
		inner.fail(nil)
		if d := takeOf(t, cache, ch); d.Source != limits.SourcePrimary {
			t.Errorf("back: %+v", d)
		}
		if left := inner.left(t, "k", leased); left != 950-8-16-1 {
			t.Errorf("%d remain: the units of the failure count twice or not at all", left)
		}
	})
}

func TestARequestThatAnotherRuleDeniesReturnsItsUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := limits.TokenBucket(limits.PerMinute(6000), 10_000) // leased for a second
		inner := newLeaseBackend()
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		ch := busy(t, cache, slow)
		other := backends.Charge{Scope: "other", Key: "k", Limit: limits.AnchoredWindow(limits.PerHour(1)), Cost: 1}
		before := takeOf(t, cache, ch).Remaining
		for i := range 40 {
			out := make([]limits.Decision, 2)
			if err := cache.Take(t.Context(), []backends.Charge{ch, other}, out); err != nil {
				t.Fatal(err)
			}
			if !out[0].Allowed || out[0].Source != limits.SourceLease || out[1].Allowed != (i == 0) ||
				out[0].Remaining != before-1 {
				t.Fatalf("request %d: %+v", i, out)
			}
		}
		inner.fail(errors.New("down"))
		for range 40 {
			if err := cache.Take(t.Context(), []backends.Charge{ch, other}, make([]limits.Decision, 2)); err == nil {
				t.Fatal("no error")
			}
		}
		if d := takeOf(t, cache, ch); d.Source != limits.SourceLease || d.Remaining != before-2 {
			t.Errorf("after 80 requests that did not go on: %+v, want %d", d, before-2)
		}
	})
}

func TestARequestOfLeasedRulesAloneAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLeaseBackend()
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		a := backends.Charge{Scope: "s", Key: "a", Limit: leased, Cost: 1}
		b := backends.Charge{
			Scope: "s", Key: "b", Limit: limits.SlidingWindow(limits.PerMinute(10_000)), Cost: 2, Shadow: true,
		}
		for range 8 {
			takeOf(t, cache, a, b)
		}
		synctest.Wait()
		asked := inner.asked()
		out := make([]limits.Decision, 2)
		if err := cache.Take(t.Context(), []backends.Charge{a, b}, out); err != nil ||
			out[0].Source != limits.SourceLease || out[1].Source != limits.SourceLease {
			t.Errorf("got %+v, %v", out, err)
		}
		if inner.asked() != asked {
			t.Error("somebody was asked")
		}
	})
}

// One key charged twice is one charge of the sum, which only the backend decides.
func TestTwoChargesOfOneKeyAreTheBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLeaseBackend()
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		ch := busy(t, cache, leased)
		if d := takeOf(t, cache, ch, ch); d.Source != limits.SourcePrimary {
			t.Errorf("got %+v", d)
		}
		ch.Cost = 0
		if d := takeOf(t, cache, ch); d.Source != limits.SourcePrimary {
			t.Errorf("a look: %+v", d)
		}
	})
}

func TestALeasedLimitIsAskedForInATighterForm(t *testing.T) {
	second := limits.PerSecond(1000)
	for _, tt := range []struct {
		limit, tight limits.Limit
		lease        time.Duration
	}{
		{limits.TokenBucket(second, 1000), limits.TokenBucket(second, 950), 50 * time.Millisecond},
		{limits.LeakyBucket(second, 1000), limits.LeakyBucket(second, 950), 50 * time.Millisecond},
		{limits.SlidingLog(second), limits.SlidingLog(limits.Per(1000, 1020*time.Millisecond)), 20 * time.Millisecond},
		{limits.FixedWindow(second), limits.FixedWindow(second), 50 * time.Millisecond},
		{limits.SlidingWindow(second), limits.SlidingWindow(second), 50 * time.Millisecond},
		{limits.Calendar(1e8, limits.Day), limits.Calendar(1e8, limits.Day), time.Second},
	} {
		if tight, lease := remote.Leased(tt.limit, time.Second); tight != tt.tight || lease != tt.lease {
			t.Errorf("%v: %v for %v, want %v for %v", tt.limit, tight, lease, tt.tight, tt.lease)
		}
	}
}

func TestWhatIsNotLeasedIsAskedForAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []limits.Limit{
			limits.LeakyQueue(limits.PerSecond(1000), 1000), limits.AnchoredWindow(limits.PerSecond(1000)),
			limits.Concurrent(100),
			limits.Ban(limits.PerSecond(1000), time.Minute), limits.TokenBucket(limits.PerSecond(1000), 19),
			limits.SlidingWindow(limits.PerSecond(15)),
			limits.TokenBucket(limits.PerSecond(1000), 150), limits.FixedWindow(limits.PerMinute(359)),
			limits.TokenBucket(limits.PerHour(1000), 1000),
		} {
			tight, lease := remote.Leased(limit, time.Second)
			if tight != limit || lease != 0 {
				t.Errorf("%v is leased: %v for %v", limit, tight, lease)
			}
			inner := newLeaseBackend()
			cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
			for i := range 12 {
				d := takeOf(t, cache, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1})
				if d.Source != limits.SourcePrimary || !d.Allowed {
					t.Errorf("%v, charge %d: %+v", limit, i, d)
				}
			}
		}
	})
}

// The block was charged before the reset, and so was one that is still on its way.
func TestAResetMakesUnitsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLeaseBackend()
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		ch := busy(t, cache, leased)
		if err := cache.Reset(t.Context(), "s", "k"); err != nil {
			t.Fatal(err)
		}
		if d := takeOf(t, cache, ch); d.Source != limits.SourcePrimary || d.Remaining != 949 {
			t.Errorf("after a reset: %+v", d)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		inner.gate = make(chan struct{})
		for range 8 {
			takeOf(t, cache, ch)
		}
		synctest.Wait() // for the block, which is on its way
		if err := cache.Reset(t.Context(), "s", "k"); err != nil {
			t.Fatal(err)
		}
		close(inner.gate)
		synctest.Wait()
		if d := takeOf(t, cache, ch); d.Source != limits.SourcePrimary || d.Remaining != 949 {
			t.Errorf("after a reset with a block on its way: %+v", d)
		}
	})
}

// A reset takes a while to arrive. Units that are taken meanwhile are of before it, and must
// not be spent on top of the fresh limit.
func TestNoUnitsTakenDuringAResetAreSpentAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &slowReset{newLeaseBackend()}
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		reset := make(chan error)
		go func() { reset <- cache.Reset(t.Context(), "s", "k") }()
		synctest.Wait() // it is on its way
		ch := busy(t, cache, leased)
		time.Sleep(5 * time.Millisecond) // it has arrived, its answer is on its way
		if d := takeOf(t, cache, ch); d.Source != limits.SourcePrimary || d.Remaining != 949 {
			t.Errorf("between a reset and its answer: %+v", d)
		}
		if err := <-reset; err != nil {
			t.Fatal(err)
		}
		if d := takeOf(t, cache, busy(t, cache, leased)); d.Source != limits.SourceLease {
			t.Errorf("after it: %+v", d)
		}
	})
}

// slowReset is a backend to which a reset takes 4 ms, and its answer as long.
type slowReset struct{ *leaseBackend }

func (b *slowReset) Reset(ctx context.Context, scope, key string) error {
	time.Sleep(4 * time.Millisecond)
	defer time.Sleep(4 * time.Millisecond)
	return b.leaseBackend.Reset(ctx, scope, key)
}

// Units that requests have not used return to the block, and count once.
func TestAnEndReturnsUnitsToTheBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLeaseBackend()
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		limiter := core.MustNew(core.Config[string]{
			Backend: cache,
			Rules: []core.Rule[string]{{
				Name: "s", Limit: limits.SlidingWindow(limits.PerMinute(10_000)),
				Key:  func(k string) (string, error) { return k, nil },
				Cost: func(string) int64 { return 3 }, FinalCost: func(core.Result) int64 { return 1 },
			}},
		})
		var last core.Outcome
		for range 200 {
			last = limiter.Decide(t.Context(), "k")
			if !last.Allowed() {
				t.Fatalf("got %+v", last.At(0))
			}
			last.End(core.Result{})
			synctest.Wait()
		}
		if got := last.At(0).Source; got != limits.SourceLease {
			t.Errorf("the last is of %v", got)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if left := inner.left(t, "k", limits.SlidingWindow(limits.PerMinute(10_000))); left != 10_000-200 {
			t.Errorf("%d units are in use, want 200", 10_000-left)
		}
	})
}

// What is decided from a block allocates nothing.
func TestALeasedDecisionAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := limits.SlidingWindow(limits.PerMinute(1_000_000_000))
		cache := remote.MustNewLeaseCache(newLeaseBackend(), remote.LeaseOptions{})
		ch := busy(t, cache, limit)
		for range 100 {
			for range 16 {
				takeOf(t, cache, ch)
			}
			synctest.Wait()
		}
		charges, out := []backends.Charge{ch}, make([]limits.Decision, 1)
		if n := testing.AllocsPerRun(100, func() { _ = cache.Take(context.Background(), charges, out) }); n > 0.1 ||
			out[0].Source != limits.SourceLease {
			t.Errorf("%v allocations, by %v", n, out[0].Source)
		}
	})
}
