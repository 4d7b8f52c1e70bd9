package remote_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// faltering is a backend that fails for as long as err is set.
type faltering struct {
	counted
	err error
}

func (b *faltering) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if b.err != nil {
		b.asked++
		return b.err
	}
	return b.counted.Take(ctx, charges, out)
}

// outage has a test begin with a cache that has denied one more unit of "k" than
// its limit has.
func outage(t *testing.T, limit limits.Limit, test func(t *testing.T, inner *faltering, cache *remote.DenialCache)) {
	synctest.Test(t, func(t *testing.T) {
		inner := &faltering{counted: counted{Memory: memory.MustNew(memory.Options{})}}
		cache := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{})
		asking.Allowed(t, cache, "k", limit, limit.Burst())
		asking.Denied(t, cache, "k", limit, 1)
		test(t, inner, cache)
	})
}

var aDay = limits.FixedWindow(limits.PerDay(1))

// gives fails unless taking returns err.
func gives(t *testing.T, b backends.Backend, key string, limit limits.Limit, cost int64, want error) {
	t.Helper()
	err := b.Take(
		t.Context(), []backends.Charge{{Scope: "s", Key: key, Limit: limit, Cost: cost}}, make([]limits.Decision, 1),
	)
	if err != want {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func TestInAnOutageADenialHoldsForAllOfItsRetryAfter(t *testing.T) {
	limit := limits.TokenBucket(limits.Per(1, time.Hour), 1)
	outage(t, limit, func(t *testing.T, inner *faltering, cache *remote.DenialCache) {
		asking.Denied(t, cache, "k", limit, 2) // never
		inner.err = errBroken
		for left := time.Hour; left > 0; left -= time.Minute {
			want := limits.Decision{
				Source: limits.SourceDenialCache, RetryAfter: left, ResetAfter: left, EffectiveWindow: left,
				At: time.Now().UnixMicro(),
			}
			if d := asking.Take(t, cache, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}); d != want {
				t.Fatalf("got  %+v\nwant %+v", d, want)
			}
			gives(t, cache, "other", limit, 1, errBroken)
			time.Sleep(time.Minute)
		}
		gives(t, cache, "k", limit, 1, errBroken)
		time.Sleep(1000 * time.Hour)
		if d := asking.Take(t, cache, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 2}); d.Allowed ||
			d.RetryAfter != limits.Never || d.EffectiveWindow != limits.Never || d.ResetAfter != 0 {
			t.Errorf("never, a thousand hours later: %+v", d)
		}
		inner.err = nil
		asking.Allowed(t, cache, "k", limit, 1)
	})
}

func TestAnAgedDenialIsAskedAboutFirst(t *testing.T) {
	outage(t, aDay, func(t *testing.T, inner *faltering, cache *remote.DenialCache) {
		inner.err, inner.asked = errBroken, 0
		asking.Denied(t, cache, "k", aDay, 1)
		inner.askedTimes(t, 0) // young
		time.Sleep(10 * time.Second)
		asking.Denied(t, cache, "k", aDay, 1)
		inner.askedTimes(t, 1)
		inner.err = nil
		d := asking.Take(t, cache, backends.Charge{Scope: "s", Key: "k", Limit: aDay, Cost: 1})
		if d.Source != limits.SourcePrimary || d.Allowed {
			t.Errorf("the backend is back: %+v", d)
		}
		inner.askedTimes(t, 2)
		asking.Denied(t, cache, "k", aDay, 1)
		inner.askedTimes(t, 2) // young again
	})
}

func TestADenialThatTheBackendHasTakenBackIsNotHonouredInAnOutage(t *testing.T) {
	outage(t, aDay, func(t *testing.T, inner *faltering, cache *remote.DenialCache) {
		time.Sleep(10 * time.Second)
		if err := inner.Reset(t.Context(), "s", "k"); err != nil { // by another instance
			t.Fatal(err)
		}
		asking.Allowed(t, cache, "k", aDay, 1)
		inner.err = errBroken
		gives(t, cache, "k", aDay, 1, errBroken)
	})
}

