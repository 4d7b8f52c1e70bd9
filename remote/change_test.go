package remote_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// Operators raise a limit because somebody is being denied. However it changes, and with a lease or
// without, the first request under the new limit starts its period, and no denial is cached beyond it.
func TestAChangedLimitIsFeltWithinAPeriodOfTheNewOne(t *testing.T) {
	day, hour := limits.PerDay(1000), limits.PerHour(500)
	for _, change := range []struct{ old, new limits.Limit }{
		{limits.TokenBucket(day, 1000), limits.TokenBucket(hour, 500)},
		{limits.FixedWindow(day), limits.FixedWindow(hour)},
		{limits.SlidingLog(day), limits.SlidingLog(hour)},
		{limits.AnchoredWindow(day), limits.AnchoredWindow(hour)},
		{limits.SlidingLog(day), limits.TokenBucket(hour, 500)},
	} {
		for name, lease := range map[string]time.Duration{"without leases": 0, "with leases": time.Second} {
			for _, way := range []string{"Replace", "Override", "the end of an Override", "LimitFor"} {
				t.Run(change.old.String()+" "+name+" "+way, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						current := change.old
						rule := core.Rule[string]{Name: "r", Limit: change.old, Key: func(key string) (string, error) { return key, nil }}
						switch way {
						case "the end of an Override":
							rule.Limit = change.new
						case "LimitFor":
							rule.Limit, rule.LimitFor = limits.Limit{}, func(string, string) (limits.Limit, error) { return current, nil }
						}
						stack := remote.MustNewStack(memory.MustNew(memory.Options{}), remote.StackOptions{Lease: lease})
						limiter := core.MustNew(core.Config[string]{Backend: stack, Rules: []core.Rule[string]{rule}})
						if way == "the end of an Override" {
							override(t, limiter, change.old, time.Hour)
						}
						decide := func() core.Outcome { return limiter.Decide(context.Background(), "ann") }
						for o := decide(); o.Allowed(); o = decide() {
						}
						switch way {
						case "Replace":
							rule.Limit = change.new
							if err := limiter.Replace([]core.Rule[string]{rule}); err != nil {
								t.Fatal(err)
							}
						case "Override":
							override(t, limiter, change.new, 48*time.Hour)
						case "the end of an Override":
							time.Sleep(time.Hour)
							synctest.Wait()
						case "LimitFor":
							current = change.new
						}
						first := decide()
						if first.Allowed() && way != "the end of an Override" { // an hour has given some back
							t.Fatal("used up and changed: allowed at once")
						}
						const late = 2 * time.Second // a lease may be, and so may a denial that was cached
						until := time.Now().Add(min(first.RetryAfter(), time.Hour) + late)
						for o := first; !o.Allowed(); o = decide() {
							if time.Now().After(until) {
								t.Fatalf("denied %v after the change, for %v more", time.Since(until.Add(-time.Hour)), o.RetryAfter())
							}
							time.Sleep(min(o.RetryAfter(), 10*time.Minute))
						}
					})
				})
			}
		}
	}
}

func override(t *testing.T, limiter *core.Limiter[string], limit limits.Limit, d time.Duration) {
	t.Helper()
	if err := limiter.Override("r", core.Override{Limit: limit, Until: time.Now().Add(d)}); err != nil {
		t.Fatal(err)
	}
}
