package memory

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// entry is one slot of the table: 32 bytes without pointers, so the garbage collector does not scan
// them.
type entry struct {
	hash uint64 // of scope and key; unused or vacated in an empty slot
	state
}

// The hash field of an empty slot. keyhash never returns these.
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

// table is a cuckoo hash table of the keys of a shard, which grows up to its share of MaxKeys. A
// slot whose state is fresh is free: [states] knows.
//
// In a cuckoo table every key has two homes. A new key whose homes are full moves another key to
// that key's other home. An example, with one slot a bucket instead of four:
//
//	ann   homes 1 and 4   is in 1
//	bob   homes 4 and 2   is in 4
//	eve   homes 1 and 4   is new: both are full, so the search looks at the other homes
//	      of their keys: ann's is 4 (full), bob's is 2 (free)
//	      bob moves from 4 to 2, and eve goes to 4
type table struct {
	buckets []tableBucket // at least 2
	full    bool          // the last search found no slot, and the table has its final size
	near    uint8         // how many more searches must not use searchWidthFar
	largest int           // buckets of a table that has grown fully
	ref     *tableRef
}

// tableRef locates the table of a shard for callers without the shard's lock. The size is written
// last and read first, so it is never larger than the table.
type tableRef struct {
	size  atomic.Uint64
	first atomic.Pointer[tableBucket]
}

// slot returns the first slot of the first home of a hash. It needs no lock, so the processor loads
// the slot while it waits for the lock; a key that two processors charge takes a third less time.
// While the table grows, the slot may be a wrong one, or one of an old table, which is empty: the
// caller compares the hash.
func (ref *tableRef) slot(hash uint64) *entry {
	home := firstHome(hash, ref.size.Load())
	return &(*tableBucket)(
		unsafe.Add(unsafe.Pointer(ref.first.Load()), home*uint64(unsafe.Sizeof(tableBucket{}))))[0]
}

// firstHome returns the index, below size, of the first home of a hash.
func firstHome(hash, size uint64) uint64 { return uint64(uint32(hash)) * size >> 32 }

// homes returns the two homes of a hash, which always differ. The top 16 bits of a hash choose the
// shard, bits 0 to 31 the first home, and bits 16 to 47 the second.
func (t *table) homes(hash uint64) (uint32, uint32) {
	a := uint32(firstHome(hash, uint64(len(t.buckets))))
	b := uint32(uint64(uint32(hash>>16)) * uint64(len(t.buckets)) >> 32)
	if a == b {
		if b++; b == uint32(len(t.buckets)) {
			b = 0
		}
	}
	return a, b
}

// find returns the entry of hash, or nil. A key goes to its second home only if its first is
// full. So an unused slot in the first home ends the search, which saves half the cache misses
// while a store fills.
func (t *table) find(hash uint64) *entry {
	bucket := &t.buckets[firstHome(hash, uint64(len(t.buckets)))]
	for i := range bucket {
		if bucket[i].hash == hash {
			return &bucket[i]
		}
	}
	if bucket[bucketSlots-1].hash == unused {
		return nil
	}
	_, second := t.homes(hash)
	bucket = &t.buckets[second]
	for i := range bucket {
		if bucket[i].hash == hash {
			return &bucket[i]
		}
	}
	return nil
}

// free empties a slot for a new key, one of its eight, and returns it. It returns nil if none is
// reusable.
func (t *table) free(hash uint64, states *states, now int64) *entry {
	a, b := t.homes(hash)
	if e := t.freeIn(a, states, now); e != nil {
		return e
	}
	return t.freeIn(b, states, now)
}

