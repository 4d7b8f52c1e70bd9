package core

import (
	"sync"
	"sync/atomic"
)

// entry is one place of the table: 32 bytes without pointers, so that the
// garbage collector never looks at them.
type entry struct {
	hash uint64 // of scope and key, or why the place is empty
	state
}

// The hashes of empty places.
const (
	unused  = 0 // since the table was made
	vacated = 1
)

func (e *entry) empty() bool { return e.hash <= vacated }

const bucketPlaces = 4

// placeBucket is four places in two neighbouring cache lines. A key may live
// in either of two buckets: eight places.
type placeBucket [bucketPlaces]entry

// fetch has the processor fetch both cache lines of a bucket which is looked at
// soon, so that the misses of a search overlap: half the time of a flood.
func (b *placeBucket) fetch() {
	atomic.LoadUint64(&b[0].hash)
	atomic.LoadUint64(&b[2].hash)
}

// shard is a part of a [Memory] with a lock of its own: a cuckoo hash table that
// grows up to its share of MaxKeys, and whose entries turn into free space as they
// become fresh.
type shard struct {
	mu      sync.Mutex
	steps   int64 // of the clock, as far as anybody who had the lock has seen
	classes *classes
	buckets []placeBucket // at least 2
	full    bool          // the last search for a place found none, and the table grows no more
	near    uint8         // how many searches are not to go far
	floors  []floor       // at most maxFloors
	nodes   logNodes
	memory  *Memory
	ref     *tableRef

	// clearedAt is the latest instant at which anything was forgotten because it
	// was fresh. A caller that read the clock before then, and finds nothing,
	// may have been late for it.
	clearedAt int64
	clears    uint32 // how often

	// newestAt is the latest instant at which a key was new. If that is far ahead
	// of a clock that has stepped back, so may be all that a new key needs room among.
	newestAt int64

	coarse *coarseFloors // nil: never needed

	_ [48]byte // 256 in all: no two locks in one pair of cache lines
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

// findLocked returns the entry of hash, nil if there is none. A key goes to its
// second home only when its first is full: a place there that was never used
// ends the search, which spares a store that is filling up half its misses.
func (sh *shard) findLocked(hash uint64) *entry {
	bucket := &sh.buckets[firstHome(hash, uint64(len(sh.buckets)))]
	for i := range bucket {
		if bucket[i].hash == hash {
			return &bucket[i]
		}
	}
	if bucket[bucketPlaces-1].hash == unused {
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

// settleLocked makes s what a key has used at now under the limit of k: by the
// state stored in e or, if e is nil, by what may have been displaced.
func (sh *shard) settleLocked(s *settled, e *entry, k *class, now int64) {
	switch {
	case e == nil && len(sh.floors) == 0 && sh.coarse == nil:
		k.fresh(s, now)
	case e == nil:
		sh.floorLocked(s, k, now)
	case e.class == k.id:
		k.settle(s, &e.state, now, &sh.nodes)
	default:
		k.settleFrom(&sh.classes.get(e.class).terms, s, &e.state, now, &sh.nodes)
	}
}

// storeLocked writes s, to which units were just added, as the state of hash
// under k. e is the entry of hash, nil if it has none.
func (sh *shard) storeLocked(e *entry, hash uint64, k *class, s *settled, now int64) {
	if e == nil {
		sh.newestAt = max(sh.newestAt, now)
		e = sh.claimLocked(hash, k, now)
		s.log.forgetNodes()
	}
	if k.algorithm == AlgorithmSlidingLog {
		sh.storeLogLocked(e, hash, k, s, now)
		return
	}
	if e.hash == hash && e.class != k.id {
		sh.releaseLocked(&e.state, 0)
	}
	s.class = k.id
	e.hash = hash
	e.state = s.state
}

// releaseLocked frees the nodes of a state that is about to be overwritten, up
// to the node end, if it is a log.
func (sh *shard) releaseLocked(s *state, end uint32) {
	if s.class == 0 || s.a == 0 {
		return
	}
	if k := sh.classes.get(s.class); k.algorithm == AlgorithmSlidingLog {
		sh.nodes.release(s, end, k.share)
	}
}

// clearLocked empties a place.
func (sh *shard) clearLocked(e *entry) {
	sh.releaseLocked(&e.state, 0)
	*e = entry{hash: vacated}
}

// clearSpentLocked empties a place that holds nothing that counts at now.
func (sh *shard) clearSpentLocked(e *entry, now int64) {
	if !e.empty() {
		sh.noteClearLocked(now)
	}
	sh.clearLocked(e)
}

func (sh *shard) noteClearLocked(now int64) {
	sh.clearedAt = max(sh.clearedAt, now)
	sh.clears++
}

// spentLocked reports whether e holds nothing that counts: a place to use.
func (sh *shard) spentLocked(e *entry, now int64) bool {
	return e.empty() || sh.classes.get(e.class).freshAt(&e.state) <= now
}
