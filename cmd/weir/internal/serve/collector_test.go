package serve

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestASmallHeapGrowsToItsLeastAndALargeOneByWhatIsScanned(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, scanned uint64
		percent       int
	}{
		{0, 0, 700},
		{3 * mb, 2 * mb, 700},
		{8 * mb, 3 * mb, 300},
		{16 * mb, 3 * mb, 100},
		{16 * mb, 16 * mb, 100},
		{24 * mb, 3 * mb, 33},
		{24 * mb, 20 * mb, 83},    // connections
		{39 * mb, 3 * mb, 12},     // a million keys
		{100 * mb, 60 * mb, 60},   // connections
		{100 * mb, 110 * mb, 100}, // stacks count
		{4000 * mb, 3 * mb, 1},
	} {
		if got := growth(c.live, c.scanned); got != c.percent {
			t.Errorf("%d MiB live, %d scanned: %d%%, want %d%%", c.live/mb, c.scanned/mb, got, c.percent)
		}
	}
}

// nextCollection returns how large the heap will be, in MiB, when it is collected next.
func nextCollection() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.NextGC >> 20
}

func TestCollectionsAreAsBeforeOnceTheServiceEnds(t *testing.T) {
	t.Setenv("GOGC", "")
	before := nextCollection()
	end := spaceCollections()
	if during := nextCollection(); during < 30 || during > 40 {
		t.Errorf("the next collection is at %d MiB, want 32", during)
	}
	end()
	if after := nextCollection(); after > before+8 {
		t.Errorf("the next collection is at %d MiB, and before at %d", after, before)
	}
}

func TestCollectionsAreThoseOfGOGCIfItIsSet(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	defer spaceCollections()()
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("the heap may grow by %d%%, want 77%%", got)
	}
}

// A table of keys is not scanned, so memory is not twice what it takes.
func TestALargeHeapGrowsByLittle(t *testing.T) {
	t.Setenv("GOGC", "")
	end := spaceCollections()
	defer end()
	table := make([]byte, 128<<20)
	for range 1000 { // what adapts runs beside the program
		if nextCollection() < 170 {
			break
		}
		runtime.Gosched()
	}
	if at := nextCollection(); at > 170 {
		t.Errorf("128 MiB live, and the next collection is at %d", at)
	}
	runtime.KeepAlive(table)
}
