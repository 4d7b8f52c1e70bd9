package backendtest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// lateWorld is a world in which others may run between the reading of the clock
// and what is done with it, so that calls arrive late.
func (h Harness) lateWorld(t testing.TB) world {
	t.Helper()
	c := clockAt(newYear)
	return world{t, c, h.Open(t, func() time.Time {
		now := c.now()
		runtime.Gosched()
		return now
	})}
}

// crowd calls f from many goroutines at once and waits for them.
func (w world) crowd(f func(i int)) {
	w.Helper()
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
	if w.Failed() {
		w.FailNow()
	}
}

// try is take for goroutines: an error fails the test and reads as a denial.
func (w world) try(charges ...core.Charge) []core.Decision {
	w.Helper()
	out := dirty(len(charges))
	if err := w.backend.Take(context.Background(), charges, out); err != nil {
		w.Errorf("Take: %v", err)
		clear(out)
	}
	return out
}

func (w world) admitted(l core.Limit, got, want int64) {
	w.Helper()
	if got != want {
		w.Error(about(l, "%d were admitted, want %d", got, want))
	}
}

// bounded checks the key k after more callers than its limit of 20 came by.
func (w world) bounded(k int, l core.Limit, admitted int64) {
	w.Helper()
	w.admitted(l, admitted, 20)
	if d := w.look(core.Charge{Scope: "s", Key: fmt.Sprint(k), Limit: l}); d.Remaining != 0 {
		w.Error(about(l, "%d remain of key %d", d.Remaining, k))
	}
}
