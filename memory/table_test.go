package memory

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// grower is a store whose only shard in use is the first, and that is asked by hash.
type grower struct {
	*Memory
	limit  *scopedLimit
	random *rand.Rand
}

func newGrower(t *testing.T, maxKeys int, seed uint64) *grower {
	t.Helper()
	m := MustNew(Options{MaxKeys: maxKeys, Clock: func() time.Time { return time.Unix(1e9, 0) }})
	k, err := m.limits.of(&backends.Charge{Scope: "s", Limit: limits.FixedWindow(limits.PerDay(5)), Cost: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &grower{m, k, rand.New(rand.NewPCG(seed, 1))}
}

// add takes a unit of a new key of the first shard, and returns its hash.
func (g *grower) add() uint64 {
	hash := g.random.Uint64()
	if len(g.shards) > 1 {
		hash &= 1<<g.shift - 1
	}
	sh := &g.shards[0]
	var d limits.Decision
	sh.mu.Lock()
	sh.takeLocked(sh.table.find(hash), hash, g.limit, 1, 1e15, 0, &d)
	sh.mu.Unlock()
	return hash
}

// Whoever looked up a slot before the lock must not find its key where it was
// before the table grew.
func TestAPlaceLookedUpBeforeTheTableGrewIsEmpty(t *testing.T) {
	g := newGrower(t, 8000, testrun.Seed(t))
	sh := &g.shards[0]
	type looked struct {
		hash uint64
		at   *entry
	}
	var before []looked
	grown := 0
	for keys := 0; keys < 8000 && len(sh.table.buckets) < g.shards[0].table.largest; keys++ {
		size := len(sh.table.buckets)
		hash := g.add()
		if len(sh.table.buckets) == size {
			before = append(before, looked{hash, g.tables[0].slot(hash)}, looked{hash, sh.table.find(hash)})
			continue
		}
		grown++
		for _, l := range before {
			if l.at.hash != unused {
				t.Fatalf("size %d: a slot of the table before has hash %x", len(sh.table.buckets), l.at.hash)
			}
			if e := sh.table.find(l.hash); e == nil || e.hash != l.hash || e.a != 1 {
				t.Fatalf("size %d: key %x is lost: %+v", len(sh.table.buckets), l.hash, e)
			}
		}
		for i := range before {
			before[i].at = sh.table.find(before[i].hash)
		}
		before = append(before, looked{hash, sh.table.find(hash)})
		first := sh.table.buckets[firstHome(hash, uint64(len(sh.table.buckets)))]
		if g.tables[0].slot(hash).hash != first[0].hash {
			t.Fatalf("size %d: the slot to look up first is another", len(sh.table.buckets))
		}
	}
	if grown < 10 {
		t.Errorf("the table grew %d times only", grown)
	}
}

// A shard gets more keys than its share by chance: by six standard deviations, with
// odds of one in a billion. There is room for two more. Looking at 64 buckets only,
// one in four of these shards displaced a key.
func TestAShardHasRoomForWhatChanceSendsToIt(t *testing.T) {
	for seed := range uint64(40) {
		g := newGrower(t, 0, seed)
		share := defaultMaxKeys / len(g.shards)
		for range share + 8*90 { // the deviation is 89
			g.add()
		}
		if !g.shards[0].floors.empty() {
			t.Errorf("seed %d: %d keys in a shard for %d, and one was displaced", seed, share+8*90, share)
		}
	}
}

// The largest store of all has 65,536 shards, whose tables need both homes of a
// key to be anywhere.
func TestAShardOfTheLargestStoreUsesAllOfItsTable(t *testing.T) {
	g := newGrower(t, maxMaxKeys, 1)
	share := maxMaxKeys / len(g.shards)
	for range share {
		g.add()
	}
	sh := &g.shards[0]
	if !sh.floors.empty() {
		t.Errorf("a shard for %d keys displaced one of them", share)
	}
	if len(sh.table.buckets) != g.shards[0].table.largest {
		t.Errorf("%d keys in %d buckets, want %d", share, len(sh.table.buckets), g.shards[0].table.largest)
	}
}

func TestTablesDoubleUpToTheirLargestSize(t *testing.T) {
	for size := 2; size <= 5000; size++ {
		for at, steps := sizeAbove(0, size), 0; at < size; steps++ {
			next := sizeAbove(at, size)
			if at < 2 || at > 3 && steps == 0 || next <= at || next > 2*at || next < 2*at-1 || steps > 12 {
				t.Fatalf("up to %d buckets: %d after %d", size, next, at)
			}
			at = next
		}
	}
}

// A table that cannot take every key is not used, and the one before stays whole.
func TestATableWithoutRoomForEveryKeyIsNotUsed(t *testing.T) {
	g := newGrower(t, 1000, testrun.Seed(t))
	var hashes []uint64
	for range 500 {
		hashes = append(hashes, g.add())
	}
	sh := &g.shards[0]
	old := unsafe.SliceData(sh.table.buckets)
	if sh.table.moveTo(make([]tableBucket, 100)) {
		t.Fatal("500 keys moved to 400 slots")
	}
	if unsafe.SliceData(sh.table.buckets) != old {
		t.Error("the shard has another table")
	}
	for _, hash := range hashes {
		if e := sh.table.find(hash); e == nil || e.a != 1 {
			t.Fatalf("key %x is lost", hash)
		}
	}
}

func TestNoTwoLocksShareCacheLines(t *testing.T) {
	if size := unsafe.Sizeof(shard{}); size != 256 && unsafe.Sizeof(uintptr(0)) == 8 {
		t.Errorf("a shard has %d bytes, want 256", size)
	}
}