func TestADenialThatIsResetIsNotHonouredInAnOutage(t *testing.T) {
	outage(t, aDay, func(t *testing.T, inner *faltering, cache *remote.DenialCache) {
		time.Sleep(time.Minute)
		if err := cache.Reset(t.Context(), "s", "k"); err != nil {
			t.Fatal(err)
		}
		inner.err = errBroken
		gives(t, cache, "k", aDay, 1, errBroken)
	})
}

func TestACallerWhoHasLeftGetsTheErrorAndNoAgedDenial(t *testing.T) {
	outage(t, aDay, func(t *testing.T, inner *faltering, cache *remote.DenialCache) {
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		inner.err = ctx.Err()
		err := cache.Take(ctx, []backends.Charge{{Scope: "s", Key: "k", Limit: aDay, Cost: 1}}, make([]limits.Decision, 1))
		if err != context.Canceled {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

func TestInAnOutageTheOtherChargesOfAnAgedDenialAreNotAsked(t *testing.T) {
	outage(t, aDay, func(t *testing.T, inner *faltering, cache *remote.DenialCache) {
		time.Sleep(time.Minute)
		inner.err = errBroken
		out := make([]limits.Decision, 2)
		err := cache.Take(t.Context(), []backends.Charge{
			{Scope: "s", Key: "other", Limit: aDay, Cost: 1}, {Scope: "s", Key: "k", Limit: aDay, Cost: 1},
		}, out)
		if err != nil || out[0] != (limits.Decision{Allowed: true, Source: limits.SourceNotAsked}) || out[1].Allowed ||
			out[1].Source != limits.SourceDenialCache {
			t.Errorf("error %v, other %+v, denied %+v", err, out[0], out[1])
		}
	})
}

// Denials that are kept for an outage must not crowd out those that answer now.
func TestAgedDenialsGiveWayToYoungOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counted{Memory: memory.MustNew(memory.Options{})}
		cache := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{MaxEntries: 4})
		short := limits.TokenBucket(limits.Per(1, 5*time.Second), 1)
		for _, key := range []string{"a", "b", "c", "d"} {
			asking.Allowed(t, cache, key, aDay, 1)
			asking.Denied(t, cache, key, aDay, 1)
		}
		time.Sleep(10 * time.Second)
		for _, key := range []string{"e", "f", "g", "h"} {
			asking.Allowed(t, cache, key, short, 1)
			asking.Denied(t, cache, key, short, 1)
		}
		inner.asked = 0
		for _, key := range []string{"e", "f", "g", "h"} {
			asking.Denied(t, cache, key, short, 1)
		}
		inner.askedTimes(t, 0)
	})
}

// giving is a backend that denies because of units that it gives back at once.
type giving struct {
	backends.Backend
	denies bool
}

func (b *giving) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if !b.denies {
		return b.Backend.Take(ctx, charges, out)
	}
	for i := range out {
		out[i] = limits.Decision{Transient: true, RetryAfter: time.Hour, EffectiveWindow: time.Hour, ResetAfter: time.Hour}
	}
	return nil
}

func TestATransientDenialIsNotRemembered(t *testing.T) {
	b := &giving{memory.MustNew(memory.Options{}), true}
	cache := remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
	limit := limits.TokenBucket(limits.PerDay(1), 1)
	if d := asking.Take(t, cache, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}); d.Allowed ||
		!d.Transient {
		t.Errorf("the denial comes out as %+v", d)
	}
	b.denies = false
	asking.Allowed(t, cache, "k", limit, 1)
}

func TestALimiterTellsATransientDenialAsAnyOther(t *testing.T) {
	l := core.MustNew(core.Config[string]{
		Backend: &giving{memory.MustNew(memory.Options{}), true},
		Rules: []core.Rule[string]{{
			Name: "user", Limit: limits.FixedWindow(limits.PerMinute(1)),
			Key: func(user string) (string, error) { return user, nil },
		}},
	})
	o := l.Decide(t.Context(), "ann")
	if o.Verdict() != core.Denied || o.RetryAfter() != time.Hour || o.BindingRule() != 0 || !o.At(0).Transient {
		t.Errorf("%v, retry after %v, binding %d, %+v", o.Verdict(), o.RetryAfter(), o.BindingRule(), o.At(0))
	}
}
