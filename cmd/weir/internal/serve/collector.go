package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// leastHeap is how many bytes the heap may have before the garbage collector runs. A service that
// counts in Redis keeps little but makes garbage with each request, so by its own measure the
// collector would run after every 4 MB: a fifth of the processor time, and slow requests while it
// runs on a busy machine.
const leastHeap = 32 << 20

// collector lets the garbage collector run less often while little lives. Once half of leastHeap
// lives, it runs as it does by default.
type collector struct {
	mu      sync.Mutex
	percent int // in force; 0: collector has ended
	before  int
}

// spaceCollections starts a collector, and returns what ends it. It leaves alone what the
// environment variable GOGC says.
func spaceCollections() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	c := new(collector)
	c.percent = percentFor(liveHeap())
	c.before = debug.SetGCPercent(c.percent)
	c.afterNext()
	return c.end
}

func (c *collector) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.percent = 0
	debug.SetGCPercent(c.before)
}

// afterNext has c look at what lives after the next collection.
func (c *collector) afterNext() {
	runtime.AddCleanup(&struct{ _ *byte }{}, (*collector).adapt, c)
}

func (c *collector) adapt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.percent == 0 {
		return
	}
	// To set it stops the process for an instant, so not each small change is worth it.
	if p := percentFor(liveHeap()); p < c.percent || p > c.percent*5/4 {
		debug.SetGCPercent(p)
		c.percent = p
	}
	c.afterNext()
}

// percentFor returns by how much the heap may grow, in percent of what lives, before it is
// collected. Go takes a heap of less than 4 MB for one of 4 MB.
func percentFor(live int64) int {
	return int(max(100, 100*leastHeap/max(live, 4<<20)-100))
}

// liveHeap returns how many bytes the latest collection has left.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return leastHeap // not known: the default
	}
	return int64(sample[0].Value.Uint64())
}
