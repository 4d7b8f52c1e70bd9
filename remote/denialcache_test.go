package remote_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// counted is a backend that counts how often it is asked.
type counted struct {
	*memory.Memory
	asked int
	slow  time.Duration // before it decides

	slowAfter time.Duration // it has decided
}

func (c *counted) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	c.asked++
	time.Sleep(c.slow)
	err := c.Memory.Take(ctx, charges, out)
	time.Sleep(c.slowAfter)
	return err
}

func bubble(t *testing.T, test func(t *testing.T, inner *counted, cache *remote.DenialCache)) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counted{Memory: memory.MustNew(memory.Options{})}
		test(t, inner, remote.MustNewDenialCache(inner, remote.DenialCacheOptions{}))
	})
}

func (c *counted) askedTimes(t *testing.T, want int) {
	t.Helper()
	if c.asked != want {
		t.Fatalf("the inner backend was asked %d times, want %d", c.asked, want)
	}
}

func TestADenialIsRememberedUntilItsRetryAfter(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		limit := limits.TokenBucket(limits.Per(1, 4*time.Second), 1)
		asking.Allowed(t, cache, "k", limit, 1)
		asking.Denied(t, cache, "k", limit, 1)
		inner.askedTimes(t, 2)
		for wait := 4 * time.Second; wait > 0; wait -= time.Second {
			d := asking.Take(t, cache, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1})
			want := limits.Decision{
				Source: limits.SourceDenialCache, RetryAfter: wait, ResetAfter: wait, EffectiveWindow: wait,
				At: time.Now().UnixMicro(),
			}
			if d != want {
				t.Fatalf("got  %+v\nwant %+v", d, want)
			}
			time.Sleep(time.Second)
		}
		inner.askedTimes(t, 2)
		asking.Allowed(t, cache, "k", limit, 1)
		inner.askedTimes(t, 3)
	})
}

func TestADenialCountsFromWhenTheQuestionWasSent(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		limit := limits.TokenBucket(limits.Per(1, 4*time.Second), 1)
		asking.Allowed(t, cache, "k", limit, 1)
		inner.slow = time.Second
		asking.Denied(t, cache, "k", limit, 1) // sent now, answered in a second: retry after 3s
		d := asking.Take(t, cache, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1})
		if d.RetryAfter != 2*time.Second {
			t.Errorf("retry after %v, want 3s less the second it took", d.RetryAfter)
		}
		time.Sleep(2*time.Second - time.Microsecond)
		asking.Denied(t, cache, "k", limit, 1)
		inner.askedTimes(t, 2)
		time.Sleep(time.Microsecond)
		asking.Allowed(t, cache, "k", limit, 1)
	})
}

func TestADenialIsBelievedForMaxAgeAtMost(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		hour := limits.FixedWindow(limits.PerDay(1))
		asking.Allowed(t, cache, "k", hour, 1)
		for _, cost := range []int64{1, 2} { // 2 is Never
			asking.Denied(t, cache, "k", hour, cost)
			asked := inner.asked
			time.Sleep(10*time.Second - time.Microsecond)
			if d := asking.Take(t, cache, backends.Charge{Scope: "s", Key: "k", Limit: hour, Cost: cost}); cost == 2 &&
				d.RetryAfter != limits.Never {
				t.Errorf("Never counted down to %v", d.RetryAfter)
			}
			inner.askedTimes(t, asked)
			time.Sleep(time.Microsecond)
			asking.Denied(t, cache, "k", hour, cost)
			inner.askedTimes(t, asked+1)
		}
	})
}

func TestADenialAnswersOnlyItsOwnQuestion(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		limit := limits.FixedWindow(limits.PerDay(2))
		asking.Allowed(t, cache, "k", limit, 1)
		asking.Denied(t, cache, "k", limit, 2)
		asked := inner.asked
		// another cost
		asking.Allowed(t, cache, "k", limit, 0)
		// another cost
		asking.Allowed(t, cache, "k", limit, 1)
		// another key
		asking.Allowed(t, cache, "other", limit, 2)
		// another limit
		asking.Allowed(t, cache, "k", limits.FixedWindow(limits.PerDay(4)), 2)
		// another scope
		if d := asking.Take(t, cache, backends.Charge{Scope: "scope", Key: "k", Limit: limit, Cost: 2}); !d.Allowed ||
			d.Source != limits.SourcePrimary {
			t.Errorf("another scope: %+v", d)
		}
		inner.askedTimes(t, asked+5)
		asking.Denied(t, cache, "k", limit, 2)
		inner.askedTimes(t, asked+5)
	})
}

