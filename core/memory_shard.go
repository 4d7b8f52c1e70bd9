package core

import (
	"math"
	"slices"
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

// isPastLocked reports whether somebody who had the lock has seen more steps of the
// clock than the caller had when it read the clock.
func (sh *shard) isPastLocked(steps int64) bool {
	if sh.steps > steps {
		return true
	}
	sh.steps = steps
	return false
}

// aheadLocked returns an instant, too far after now, that the shard has acted on
// and that a charge of class k on e depends on; 0 if there is none. e is nil for a
// key that has no entry.
func (sh *shard) aheadLocked(e *entry, k *class, now int64) int64 {
	if e != nil {
		if e.at-now > sh.classes.get(e.class).patience {
			return e.at
		}
		return 0
	}
	latest := int64(0)
	if sh.clearedAt > now {
		latest = sh.clearedAt
	}
	if sh.full && sh.newestAt-now > longestHeldStep {
		latest = max(latest, sh.newestAt)
	}
	for i := range sh.floors {
		if f := &sh.floors[i]; f.state.at-now > f.class.hold {
			latest = max(latest, f.state.at)
		}
	}
	if c := sh.coarseLocked(k); c != nil && c.at-now > c.hold {
		latest = max(latest, c.at)
	}
	return latest
}

func (sh *shard) floorsAheadLocked(now int64) bool {
	return slices.ContainsFunc(sh.floors, func(f floor) bool { return f.state.at-now > f.class.hold }) ||
		sh.coarse != nil && slices.ContainsFunc(sh.coarse[:], func(c coarseFloor) bool { return c.at-now > c.hold })
}

// rebaseLocked brings back the state of e, or the whole shard if e is nil, to a
// clock that has stepped back to now, and returns e. A peek gets a copy instead.
// Others do it whatever the decision: otherwise what a key has in use would count
// as taken now for as long as it is denied. A new key needs all of the shard brought
// back if it is full: otherwise keys far ahead would keep their places for all of the
// step.
func (sh *shard) rebaseLocked(e *entry, now int64, peeking bool) *entry {
	if e == nil {
		if !peeking {
			sh.rebaseAllLocked(now)
		}
		return nil
	}
	rebased, ok := sh.classes.get(e.class).rebased(e.state, now)
	switch {
	case ok && peeking:
		e = &entry{e.hash, rebased}
	case ok:
		sh.releaseLocked(&e.state, 0)
		e.state = rebased
	}
	return e
}

// rebaseAllLocked brings back every state and floor. It looks at every place, once
// for a step: some hundred microseconds.
func (sh *shard) rebaseAllLocked(now int64) {
	if !(sh.full && sh.newestAt-now > longestHeldStep) && !sh.floorsAheadLocked(now) {
		return
	}
	for b := range sh.buckets {
		for p := range sh.buckets[b] {
			if e := &sh.buckets[b][p]; !e.empty() {
				sh.rebaseLocked(e, now, false)
			}
		}
	}
	sh.rebaseFloorsLocked(now)
	sh.newestAt = now
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

// claimLocked returns an empty place for a new key of class k: a free one among
// its eight or, by moving other keys to their second homes, one a few moves away.
// If there is none the table grows. One that grows no more is full, and
// displaceLocked makes a place.
func (sh *shard) claimLocked(hash uint64, k *class, now int64) *entry {
	for {
		a, b := sh.homes(hash)
		if e := sh.freePlaceLocked(a, now); e != nil {
			return e
		}
		if e := sh.freePlaceLocked(b, now); e != nil {
			return e
		}
		if e := sh.makeRoomLocked(a, b, k, now); e != nil {
			return e
		}
	}
}

// freePlaceLocked returns an emptied place of a bucket, nil if all are taken.
func (sh *shard) freePlaceLocked(bucket uint32, now int64) *entry {
	places := &sh.buckets[bucket]
	for i := range places {
		if e := &places[i]; sh.spentLocked(e, now) {
			sh.clearSpentLocked(e, now)
			return e
		}
	}
	return nil
}

// How many buckets a search for a place looks at. At the load that MaxKeys stands
// for, seven in ten buckets have no free place, and of those that a search looks
// at more, since the first home of a key in its second is full. So a search of 64
// buckets may end in vain before there are MaxKeys: one of a thousand stores of
// 100,000 keys displaced one. So the first key is displaced after a search of 256
// buckets only. In hundreds of shards that had eight standard deviations more than
// their share none was in vain. When one has just found the shard full, the next
// ones look at few until one succeeds. A table that can grow does so as soon as 16 buckets are
// full, which happens from a load of three quarters on.
const (
	searchWidth        = 64
	searchWidthFar     = 256
	searchWidthFull    = 8
	searchWidthGrowing = 16
)

// step is a bucket that a search for a place has come to: the other home of the
// key at a place of the parent step's bucket.
type step struct {
	bucket uint32
	parent uint8
	place  uint8
}

// makeRoomLocked empties a place in bucket a or b, which are full, and returns
// it. If it finds none that way, the table grows, and it returns nil; or, if the
// table is as large as it may become, one of the keys that it has come by is
// displaced.
func (sh *shard) makeRoomLocked(a, b uint32, k *class, now int64) *entry {
	width := searchWidth
	switch {
	case sh.full:
		width = searchWidthFull
	case sh.growing():
		width = searchWidthGrowing
	}
	var steps [searchWidth]step
	n, e := sh.searchLocked(steps[:width], a, b, now)
	if e == nil && !sh.full {
		if sh.growLocked() {
			return nil
		}
		e = sh.searchFarLocked(a, b, now)
	}
	sh.full = e == nil
	if e == nil {
		e = sh.displaceLocked(steps[:n], k, now)
	}
	return e
}

// searchFarLocked is a search that takes some microseconds. Where one was in vain,
// so will be the next: the shard does without for a while.
func (sh *shard) searchFarLocked(a, b uint32, now int64) *entry {
	if sh.near > 0 {
		sh.near--
		return nil
	}
	var steps [searchWidthFar]step
	_, e := sh.searchLocked(steps[:], a, b, now)
	if e == nil {
		sh.near = math.MaxUint8
	}
	return e
}

// searchLocked searches breadth-first from buckets a and b, which are full, for a
// chain of moves, each of a key to its other home, that ends at a free place. It
// returns the place that the moves leave free in a or b, nil if there is no such
// chain within as many buckets as steps has room for; and how many it looked at,
// which are then in steps.
func (sh *shard) searchLocked(steps []step, a, b uint32, now int64) (int, *entry) {
	steps[0], steps[1] = step{bucket: a}, step{bucket: b}
	n := 2
	for i := 0; i < n; i++ {
		if i >= 2 {
			if free := sh.freePlaceLocked(steps[i].bucket, now); free != nil {
				return n, sh.moveLocked(steps, i, free)
			}
		}
		for place := range bucketPlaces {
			if n == len(steps) {
				break
			}
			other := sh.otherHome(sh.buckets[steps[i].bucket][place].hash, steps[i].bucket)
			detour := other == a || other == b
			for at := i; !detour && at >= 2; at = int(steps[at].parent) {
				detour = steps[at].bucket == other // a chain must not move one place twice
			}
			if !detour {
				steps[n] = step{other, uint8(i), uint8(place)}
				n++
				sh.buckets[other].fetch()
			}
		}
	}
	return n, nil
}

// moveLocked carries out the moves that lead to a free place in the bucket of
// the i-th step, and returns the place that they leave free in the first two.
func (sh *shard) moveLocked(steps []step, i int, free *entry) *entry {
	for ; i >= 2; i = int(steps[i].parent) {
		from := &sh.buckets[steps[steps[i].parent].bucket][steps[i].place]
		*free, *from = *from, entry{hash: vacated}
		free = from
	}
	return free
}

func (sh *shard) otherHome(hash uint64, home uint32) uint32 {
	a, b := sh.homes(hash)
	if home == a {
		return b
	}
	return a
}
