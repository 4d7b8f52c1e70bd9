package memory

import (
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/ground/family"
)

// entry is one slot of the table: 32 bytes without pointers, so the garbage collector does not scan
// them.
type entry struct {
	hash uint64 // of scope and key; unused or vacated in an empty slot
	state
}

// The hash field of an empty slot.
const (
	unused  = 0 // it never had an entry
	vacated = 1 // it had one
)

func (e *entry) empty() bool { return e.hash <= vacated }

const bucketSlots = 4

// tableBucket is four slots in two neighbouring cache lines. A key has two buckets, its homes: it
// may be in any of their eight slots.
type tableBucket [bucketSlots]entry

// fetch loads both cache lines of a bucket before it is needed. The cache misses of a search then
// overlap, which halves the time of a flood.
func (b *tableBucket) fetch() {
	atomic.LoadUint64(&b[0].hash)
	atomic.LoadUint64(&b[2].hash)
}

// shard is a part of a [Memory] with its own lock: a cuckoo hash table that grows up to its share
// of MaxKeys. A slot whose state is fresh is free.
//
// In a cuckoo table every key has two homes. A new key whose homes are full moves another key to
// that key's other home. An example, with one slot a bucket instead of four:
//
//	ann   homes 1 and 4   is in 1
//	bob   homes 4 and 2   is in 4
//	eve   homes 1 and 4   is new: both are full, so the search looks at the other homes
//	      of their keys: ann's is 4 (full), bob's is 2 (free)
//	      bob moves from 4 to 2, and eve goes to 4
type shard struct {
	mu      sync.Mutex
	latest  int64 // the latest instant of a decision of the shard
	limits  *scopedLimits
	buckets []tableBucket // at least 2
	full    bool          // the last search found no slot, and the table has its final size
	near    uint8         // how many more searches must not use searchWidthFar
	floors  floors
	nodes   logNodes
	memory  *Memory
	ref     *tableRef

	serial uint16 // the latest serial that serialLocked gave to a state

	held *heldTable // units of concurrency limits in flight; nil until the first

	rings      map[uint64]*family.Ring // by hash, of buckets with charges that have a Lasts
	ringsSweep int                     // at this size storeRingLocked sweeps

	changes      map[uint64]change // by hash, of keys whose limit has changed
	changesSweep int               // at this size storeChangeLocked sweeps

	displaced int64 // how many keys were displaced

	_ [8]byte // pads to 256 bytes: no two locks in one pair of cache lines
}

// nowLocked returns the instant at which to decide. The caller read now before it got the lock; the
// result is no earlier than the instant of any earlier holder of the lock.
func (sh *shard) nowLocked(now int64) int64 {
	sh.latest = max(sh.latest, now)
	return sh.latest
}

// firstHome returns the index, below size, of the first home of a hash.
func firstHome(hash, size uint64) uint64 { return uint64(uint32(hash)) * size >> 32 }

// homes returns the two homes of a hash, which always differ. The top 16 bits of a hash choose the
// shard, bits 0 to 31 the first home, and bits 16 to 47 the second.
func (sh *shard) homes(hash uint64) (uint32, uint32) {
	a := uint32(firstHome(hash, uint64(len(sh.buckets))))
	b := uint32(uint64(uint32(hash>>16)) * uint64(len(sh.buckets)) >> 32)
	if a == b {
		if b++; b == uint32(len(sh.buckets)) {
			b = 0
		}
	}
	return a, b
}

// findLocked returns the entry of hash, or nil. A key goes to its second home only if its first is
// full. So an unused slot in the first home ends the search, which saves half the cache misses
// while a store fills.
func (sh *shard) findLocked(hash uint64) *entry {
	bucket := &sh.buckets[firstHome(hash, uint64(len(sh.buckets)))]
	for i := range bucket {
		if bucket[i].hash == hash {
			return &bucket[i]
		}
	}
	if bucket[bucketSlots-1].hash == unused {
		return nil
	}
	_, second := sh.homes(hash)
	bucket = &sh.buckets[second]
	for i := range bucket {
		if bucket[i].hash == hash {
			return &bucket[i]
		}
	}
	return nil
}

// storeLocked stores s, to which units were just added, as the state of hash under limit. e is the
// entry of hash, or nil.
func (sh *shard) storeLocked(e *entry, hash uint64, limit *scopedLimit, s family.Used, now int64) {
	found := e != nil
	if !found {
		e = sh.claimLocked(hash, limit, now)
	}
	if e.hash == hash && e.limitID != limit.id {
		sh.overwriteLocked(e, limit, now)
	}
	if limit.Lists {
		if limit.Values {
			sh.storeValueLocked(e, hash, limit, s, now, found)
		} else {
			sh.storeLogLocked(e, hash, limit, s, now, found)
		}
		return
	}
	if e.hash == hash && e.limitID != limit.id {
		sh.releaseLocked(&e.state)
	}
	e.hash, e.limitID = hash, limit.id
	e.set(s)
}

// serialLocked returns the serial of s after a taking. A state that is new or was converted gets
// the next one. A leaky queue gets a new one with each taking, since only its last taking can be
// returned.
func (sh *shard) serialLocked(limit *scopedLimit, s family.Used) uint16 {
	if s.Serial != 0 && !limit.Queues {
		return s.Serial
	}
	if sh.serial++; sh.serial == 0 {
		sh.serial = 1
	}
	return sh.serial
}

// releaseLocked frees the nodes of s, if s is a log that is about to be overwritten.
func (sh *shard) releaseLocked(s *state) {
	if s.limitID == 0 || s.a == 0 {
		return
	}
	if limit := sh.limits.get(s.limitID); limit.Lists {
		sh.nodes.release(s, limit.share)
	}
}

// clearLocked empties a slot.
func (sh *shard) clearLocked(e *entry) {
	sh.releaseLocked(&e.state)
	delete(sh.changes, e.hash)
	*e = entry{hash: vacated}
}

// reusableLocked reports whether a new key may take the slot e: it is empty, or its state is fresh
// at now and no limit starts from a change of its key.
func (sh *shard) reusableLocked(e *entry, now int64) bool {
	if e.empty() {
		return true
	}
	if sh.limits.get(e.limitID).family.FreshAt(e.used()) > now {
		return false
	}
	if len(sh.changes) == 0 {
		return true
	}
	_, changed := sh.changeLocked(e, now)
	return !changed
}
