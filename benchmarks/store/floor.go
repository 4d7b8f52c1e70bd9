package store

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"time"
)

// floor does only what every exact keyed store in portable Go must do: it reads a monotonic clock,
// hashes the key, and, under a lock, reads and writes the state of the key at a place that it finds
// without a search. It does not compare, count or report, so it is not a limiter. It shows how much
// of a store's time is unavoidable.
type floor struct {
	start  time.Time
	seed   maphash.Seed
	shards [64]floorShard
	places [][4]uint64 // as many places of 32 bytes as a table with some spare room
	allow  bool
}

type floorShard struct {
	sync.Mutex
	_ [120]byte
}

func openFloor(q Quota, keys int) Store {
	return &floor{
		start:  time.Now(),
		seed:   maphash.MakeSeed(),
		places: make([][4]uint64, max(1024, keys+keys/5)),
		allow:  q.Burst > 1,
	}
}

func (f *floor) Decider() Decider { return f }

func (f *floor) Allow(key string) bool {
	hash := maphash.String(f.seed, key)
	now := uint64(time.Since(f.start))
	at, _ := bits.Mul64(hash, uint64(len(f.places)))
	shard, place := &f.shards[hash%uint64(len(f.shards))], &f.places[at]
	shard.Lock()
	place[0] += now
	shard.Unlock()
	return f.allow
}
