package limitstest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// lateWorld returns a world in which every fourth call is late: after it reads the clock, eight
// other calls read the clock before it goes on.
func (h Harness) lateWorld(t testing.TB) world {
	t.Helper()
	c := h.clockAt(newYear)
	var reads overtaken
	return world{t, c, h.Open(t, func() time.Time {
		now := c.now()
		if n := reads.arrive(); n%4 == 0 {
			reads.waitFor(n + 8)
		}
		return now
	})}
}

// overtaken counts callers, and makes some of them wait until others have overtaken them.
type overtaken struct{ callers atomic.Int64 }

func (o *overtaken) arrive() int64 { return o.callers.Add(1) }

// waitFor lets other goroutines run until n callers have arrived, or for 1,000 turns.
func (o *overtaken) waitFor(n int64) {
	for range 1000 {
		if o.callers.Load() >= n {
			return
		}
		runtime.Gosched()
	}
}

// concurrently calls f from many goroutines at once and waits for them.
func (w world) concurrently(f func(i int)) {
	w.Helper()
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
	if w.Failed() {
		w.FailNow()
	}
}

// try is take for goroutines: after an error the test fails and the result is a denial.
func (w world) try(charges ...backends.Charge) []limits.Decision {
	w.Helper()
	out := dirty(len(charges))
	if err := w.backend.Take(context.Background(), charges, out); err != nil {
		w.Errorf("Take: %v", err)
		clear(out)
	}
	return out
}

// admitted checks how many units were admitted.
func (w world) admitted(l limits.Limit, got, want int64) {
	w.Helper()
	if got != want {
		w.Error(about(l, "%d were admitted, want %d", got, want))
	}
}

// bounded checks the key k, whose limit is 20, after more than 20 callers.
func (w world) bounded(k int, l limits.Limit, admitted int64) {
	w.Helper()
	w.admitted(l, admitted, 20)
	if d := w.look(backends.Charge{Scope: "s", Key: fmt.Sprint(k), Limit: l}); d.Remaining != 0 {
		w.Error(about(l, "%d remain of key %d", d.Remaining, k))
	}
}