// freeIn empties a reusable slot of a bucket and returns it, or nil. Without states only an empty
// slot is reusable.
func (t *table) freeIn(bucket uint32, states *states, now int64) *entry {
	slots := &t.buckets[bucket]
	for i := range slots {
		switch e := &slots[i]; {
		case states == nil:
			if e.empty() {
				return e
			}
		case states.reusable(e, now):
			states.clear(e)
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

// makeRoom empties a slot for a new key, whose eight slots are in use, by a chain of moves, and
// returns it. If there is no chain, it grows the table. If the table cannot grow, it returns nil and
// how many visits it made.
func (t *table) makeRoom(visits *[searchWidth]visit, hash uint64, states *states,
	now int64) (n int, e *entry) {
	for {
		width := searchWidth
		switch {
		case t.full:
			width = searchWidthFull
		case t.growing():
			width = searchWidthGrowing
		}
		a, b := t.homes(hash)
		n, e = t.search(visits[:width], a, b, states, now)
		if e == nil && !t.full {
			if t.grow() {
				if e = t.free(hash, states, now); e != nil {
					return 0, e
				}
				continue
			}
			e = t.searchFar(a, b, states, now)
		}
		t.full = e == nil
		return n, e
	}
}

// searchFar searches 256 buckets, which takes some microseconds. After a failure the next 255
// calls do nothing, since another search would fail too.
func (t *table) searchFar(a, b uint32, states *states, now int64) *entry {
	if t.near > 0 {
		t.near--
		return nil
	}
	var visits [searchWidthFar]visit
	_, e := t.search(visits[:], a, b, states, now)
	if e == nil {
		t.near = math.MaxUint8
	}
	return e
}

// search searches breadth-first, from the full buckets a and b, for a chain of moves that
// ends at a free slot. Each move takes a key to its other home. search makes the moves and
// returns the slot that they free in a or b, or nil if it finds no chain within len(visits)
// buckets. It also returns how many visits it made.
func (t *table) search(visits []visit, a, b uint32, states *states,
	now int64) (int, *entry) {
	visits[0], visits[1] = visit{bucket: a}, visit{bucket: b}
	n := 2
	for i := 0; i < n; i++ {
		if i >= 2 {
			if free := t.freeIn(visits[i].bucket, states, now); free != nil {
				return n, t.move(visits, i, free)
			}
		}
		for slot := range bucketSlots {
			if n == len(visits) {
				break
			}
			other := t.otherHome(t.buckets[visits[i].bucket][slot].hash, visits[i].bucket)
			detour := other == a || other == b
			for at := i; !detour && at >= 2; at = int(visits[at].parent) {
				detour = visits[at].bucket == other // a chain must not move one slot twice
			}
			if !detour {
				visits[n] = visit{other, uint8(i), uint8(slot)}
				n++
				t.buckets[other].fetch()
			}
		}
	}
	return n, nil
}

// move makes the moves that end in free, a slot in the bucket of the i-th visit, and returns
// the slot that they free in one of the first two buckets.
func (t *table) move(visits []visit, i int, free *entry) *entry {
	for ; i >= 2; i = int(visits[i].parent) {
		from := &t.buckets[visits[visits[i].parent].bucket][visits[i].slot]
		*free, *from = *from, entry{hash: vacated}
		free = from
	}
	return free
}

func (t *table) otherHome(hash uint64, home uint32) uint32 {
	a, b := t.homes(hash)
	if home == a {
		return b
	}
	return a
}

// use makes table the table of the shard.
func (t *table) use(table []tableBucket) {
	t.buckets = table
	t.ref.first.Store(unsafe.SliceData(table))
	t.ref.size.Store(uint64(len(table)))
}

// subtable returns the i-th part of a table, of size buckets.
func subtable(table []tableBucket, i, size int) []tableBucket {
	return table[i*size : (i+1)*size : (i+1)*size]
}

// sizeAbove returns the size to which a table of size buckets grows. The sizes are the largest, half
// of it, a quarter and so on, at least 2.
func sizeAbove(size, largest int) int {
	next := largest
	for next > 2 && (next+1)/2 > size {
		next = (next + 1) / 2
	}
	return next
}

// growing reports whether the table may still grow.
func (t *table) growing() bool { return len(t.buckets) < t.largest }

// grow doubles the table, and reports whether it did. That takes some 100 µs for
// thousands of keys.
func (t *table) grow() bool {
	for size := len(t.buckets); size < t.largest; {
		size = sizeAbove(size, t.largest)
		if t.moveTo(make([]tableBucket, size)) {
			return true
		}
	}
	return false
}

// moveTo moves the shard to an empty table. It returns false, and leaves the shard as it was,
// if a key finds no slot.
func (t *table) moveTo(table []tableBucket) bool {
	old := t.buckets
	t.buckets = table
	for b := range old {
		for p := range old[b] {
			if e := &old[b][p]; !e.empty() && !t.insert(e) {
				t.buckets = old
				return false
			}
		}
	}
	t.use(table)
	clear(old) // a caller of slot may still read it
	return true
}

// insert copies e, an entry of another table, to an empty slot. It returns false if it finds
// none.
func (t *table) insert(e *entry) bool {
	a, b := t.homes(e.hash)
	for _, home := range [...]uint32{a, b} {
		bucket := &t.buckets[home]
		for i := range bucket {
			if bucket[i].empty() {
				bucket[i] = *e
				return true
			}
		}
	}
	var visits [searchWidth]visit
	_, slot := t.search(visits[:], a, b, nil, 0)
	if slot == nil {
		return false
	}
	*slot = *e
	return true
}
