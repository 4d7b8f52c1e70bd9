package serve

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	usualPercent = 100 // without GOGC

	// leastHeadroom is what a heap with few pointers may grow before it is collected. With 4 MiB a
	// check of a million keys took 4% more processor time, with 8 MiB no less than with 6.
	leastHeadroom = 6 << 20
)

// headroom returns a percent for GOGC by which the heap may grow by as much as a collection scans.
// By Go's own percent it grows by as much as is live. Most of that is the table of keys, which no
// collection scans:
//
//	39 MB are live, and 3 of them are scanned: the heap grows to 45 MB instead of 78
func headroom(live, scanned uint64) int {
	room := max(scanned, leastHeadroom)
	return int(min(usualPercent*room/max(live, 1)+1, usualPercent))
}

// keepHeadroom keeps the percent of the process at headroom until ctx ends. With a GOGC in the
// environment it does nothing.
func keepHeadroom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	defer debug.SetGCPercent(usualPercent)
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"}}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for percent := usualPercent; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(read)
		next := headroom(read[0].Value.Uint64(), read[1].Value.Uint64())
		if change := next - percent; max(change, -change) > percent/8 { // setting it stops the world
			percent = next
			debug.SetGCPercent(percent)
		}
	}
}
