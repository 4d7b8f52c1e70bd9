package memory

import (
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/ground/family"
)

// entry is one slot of the table: 32 bytes without pointers, so that the
// garbage collector never looks at them.
type entry struct {
	hash uint64 // of scope and key, or why the slot is empty
	state
}

// The hashes of empty slots.
const (
	unused  = 0 // since the table was made
	vacated = 1
)

func (e *entry) empty() bool { return e.hash <= vacated }

const bucketSlots = 4

// tableBucket is four slots in two neighbouring cache lines. A key may live
// in either of two buckets: eight slots.
type tableBucket [bucketSlots]entry

// fetch makes the processor load both cache lines of a bucket that is needed soon. The
// cache misses of a search then overlap, which halves the time of a flood.
func (b *tableBucket) fetch() {
	atomic.LoadUint64(&b[0].hash)
	atomic.LoadUint64(&b[2].hash)
}

// shard is a part of a [Memory] with its own lock: a cuckoo hash table that grows up
// to its share of MaxKeys. A slot whose state is fresh is free space.
type shard struct {
	mu      sync.Mutex
	latest  int64 // instant at which the shard has decided
	limits  *scopedLimits
	buckets []tableBucket // at least 2
	full    bool          // the last search for a slot found none, and the table grows no more
	near    uint8         // how many more searches must not be far ones
	floors  []floor       // at most maxFloors
	nodes   logNodes
	memory  *Memory
	ref     *tableRef

	serial uint16 // of the latest state that is new

	held *heldTable // units of concurrency limits in flight; nil: there never were any

	rings     map[uint64]*family.Ring // of buckets with charges that last, by hash
	ringsLook int                     // at how many to look for those whose bucket has no entry any more

	changes     map[uint64]change // of keys whose limit has changed, by hash
	changesLook int               // at how many to look for those that no limit starts from

	displaced int64 // keys whose places others took

	_ [40]byte // 256 in all: no two locks in one pair of cache lines
}

// nowLocked returns the instant of a caller that read the clock at now before it had the lock:
// no earlier than that of anybody who had the lock before.
func (sh *shard) nowLocked(now int64) int64 {
	sh.latest = max(sh.latest, now)
	return sh.latest
}

// firstHome returns which of size buckets is the first home of a hash.
func firstHome(hash, size uint64) uint64 { return uint64(uint32(hash)) * size >> 32 }

// homes returns the two buckets in which a key may live, never the same one. Of
// the hash, the 16 bits at the top choose the shard, the next ones the second
// home, and those in the middle the first.
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

// findLocked returns the entry of hash, nil if there is none. A key goes to its second
// home only when its first is full. So a slot in the first that was never used ends
// the search, which saves half the cache misses while a store fills.
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

// storeLocked writes s, to which units were just added, as the state of hash under
// limit. e is the entry of hash, nil if it has none.
func (sh *shard) storeLocked(e *entry, hash uint64, limit *scopedLimit, s family.Used, now int64) {
	found := e != nil
	if !found {
		e = sh.claimLocked(hash, limit, now)
	}
	if e.hash == hash && e.limitID != limit.id {
		sh.overwriteLocked(e, limit, now)
	}
	if limit.Lists {
		sh.storeLogLocked(e, hash, limit, s, now, found)
		return
	}
	if e.hash == hash && e.limitID != limit.id {
		sh.releaseLocked(&e.state)
	}
	e.hash, e.limitID = hash, limit.id
	e.set(s)
}

// serialLocked returns the serial of s, of which units were just taken: a new one if it has none, since it
// is new or converted. Of a leaky queue only the last taking is ever returned.
func (sh *shard) serialLocked(limit *scopedLimit, s family.Used) uint16 {
	if s.Serial != 0 && !limit.Queues {
		return s.Serial
	}
	if sh.serial++; sh.serial == 0 {
		sh.serial = 1
	}
	return sh.serial
}

// releaseLocked frees the list of a log that is about to be overwritten. It does nothing for
// other families.
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

// reusableLocked reports whether e is empty, or its state is fresh at now and no limit starts from a
// change of its key.
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
