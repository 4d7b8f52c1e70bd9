package memory

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// tableRef locates the table of a shard for callers without the shard's lock. The size is written
// last and read first, so it is never larger than the table.
type tableRef struct {
	size  atomic.Uint64
	first atomic.Pointer[tableBucket]
}

// firstSlot returns the first slot of the first home of a hash. It needs no lock, so the processor
// loads the slot while it waits for the lock; a key that two processors charge takes a third less
// time. While the shard grows, the slot may be a wrong one, or one of an old table, which is empty:
// the caller compares the hash.
func (m *Memory) firstSlot(hash uint64) *entry {
	ref := &m.tables[hash>>m.shift]
	home := firstHome(hash, ref.size.Load())
	return &(*tableBucket)(
		unsafe.Add(unsafe.Pointer(ref.first.Load()), home*uint64(unsafe.Sizeof(tableBucket{}))))[0]
}

// useLocked makes table the table of the shard.
func (sh *shard) useLocked(table []tableBucket) {
	sh.buckets = table
	sh.ref.first.Store(unsafe.SliceData(table))
	sh.ref.size.Store(uint64(len(table)))
}

// subtable returns the i-th part of a table, of size buckets.
func subtable(table []tableBucket, i, size int) []tableBucket {
	return table[i*size : (i+1)*size : (i+1)*size]
}

// sizeAbove returns the size to which a shard of size buckets grows. The sizes are m.size, half of
// it, a quarter and so on, at least 2.
func (m *Memory) sizeAbove(size int) int {
	next := m.size
	for next > 2 && (next+1)/2 > size {
		next = (next + 1) / 2
	}
	return next
}

// growing reports whether the table may still grow.
func (sh *shard) growing() bool { return len(sh.buckets) < sh.memory.size }

// growLocked doubles the table, and reports whether it did. That takes some 100 µs for
// thousands of keys.
func (sh *shard) growLocked() bool {
	m := sh.memory
	for size := len(sh.buckets); size < m.size; {
		size = m.sizeAbove(size)
		if sh.moveToLocked(make([]tableBucket, size)) {
			return true
		}
	}
	return false
}

// moveToLocked moves the shard to an empty table. It returns false, and leaves the shard as it was,
// if a key finds no slot.
func (sh *shard) moveToLocked(table []tableBucket) bool {
	old := sh.buckets
	sh.buckets = table
	for b := range old {
		for p := range old[b] {
			if e := &old[b][p]; !e.empty() && !sh.insertLocked(e) {
				sh.buckets = old
				return false
			}
		}
	}
	sh.useLocked(table)
	clear(old) // a caller of firstSlot may still read it
	return true
}

// insertLocked copies e, an entry of another table, to an empty slot. It returns false if it finds
// none.
func (sh *shard) insertLocked(e *entry) bool {
	a, b := sh.homes(e.hash)
	for _, home := range [...]uint32{a, b} {
		bucket := &sh.buckets[home]
		for i := range bucket {
			if bucket[i].empty() {
				bucket[i] = *e
				return true
			}
		}
	}
	var visits [searchWidth]visit
	const never = math.MinInt64 // at this instant no state is fresh
	_, slot := sh.searchLocked(visits[:], a, b, never)
	if slot == nil {
		return false
	}
	*slot = *e
	return true
}