func TestOtherChargesOfACachedDenialAreNotAsked(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		limit := limits.FixedWindow(limits.PerDay(1))
		asking.Allowed(t, cache, "k", limit, 1)
		asking.Denied(t, cache, "k", limit, 1)
		inner.asked = 0
		out := make([]limits.Decision, 2)
		cache.Take(t.Context(), []backends.Charge{
			{Scope: "s", Key: "other", Limit: limit, Cost: 1}, {Scope: "s", Key: "k", Limit: limit, Cost: 1},
		}, out)
		if out[0] != (limits.Decision{Allowed: true, Source: limits.SourceNotAsked}) || out[1].Allowed ||
			out[1].Source != limits.SourceDenialCache {
			t.Errorf("other %+v, denied %+v", out[0], out[1])
		}
		inner.askedTimes(t, 0)
		asking.Allowed(t, cache, "other", limit, 1) // it took nothing
	})
}

func TestDenialsThatStandInNobodysWayAreNotCached(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		limit := limits.FixedWindow(limits.PerDay(1))
		shadow := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1, Shadow: true}}
		twice := []backends.Charge{
			{Scope: "s", Key: "twice", Limit: limit, Cost: 1}, {Scope: "s", Key: "twice", Limit: limit, Cost: 1},
		}
		out := make([]limits.Decision, 2)
		for i := range 3 {
			cache.Take(t.Context(), shadow, out[:1])
			cache.Take(t.Context(), twice, out) // denied as one charge of 2
			inner.askedTimes(t, 2*(i+1))
		}
		asking.Allowed(t, cache, "twice", limit, 1)
	})
}

func TestResetForgetsADenial(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		limit := limits.FixedWindow(limits.PerDay(2))
		asking.Allowed(t, cache, "k", limit, 2)
		asking.Denied(t, cache, "k", limit, 1)
		asking.Denied(t, cache, "k", limit, 2)
		if err := backends.Reset(t.Context(), cache, "s", "k"); err != nil {
			t.Fatal(err)
		}
		asking.Allowed(t, cache, "k", limit, 1)
		if n, err := backends.Count(t.Context(), cache); n != 1 || err != nil {
			t.Errorf("count through the cache: %d, %v", n, err)
		}
		out := make([]limits.Decision, 1)
		charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}
		if err := backends.Peek(t.Context(), cache, charges, out); err != nil || !out[0].Allowed {
			t.Errorf("peek through the cache: %+v, %v", out[0], err)
		}
	})
}

// A denial that was asked for before the reset must not come in after it.
func TestResetWinsOverADenialInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		limit := limits.FixedWindow(limits.PerDay(1))
		asking.Allowed(t, cache, "k", limit, 1)
		inner.slowAfter = time.Second
		go func() { // denied now, known in a second
			cache.Take(t.Context(), []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}, make([]limits.Decision, 1))
		}()
		synctest.Wait()
		inner.slowAfter = 0
		backends.Reset(t.Context(), cache, "s", "k")
		time.Sleep(2 * time.Second)
		asking.Allowed(t, cache, "k", limit, 1)
	})
}

func TestTheCachesOfManyInstancesAllowNoMoreThanTheirBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := memory.MustNew(memory.Options{})
		limit := limits.FixedWindow(limits.PerDay(100))
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			cache := remote.MustNewDenialCache(far, remote.DenialCacheOptions{MaxEntries: 8})
			wg.Go(func() {
				out := make([]limits.Decision, 1)
				for range 10 {
					charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}
					if err := cache.Take(t.Context(), charges, out); err != nil {
						t.Error(err)
					} else if out[0].Allowed {
						admitted.Add(1)
					}
					time.Sleep(time.Second)
				}
			})
		}
		wg.Wait()
		if n := admitted.Load(); n != 100 {
			t.Errorf("%d allowed at a limit of 100", n)
		}
	})
}

