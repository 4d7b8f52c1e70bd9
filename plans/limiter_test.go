package plans_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/plans"
)

// offer is a plan of two limits.
type offer struct{ rate, quota limits.Limit }

func (o offer) Validate() error { return errors.Join(o.rate.Validate(), o.quota.Validate()) }

func offerOf(rate, quota int64) offer {
	return offer{limits.SlidingWindow(limits.PerMinute(rate)), limits.Calendar(quota, limits.Month)}
}

func (o offer) rateOf() limits.Limit  { return o.rate }
func (o offer) quotaOf() limits.Limit { return o.quota }

func TestAChangedPlanChangesTheLimitsOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, lookups := offerOf(2, 100), 0
		c := plans.MustNew(func(context.Context, string) (offer, error) { lookups++; return now, nil },
			offerOf(1, 10), plans.Options{})
		defer c.Close()
		customer := keyfuncs.Header("X-Customer")
		limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
			{Name: "rate", Key: customer, LimitFor: c.LimitFor(offer.rateOf)},
			{Name: "quota", Key: customer, LimitFor: c.LimitFor(offer.quotaOf)},
		}})
		ask := func(want bool, rate, quota int64) {
			t.Helper()
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-Customer", "ann")
			o := limiter.Decide(r)
			if o.Allowed() != want || o.At(0).Limit().Rate().Units != rate || o.At(1).Limit().Rate().Units != quota {
				t.Errorf("allowed %v, %v and %v", o.Allowed(), o.At(0).Limit(), o.At(1).Limit())
			}
		}
		ask(true, 2, 100)
		ask(true, 2, 100)
		ask(false, 2, 100)
		now = offerOf(5, 200)
		time.Sleep(time.Minute) // of the bubble
		ask(true, 5, 200)
		if lookups != 2 {
			t.Errorf("%d look-ups for two rules, want 2", lookups)
		}
	})
}

func TestARequestThatLeavesIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plans.MustNew(func(ctx context.Context, _ string) (offer, error) {
			<-ctx.Done()
			return offer{}, ctx.Err()
		}, offerOf(1, 10), plans.Options{})
		defer c.Close()
		limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
			{Name: "rate", Key: keyfuncs.Constant[*http.Request]("ann"), LimitFor: c.LimitFor(offer.rateOf)},
		}})
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
		if o := limiter.Decide(r); o.Verdict() != core.Abandoned {
			t.Errorf("%v, %v", o.Verdict(), o.Err())
		}
	})
}

// cached returns a cache whose key "ann" is cached.
func cached(t testing.TB) *plans.Cache[offer] {
	t.Helper()
	c := plans.MustNew(func(context.Context, string) (offer, error) { return offerOf(2, 100), nil },
		offerOf(1, 10), plans.Options{TTL: 24 * time.Hour, Budget: time.Hour})
	t.Cleanup(c.Close)
	if _, err := c.Find(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestACachedPlanAllocatesNothing(t *testing.T) {
	c, ctx := cached(t), t.Context()
	limitFor, r := c.LimitFor(offer.rateOf), httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	if n := testing.AllocsPerRun(100, func() { c.Find(ctx, "ann") }); n != 0 {
		t.Errorf("Find allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { limitFor(r, "ann") }); n != 0 {
		t.Errorf("LimitFor allocates %v times", n)
	}
}

func BenchmarkFind(b *testing.B) {
	c, ctx := cached(b), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		c.Find(ctx, "ann")
	}
}

func BenchmarkFindParallel(b *testing.B) {
	c, ctx := cached(b), b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Find(ctx, "ann")
		}
	})
}

func BenchmarkLimitFor(b *testing.B) {
	limitFor, r := cached(b).LimitFor(offer.rateOf), httptest.NewRequest("GET", "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		limitFor(r, "ann")
	}
}
