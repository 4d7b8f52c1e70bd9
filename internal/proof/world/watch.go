package world

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"
)

// Time in a bubble stands still while a goroutine waits for a lock. If the owner of the lock waits
// for the network, the world hangs for ever, and so does a test. So a goroutine outside the bubble
// watches it in real time.

const (
	looksEvery = time.Second
	mostLooks  = 60 // consecutive looks without progress; a world takes tens of milliseconds
	oldest     = 24 * time.Hour
)

// pulse counts the reads of servers in all worlds, and the age of the present world at the last
// one.
var pulse struct {
	reads atomic.Int64
	age   atomic.Int64
}

// noticeHang watches the world of a seed, which is about to begin, until stop is called. If the
// world hangs, the program ends, and prints the seed and the stacks of all goroutines. Call it
// outside the bubble.
func noticeHang(t *testing.T, seed uint64) (stop func()) {
	ended := make(chan struct{})
	pulse.age.Store(0)
	go watch(ended, func(why string) {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("a world hangs: %s. To repeat it: go test -run %s ./internal/proof/world "+
			"-weir.seed %d", why, t.Name(), seed))
	})
	return func() { close(ended) }
}

// watch looks at a world until it has ended, and calls hangs once if it never will. It counts looks
// instead of time, so that a busy or stopped machine makes no difference.
func watch(ended <-chan struct{}, hangs func(why string)) {
	ticker := time.NewTicker(looksEvery)
	defer ticker.Stop()
	for seen, still := pulse.reads.Load(), 0; ; {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		if reads := pulse.reads.Load(); reads != seen {
			seen, still = reads, 0
		} else if still++; still == mostLooks {
			hangs(fmt.Sprintf("no server has read anything for %v", mostLooks*looksEvery))
			return
		}
		if age := time.Duration(pulse.age.Load()); age > oldest {
			hangs(fmt.Sprintf("it is %v old", age))
			return
		}
	}
}
