package remote_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// What is held is spent, then the rule falls back. Once the backend works again it decides,
// and what was held until then counts.
func TestWithLeasesABackendThatFailsLeavesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &failing{Memory: memory.MustNew(memory.Options{})}
		stack := remote.MustNewStack(inner, remote.StackOptions{Lease: time.Second, Logger: slog.New(slog.DiscardHandler)})
		if !backends.CanSettle(stack) || !backends.Supports(stack, limits.Concurrent(1)) || state(stack) != "closed" {
			t.Error("the stack hides what the backend can do")
		}
		limiter := core.MustNew(core.Config[string]{
			Backend: stack,
			Rules: []core.Rule[string]{{
				Name: "s", Limit: limits.TokenBucket(limits.PerSecond(1000), 1000),
				Key: func(k string) (string, error) { return k, nil },
			}},
		})
		sources := map[limits.Source]int{}
		decide := func(n int) {
			t.Helper()
			for range n {
				o := limiter.Decide(t.Context(), "k")
				if !o.Allowed() {
					t.Fatalf("denied: %+v", o.At(0))
				}
				sources[o.At(0).Source]++
			}
			synctest.Wait()
		}
		decide(8)
		inner.err = errors.New("down")
		decide(20)
		inner.err = nil
		time.Sleep(2 * time.Second) // until probes are made
		synctest.Wait()
		decide(3)
		if sources[limits.SourcePrimary] != 11 || sources[limits.SourceLease] != 16 || sources[limits.SourceFallback] != 4 {
			t.Errorf("decided by %v, want 11 by the backend, a block of 16 and 4 by the fallback", sources)
		}
	})
}

// failing is a backend that fails with err.
type failing struct {
	*memory.Memory
	err error
}

func (f *failing) HonoursDeadline() bool { return true }

func (f *failing) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if f.err != nil {
		return f.err
	}
	return f.Memory.Take(ctx, charges, out)
}
