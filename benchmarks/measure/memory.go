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
	runtime.GC() // the first may leave garbage with finalizers
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Collection returns the time of a forced garbage collection: the minimum of at least seven, since
// other work of the machine only adds time. It tries longer if every one was disturbed.
func Collection() time.Duration {
	const calmEnough = 5
	runtime.GC()
	least := time.Duration(math.MaxInt64)
	begun := time.Now()
	for n, calm := 0, 0; n < 7 || calm < calmEnough && time.Since(begun) < 2*time.Second; n++ {
		before, watch := preemptions(), Start()
		runtime.GC()
		least = min(least, watch.Elapsed())
		if preemptions() == before {
			calm++
		}
	}
	return least
}

// Resident returns the bytes of physical memory that the process holds. Without /proc it returns
// the memory that the Go runtime has obtained from the system and not returned.
func Resident() int64 {
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
