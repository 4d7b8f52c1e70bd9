package core_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

func queueOf(limit limits.Limit, undelayed int64) core.Rule[string] {
	return core.Rule[string]{Name: "queue", Limit: limit, NoDelay: undelayed,
		Key: func(key string) (string, error) { return key, nil }}
}

// With "limit_req rate=10r/s burst=20 delay=8" nginx answers the first request and eight more at
// once, delays twelve and denies the rest.
func TestUndelayedUnitsOfAQueueGoOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := queueOf(limits.LeakyQueue(limits.PerSecond(10), 21), 8)
		limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{queue}})
		for i := range 23 {
			o := limiter.Decide(t.Context(), "ann")
			want := time.Duration(max(0, i-8)) * 100 * time.Millisecond
			if i >= 21 {
				want = 0
			}
			if o.Allowed() != (i < 21) || o.Delay() != want {
				t.Errorf("request %d: allowed %t, delay %v, want %v", i+1, o.Allowed(), o.Delay(), want)
			}
		}
		time.Sleep(2100 * time.Millisecond) // all have left
		if o := limiter.Decide(t.Context(), "ann"); o.Delay() != 0 {
			t.Errorf("a request that finds the queue empty waits %v", o.Delay())
		}
	})
}

// The verdicts are those of the queue, and each wait is shorter by the same time.
func TestUndelayedChangesNothingButTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := testrun.Random(t)
		for range 50 {
			limit := limits.LeakyQueue(limits.Per(1+random.Int64N(50), time.Duration(1+random.Int64N(3000))*time.Millisecond),
				2+random.Int64N(30))
			undelayed := 1 + random.Int64N(limit.Burst()-1)
			short := time.Duration(undelayed*limit.Rate().Period.Microseconds()/limit.Rate().Units) * time.Microsecond
			plain := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{queueOf(limit, 0)}})
			other := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{queueOf(limit, undelayed)}})
			for range 100 {
				a, b := plain.Decide(t.Context(), "ann"), other.Decide(t.Context(), "ann")
				if want := max(0, a.Delay()-short); a.Verdict() != b.Verdict() || b.Delay() != want {
					t.Fatalf("%v, undelayed %d: %v and %v, delay %v, want %v", limit, undelayed, a.Verdict(), b.Verdict(),
						b.Delay(), want)
				}
				if d, e := a.At(0), b.At(0); d.Remaining != e.Remaining || d.RetryAfter != e.RetryAfter ||
					d.ResetAfter != e.ResetAfter || e.Delay != b.Delay() {
					t.Fatalf("%v, undelayed %d: %+v and %+v", limit, undelayed, d, e)
				}
				time.Sleep(time.Duration(random.Int64N(int64(2 * limit.Rate().Period / time.Duration(limit.Rate().Units)))))
			}
		}
	})
}

func TestOnlyAQueueHasUndelayedUnits(t *testing.T) {
	for _, c := range []struct {
		rule core.Rule[string]
		want string
	}{
		{queueOf(limits.TokenBucket(limits.PerSecond(10), 21), 8), "no delay: only a leaky queue delays"},
		{queueOf(limits.LeakyQueue(limits.PerSecond(10), 21), 21),
			"no delay: must be 0 to 20, less than the capacity (got 21)"},
		{queueOf(limits.LeakyQueue(limits.PerSecond(10), 21), -1),
			"no delay: must be 0 to 20, less than the capacity (got -1)"},
		{queueOf(limits.Limit{}, 1), "no delay: only a leaky queue delays"},
	} {
		_, err := core.New(core.Config[string]{Rules: []core.Rule[string]{c.rule}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, undelayed %d: %v", c.rule.Limit, c.rule.NoDelay, err)
		}
	}
}

func TestExplainKnowsOfUndelayedUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := queueOf(limits.LeakyQueue(limits.PerSecond(10), 21), 8)
		limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{queue}})
		for range 10 {
			limiter.Decide(t.Context(), "ann")
		}
		took := limiter.Decide(t.Context(), "bob")
		o := limiter.Explain(context.Background(), "ann")
		d, err := limiter.ExplainKey(context.Background(), "queue", "ann", limits.Limit{})
		if err != nil || o.Delay() != d.Delay || d.Delay > 200*time.Millisecond || took.Delay() != 0 {
			t.Errorf("Explain: %v, ExplainKey: %v (%v)", o.Delay(), d.Delay, err)
		}
	})
}

func ExampleRule_undelayed() {
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name:    "search",
		Limit:   limits.LeakyQueue(limits.PerHour(1), 21),
		NoDelay: 1, // as "delay=1" in nginx
		Key:     func(client string) (string, error) { return client, nil },
	}}})
	for range 4 {
		o := limiter.Decide(context.Background(), "ann")
		fmt.Println(o.Delay().Round(time.Minute))
	}
	// Output:
	// 0s
	// 0s
	// 1h0m0s
	// 2h0m0s
}
