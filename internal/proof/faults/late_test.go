package faults

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stall is the longest time, in nanoseconds, for which this process has not run since
// watchStalls was first called.
var stall atomic.Int64

var watchStalls = sync.OnceFunc(func() {
	go func() {
		const pause = 20 * time.Millisecond
		last := time.Now()
		for range time.Tick(pause) {
			now := time.Now()
			stall.Store(max(stall.Load(), int64(now.Sub(last)-pause)))
			last = now
		}
	}()
})

// exceeded fails the test because more runs than may. If the machine did not run this
// process for so long that what it holds may have ended, that is what the row of stopped
// processes is about, and shows nothing here.
func exceeded(t testing.TB, format string, arguments ...any) {
	t.Helper()
	if d := time.Duration(stall.Load()); d > shortHold/3 {
		t.Skipf("the machine stood still for %v, and units end after %v", d, shortHold)
	}
	t.Errorf(format, arguments...)
}
