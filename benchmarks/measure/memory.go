package measure

import (
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// Heap returns the bytes of live objects on the heap.
func Heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first may have left garbage of objects with finalizers
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Collection returns what a forced garbage collection takes: the least of seven,
// or of as many as fit into half a second, for what else the machine does only
// ever adds to it.
func Collection() time.Duration {
	runtime.GC()
	least := time.Duration(math.MaxInt64)
	for n, begun := 0, time.Now(); n < 7 || time.Since(begun) < time.Second/2; n++ {
		watch := Start()
		runtime.GC()
		least = min(least, watch.Elapsed())
	}
	return least
}

// Resident returns the bytes of physical memory that the process holds. Where
// there is no /proc it is what the Go runtime has from the system and not given
// back.
func Resident() int64 {
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
