package serve

import (
	"context"
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

func TestAHeapGrowsByWhatIsScannedAndNotByTheTableOfKeys(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		live, scanned uint64
		percent       int
	}{
		{0, 0, 100},
		{3 * mb, 2 * mb, 100},
		{12 * mb, 2 * mb, 51},
		{39 * mb, 3 * mb, 16},     // a million keys
		{4000 * mb, 3 * mb, 1},    // never 0, which would collect all the time
		{100 * mb, 60 * mb, 61},   // connections
		{100 * mb, 110 * mb, 100}, // stacks count
	} {
		if got := headroom(tt.live, tt.scanned); got != tt.percent {
			t.Errorf("%d MB live, %d scanned: %d, want %d", tt.live/mb, tt.scanned/mb, got, tt.percent)
		}
	}
}

func TestHeadroomFollowsTheHeapAndEndsWithTheService(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := func() uint64 {
		of := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(of)
		return of[0].Value.Uint64()
	}
	table := make([]byte, 256<<20) // what keys take
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go keepHeadroom(ctx)
		runtime.GC() // who is live is known after a collection
		time.Sleep(time.Second)
		synctest.Wait()
		if got := percent(); got >= 50 {
			t.Errorf("%d%% with a large table", got)
		}
		cancel()
		synctest.Wait()
		if got := percent(); got != 100 {
			t.Errorf("%d%% at the end", got)
		}
	})
	runtime.KeepAlive(table)
}

func TestAGOGCOfTheEnvironmentIsLeftAlone(t *testing.T) {
	t.Setenv("GOGC", "40")
	keepHeadroom(t.Context()) // returns at once
}
