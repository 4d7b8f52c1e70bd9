package endings_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// distant is a backend that takes a second for each call of Settle.
type distant struct {
	*memory.Memory
	settled atomic.Int64
}

func (b *distant) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	time.Sleep(time.Second)
	b.settled.Add(int64(len(endings)))
	return b.Memory.Settle(ctx, endings, out)
}

func TestAwaitWaitsUntilAllAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &distant{Memory: memory.MustNew(memory.Options{})}
		wrapped := remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
		if err := endings.Await(t.Context(), wrapped); err != nil {
			t.Errorf("without a limiter: %v", err)
		}
		limiter := core.MustNew(core.Config[string]{Backend: wrapped, Rules: []core.Rule[string]{{
			Name: "uploads", Limit: limits.Concurrent(5), Key: func(key string) (string, error) { return key, nil },
		}}})
		for range 3 {
			if err := endings.Await(t.Context(), b); err != nil {
				t.Errorf("nothing waits: %v", err)
			}
			before := b.settled.Load()
			for range 3 { // the first by a call of its own
				o := limiter.Decide(t.Context(), "ann")
				o.End(core.Result{})
				synctest.Wait()
			}
			short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			if err := endings.Await(short, b); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after 1.5 s of 2: %v", err)
			}
			cancel()
			if err := endings.Await(t.Context(), wrapped); err != nil {
				t.Error(err)
			}
			if n := b.settled.Load() - before; n != 3 {
				t.Errorf("%d are answered, want 3", n)
			}
		}
		if err := endings.Await(t.Context(), memory.MustNew(memory.Options{})); err != nil {
			t.Errorf("memory: %v", err)
		}
	})
}
