package limitstest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
)

// A backend's own test hands Run a Harness that opens it.
func ExampleRun() {
	test := func(t *testing.T) { // TestMyBackendKeepsTheContract
		limitstest.Run(t, limitstest.Harness{
			Open: func(t testing.TB, now func() time.Time) backends.Backend {
				return memory.MustNew(memory.Options{Clock: now})
			},
		})
	}
	_ = test
}

// Exact answers what would have been: here, three requests under two limits.
func ExampleNewExact() {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	exact := limitstest.NewExact(func() time.Time { return now })
	for _, limit := range []limits.Limit{limits.TokenBucket(limits.PerMinute(6), 2),
		limits.SlidingLog(limits.PerMinute(2))} {
		charge := backends.Charge{Scope: limit.String(), Key: "client", Limit: limit, Cost: 1}
		for range 3 {
			out := make([]limits.Decision, 1)
			if err := exact.Take(context.Background(), []backends.Charge{charge}, out); err != nil {
				fmt.Println(err)
			}
			fmt.Println(limit, out[0].Allowed, out[0].Remaining, out[0].RetryAfter)
		}
	}
	// Output:
	// token-bucket 6/1m burst 2 true 1 0s
	// token-bucket 6/1m burst 2 true 0 0s
	// token-bucket 6/1m burst 2 false 0 10s
	// sliding-log 2/1m true 1 0s
	// sliding-log 2/1m true 0 0s
	// sliding-log 2/1m false 0 1m0s
}
