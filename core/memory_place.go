package core

import "math"

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
