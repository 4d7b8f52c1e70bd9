package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// leastHeap is how many bytes the heap may have before the garbage collector runs. A service that
	// counts in Redis keeps little but makes garbage with each request, so by its own measure the
	// collector would run after every 4 MB: a fifth of the processor time, and slow requests while it
	// runs on a busy machine.
	leastHeap = 32 << 20

	// leastGrowth is by how much a heap with few pointers may grow. With 4 MiB a check of a million
	// keys took 4% more processor time, with 8 MiB no less than with 6.
	leastGrowth = 5 << 20

	// countedLeast is the live heap for which Go takes a smaller one.
	countedLeast = 4 << 20
)

// collector sets how far the heap grows before a collection. A small heap grows to leastHeap. A
// large one grows by as much as a collection scans, and at most by as much as is live, which is Go's
// own measure. Most of a large heap is the table of keys, which no collection scans:
//
//	39 MB are live, and 3 of them are scanned: the heap grows to 44 MB instead of 78
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
	c.percent = growth(liveHeap())
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
	p := growth(liveHeap())
	if change := p - c.percent; max(change, -change) > c.percent/8 {
		debug.SetGCPercent(p)
		c.percent = p
	}
	c.afterNext()
}

// growth returns by how much the heap may grow before it is collected, as a percent of GOGC. live
// and scanned are bytes.
func growth(live, scanned uint64) int {
	live = max(live, countedLeast)
	room := min(max(scanned, leastGrowth), live)
	if live < leastHeap {
		room = max(room, leastHeap-live)
	}
	return int(max(100*room/live, 1)) // 0 would collect all the time
}

// liveHeap returns how many bytes the latest collection has left, and how many the next one scans.
func liveHeap() (live, scanned uint64) {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64(), read[1].Value.Uint64()
}