func TestAnErrorIsNoDenial(t *testing.T) {
	b := &asking.Broken{Err: errBroken}
	cache := remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
	charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerDay(1)), Cost: 1}}
	for range 3 {
		if err := cache.Take(t.Context(), charges, make([]limits.Decision, 1)); err != errBroken {
			t.Errorf("error %v, want the inner backend's", err)
		}
	}
	if b.Asked != 3 {
		t.Errorf("asked %d times, want 3", b.Asked)
	}
	if err := cache.Take(t.Context(), charges, nil); err == nil {
		t.Error("no room for the decision: want an error")
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counted{Memory: memory.MustNew(memory.Options{})}
		cache := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{MaxEntries: 4})
		for i := range 100 {
			asking.Allowed(t, cache, fmt.Sprint(i), limits.FixedWindow(limits.PerDay(1)), 1)
			asking.Denied(t, cache, fmt.Sprint(i), limits.FixedWindow(limits.PerDay(1)), 1)
		}
		inner.asked = 0
		for i := range 100 {
			asking.Denied(t, cache, fmt.Sprint(i), limits.FixedWindow(limits.PerDay(1)), 1)
		}
		if inner.asked < 96 {
			t.Errorf("asked %d times of 100: more than 4 denials were remembered", inner.asked)
		}
	})
}

func BenchmarkDenialFromTheCache(b *testing.B) {
	cache := remote.MustNewDenialCache(memory.MustNew(memory.Options{}), remote.DenialCacheOptions{})
	charges := []backends.Charge{
		{Scope: "per-client", Key: "198.51.100.7", Limit: limits.TokenBucket(limits.PerDay(1), 1), Cost: 1},
	}
	out := make([]limits.Decision, 1)
	b.ReportAllocs()
	for b.Loop() {
		cache.Take(context.Background(), charges, out)
	}
}

func TestTheDenialOfAValueIsNotRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		limit := limits.Distinct(limits.PerHour(1))
		charge := backends.Charge{Scope: "login", Key: "k", Limit: limit, Cost: 1}
		for i, name := range []string{"ann", "bob", "bob", "ann"} {
			charge.Value = asking.Value(name)
			d := asking.Take(t, cache, charge)
			if d.Allowed != (name == "ann") || d.Source != limits.SourcePrimary {
				t.Errorf("%s: %+v", name, d)
			}
			inner.askedTimes(t, i+1)
		}
	})
}

func TestACallerMayRememberWhatItAskedItself(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		ch := backends.Charge{Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(9)), Cost: 9, Shadow: true}
		denial := limits.Decision{Remaining: 4, RetryAfter: time.Minute, ResetAfter: time.Minute}
		recalls := func(want bool) {
			t.Helper()
			var out limits.Decision
			switch got := cache.Recall(&ch, &out, false); {
			case got != want:
				t.Fatalf("recalls: %v", got)
			case got && (out.Allowed || out.Remaining != 4 || out.Source != limits.SourceDenialCache):
				t.Fatalf("recalls %+v", out)
			}
		}
		recalls(false)
		for _, change := range []func(*limits.Decision){
			func(d *limits.Decision) { d.Allowed = true },
			func(d *limits.Decision) { d.Transient = true },
		} {
			d := denial
			change(&d)
			cache.Remember(&ch, &d, time.Now())
			recalls(false)
		}
		cache.Remember(&ch, &denial, time.Now().Add(-time.Minute)) // it is over
		recalls(false)
		cache.Remember(&ch, &denial, time.Now())
		recalls(true)
		time.Sleep(10 * time.Second)
		recalls(false)
		if !cache.Recall(&ch, new(limits.Decision), true) {
			t.Error("a failing backend has denials forgotten")
		}
		cache.Remember(&ch, &denial, time.Now())
		if err := cache.Reset(t.Context(), "s", "k"); err != nil {
			t.Fatal(err)
		}
		recalls(false)
		cache.Remember(&ch, &denial, time.Now().Add(-time.Microsecond)) // asked before the reset
		recalls(false)
	})
}

func TestNoCallerRemembersWhatMayBeOverAtAnyTime(t *testing.T) {
	bubble(t, func(t *testing.T, inner *counted, cache *remote.DenialCache) {
		hour := limits.PerHour(1)
		for _, ch := range []backends.Charge{
			{Scope: "s", Key: "k", Limit: limits.FixedWindow(hour)}, // costs nothing
			{Scope: "s", Key: "k", Limit: limits.Distinct(hour), Cost: 1},
			{Scope: "s", Key: "k", Limit: limits.Concurrent(1), Cost: 1},
		} {
			cache.Remember(&ch, &limits.Decision{RetryAfter: time.Minute}, time.Now())
			if cache.Recall(&ch, new(limits.Decision), false) {
				t.Errorf("recalls a denial of %v, cost %d", ch.Limit, ch.Cost)
			}
		}
	})
}
