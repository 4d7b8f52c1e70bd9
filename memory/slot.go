package memory

import "math"

// claimLocked returns an empty slot for a new key under limit, one of its eight. If none is free,
// it moves other keys to their other homes; else it grows the table; else it displaces a key.
func (sh *shard) claimLocked(hash uint64, limit *scopedLimit, now int64) *entry {
	for {
		a, b := sh.homes(hash)
		if e := sh.freeSlotLocked(a, now); e != nil {
			return e
		}
		if e := sh.freeSlotLocked(b, now); e != nil {
			return e
		}
		if e := sh.makeRoomLocked(a, b, limit, now); e != nil {
			return e
		}
	}
}

// freeSlotLocked empties a reusable slot of a bucket and returns it, or nil.
func (sh *shard) freeSlotLocked(bucket uint32, now int64) *entry {
	slots := &sh.buckets[bucket]
	for i := range slots {
		if e := &slots[i]; sh.reusableLocked(e, now) {
			sh.clearLocked(e)
			return e
		}
	}
	return nil
}

// The number of buckets that a search for a slot looks at. In a store with MaxKeys keys, seven in
// ten buckets are full. A search meets even more full ones, because a key in its second home had a
// full first home. So a search of 64 buckets may fail below MaxKeys: that displaced a key in one of
// a thousand stores of 100,000 keys. Therefore a far search of 256 buckets precedes the first
// displacement. It never failed in hundreds of shards that had eight standard deviations more keys
// than their share.
//
// After a search has found the shard full, the next ones look at 8 buckets until one succeeds. A
// table that can grow does so when 16 buckets are full: at a load of three quarters and more.
const (
	searchWidth        = 64
	searchWidthFar     = 256
	searchWidthFull    = 8
	searchWidthGrowing = 16
)

// visit is a step of a search. The bucket is the other home of the key that is in the given slot of
// the parent visit's bucket.
type visit struct {
	bucket uint32
	parent uint8
	slot   uint8
}

// makeRoomLocked empties a slot in the full buckets a and b by a chain of moves, and returns it. If
// there is no chain, it grows the table and returns nil. If the table cannot grow, it displaces one
// of the keys that the search looked at.
func (sh *shard) makeRoomLocked(a, b uint32, limit *scopedLimit, now int64) *entry {
	width := searchWidth
	switch {
	case sh.full:
		width = searchWidthFull
	case sh.growing():
		width = searchWidthGrowing
	}
	var visits [searchWidth]visit
	n, e := sh.searchLocked(visits[:width], a, b, now)
	if e == nil && !sh.full {
		if sh.growLocked() {
			return nil
		}
		e = sh.searchFarLocked(a, b, now)
	}
	sh.full = e == nil
	if e == nil {
		e = sh.displaceLocked(visits[:n], limit, now)
	}
	return e
}

// searchFarLocked searches 256 buckets, which takes some microseconds. After a failure the next 255
// calls do nothing, since another search would fail too.
func (sh *shard) searchFarLocked(a, b uint32, now int64) *entry {
	if sh.near > 0 {
		sh.near--
		return nil
	}
	var visits [searchWidthFar]visit
	_, e := sh.searchLocked(visits[:], a, b, now)
	if e == nil {
		sh.near = math.MaxUint8
	}
	return e
}

// searchLocked searches breadth-first, from the full buckets a and b, for a chain of moves that
// ends at a free slot. Each move takes a key to its other home. searchLocked makes the moves and
// returns the slot that they free in a or b, or nil if it finds no chain within len(visits)
// buckets. It also returns how many visits it made.
func (sh *shard) searchLocked(visits []visit, a, b uint32, now int64) (int, *entry) {
	visits[0], visits[1] = visit{bucket: a}, visit{bucket: b}
	n := 2
	for i := 0; i < n; i++ {
		if i >= 2 {
			if free := sh.freeSlotLocked(visits[i].bucket, now); free != nil {
				return n, sh.moveLocked(visits, i, free)
			}
		}
		for slot := range bucketSlots {
			if n == len(visits) {
				break
			}
			other := sh.otherHome(sh.buckets[visits[i].bucket][slot].hash, visits[i].bucket)
			detour := other == a || other == b
			for at := i; !detour && at >= 2; at = int(visits[at].parent) {
				detour = visits[at].bucket == other // a chain must not move one slot twice
			}
			if !detour {
				visits[n] = visit{other, uint8(i), uint8(slot)}
				n++
				sh.buckets[other].fetch()
			}
		}
	}
	return n, nil
}

// moveLocked makes the moves that end in free, a slot in the bucket of the i-th visit, and returns
// the slot that they free in one of the first two buckets.
func (sh *shard) moveLocked(visits []visit, i int, free *entry) *entry {
	for ; i >= 2; i = int(visits[i].parent) {
		from := &sh.buckets[visits[visits[i].parent].bucket][visits[i].slot]
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
