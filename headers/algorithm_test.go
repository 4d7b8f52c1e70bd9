package headers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// Ten units a minute under every algorithm, counted by the memory backend at
// 15.25 seconds past a full minute. First 4 units are allowed, then 7 are denied,
// then 11, for which no wait helps.
func TestTheAnswersOfEachAlgorithm(t *testing.T) {
	const epoch = 1795262400 // 2026-11-21 12:00:00 UTC
	rate := limits.PerMinute(10)
	tests := []struct {
		limit       limits.Limit
		allowed     int    // t when allowed, in seconds
		denied      int    // t and Retry-After when denied, in seconds
		reset       string // seconds from now, as Discord writes them
		resetAt     string // seconds since the full minute
		resetS, atS int    // the same, rounded up
	}{
		// A bucket gains a unit in 6 seconds; 1 of the 7 is missing.
		{limit: limits.TokenBucket(rate, 10), allowed: 36, denied: 6, reset: "24.000", resetS: 24, resetAt: "39.250",
			atS: 40},
		{limit: limits.LeakyBucket(rate, 10), allowed: 36, denied: 6, reset: "24.000", resetS: 24, resetAt: "39.250",
			atS: 40},
		{limit: limits.LeakyQueue(rate, 10), allowed: 36, denied: 6, reset: "24.000", resetS: 24, resetAt: "39.250",
			atS: 40},
		// The window ends in 44.75 seconds.
		{limit: limits.FixedWindow(rate), allowed: 45, denied: 45, reset: "44.750", resetS: 45, resetAt: "60.000",
			atS: 60},
		// A microsecond into the next window the 4 weigh 3. They have weight until it ends.
		{limit: limits.SlidingWindow(rate), allowed: 36, denied: 45, reset: "104.750", resetS: 105, resetAt: "120.000",
			atS: 120},
		// The 4 count for a minute.
		{limit: limits.SlidingLog(rate), allowed: 36, denied: 60, reset: "60.000", resetS: 60, resetAt: "75.250",
			atS: 76},
		// The window opened with the 4, and closes in a minute.
		{limit: limits.AnchoredWindow(rate), allowed: 60, denied: 60, reset: "60.000", resetS: 60, resetAt: "75.250",
			atS: 76},
	}
	// have tests of their own
	own := []limits.Algorithm{limits.AlgorithmConcurrent, limits.AlgorithmBan,
		limits.AlgorithmCalendar, limits.AlgorithmDistinct, limits.AlgorithmGrowingBan}
	for i, algorithm := range slices.DeleteFunc(limits.Algorithms(),
		func(a limits.Algorithm) bool { return slices.Contains(own, a) }) {
		if i >= len(tests) || tests[i].limit.Algorithm() != algorithm {
			t.Fatalf("the table does not have %v in its place", algorithm)
		}
	}
	for _, tt := range tests {
		t.Run(tt.limit.Algorithm().String(), func(t *testing.T) {
			now := time.Unix(epoch+15, 250_000_000)
			limiter, err := core.New(core.Config[int64]{
				Rules: []core.Rule[int64]{{
					Name:  "ten",
					Limit: tt.limit,
					Key:   func(int64) (string, error) { return "client", nil },
					Cost:  func(n int64) int64 { return n },
				}},
				Backend: memory.MustNew(memory.Options{MaxKeys: 1, Clock: func() time.Time { return now }}),
			})
			if err != nil {
				t.Fatal(err)
			}
			check := func(units int64, window string, reset int, more ...string) {
				t.Helper()
				o := limiter.Decide(context.Background(), units)
				policies := []published{{Name: "ten", Limit: tt.limit}}
				modern := written(t,
					headers.Options{Formats: []headers.Format{headers.IETF, headers.Draft6, headers.GitHub}}, policies,
					&o)
				want(t, modern, append(more,
					`RateLimit-Policy: "ten";q=10;w=60`, `RateLimit: "ten";r=6`+window,
					"RateLimit-Limit: 10", "RateLimit-Remaining: 6", fmt.Sprintf("RateLimit-Reset: %d", reset),
					"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 6", "X-RateLimit-Used: 4",
					"X-RateLimit-Resource: ten",
					fmt.Sprintf("X-RateLimit-Reset: %d", epoch+tt.atS),
				)...)
				old := written(t, headers.Options{Formats: []headers.Format{headers.Draft7, headers.DeltaSeconds}},
					policies, &o)
				want(t, old, append(more,
					"RateLimit-Policy: 10;w=60", fmt.Sprintf("RateLimit: limit=10, remaining=6, reset=%d", reset),
					"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 6",
					fmt.Sprintf("X-RateLimit-Reset: %d", tt.resetS),
				)...)
				if !o.Allowed() {
					more = append(more, "X-RateLimit-Scope: user")
				}
				discord := written(t, headers.Options{Formats: []headers.Format{headers.Discord}}, policies, &o)
				want(t, discord, append(more,
					"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 6", "X-RateLimit-Bucket: ten",
					"X-RateLimit-Reset: "+epochPlus(epoch, tt.resetAt), "X-RateLimit-Reset-After: "+tt.reset,
				)...)
			}
			check(4, fmt.Sprintf(";t=%d", tt.allowed), tt.resetS)
			check(7, fmt.Sprintf(";t=%d", tt.denied), tt.denied, fmt.Sprintf("Retry-After: %d", tt.denied))
			check(11, "", tt.resetS)
		})
	}
}

// epochPlus adds decimal seconds to whole ones.
func epochPlus(epoch int, seconds string) string {
	var whole, milli int
	fmt.Sscanf(seconds, "%d.%d", &whole, &milli)
	return fmt.Sprintf("%d.%03d", epoch+whole, milli)
}

// A rule decided in this process is shown like any other. What was not asked is not.
func TestALocalRuleIsShown(t *testing.T) {
	rules := rulesOf(perMinute, perHour)
	rules[0].Limit, rules[0].Local = limits.AnchoredWindow(limits.PerDay(1)), true
	limiter := core.MustNew(core.Config[string]{
		Rules: rules, Backend: prepared{allowed(500, 30*time.Minute, time.Hour)},
	})
	synctest.Test(t, func(t *testing.T) {
		ok, no := limiter.Decide(t.Context(), "client"), limiter.Decide(t.Context(), "client")
		want(t, written(t, headers.Options{}, rules, &ok),
			`RateLimit-Policy: "default";q=1;w=86400, "hourly";q=1000;w=3600`,
			`RateLimit: "default";r=0;t=86400, "hourly";r=500;t=1800`)
		want(t, written(t, headers.Options{}, rules, &no),
			`RateLimit-Policy: "default";q=1;w=86400`, `RateLimit: "default";r=0;t=86400`, "Retry-After: 86400")
	})
}
