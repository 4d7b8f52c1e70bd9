package serve

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheHeapGrowsToItsLeastBeforeACollection(t *testing.T) {
	for _, c := range []struct {
		live int64
		want int
	}{
		{0, 700}, {4 << 20, 700}, {8 << 20, 300}, {15 << 20, 113},
		{16 << 20, 100}, {17 << 20, 100}, {1 << 40, 100},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("%d MiB live: %d%%, want %d%%", c.live>>20, got, c.want)
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

// A heap that has grown is collected as by default, so memory is not several times what lives.
func TestALargeHeapIsCollectedByDefault(t *testing.T) {
	t.Setenv("GOGC", "")
	end := spaceCollections()
	defer end()
	kept := make([][]byte, 64)
	for i := range kept {
		kept[i] = make([]byte, 1<<20)
	}
	for range 1000 { // what adapts runs beside the program
		if nextCollection() < 200 {
			break
		}
		runtime.Gosched()
	}
	if at := nextCollection(); at > 200 {
		t.Errorf("64 MiB live, and the next collection is at %d", at)
	}
	runtime.KeepAlive(kept)
}
