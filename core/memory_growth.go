package core

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// tableRef is where the table of a shard is, for those who do not have its lock.
// The size is written last and read first, so that it is never larger than the
// table.
type tableRef struct {
	size  atomic.Uint64
	first atomic.Pointer[placeBucket]
}

// firstPlace returns the first place of the first home of a hash, or another
// place if the shard is growing, without looking at the shard: the processor can
// fetch it while it waits for the shard's lock. That takes a third off a key which
// two processors charge. A table that a shard has grown out of is empty.
func (m *Memory) firstPlace(hash uint64) *entry {
	ref := &m.tables[hash>>m.shift]
	home := firstHome(hash, ref.size.Load())
	return &(*placeBucket)(unsafe.Add(unsafe.Pointer(ref.first.Load()), home*uint64(unsafe.Sizeof(placeBucket{}))))[0]
}

// useLocked makes a table that of the shard.
func (sh *shard) useLocked(table []placeBucket) {
	sh.buckets = table
	sh.ref.first.Store(unsafe.SliceData(table))
	sh.ref.size.Store(uint64(len(table)))
}

// part returns the i-th part of a table, of size buckets.
func part(table []placeBucket, i, size int) []placeBucket {
	return table[i*size : (i+1)*size : (i+1)*size]
}

// sizeAbove returns the next size of a shard that has size buckets. The sizes are
// the largest one, half of it, a quarter and so on, at least 2.
func (m *Memory) sizeAbove(size int) int {
	next := m.size
	for next > 2 && (next+1)/2 > size {
		next = (next + 1) / 2
	}
	return next
}

// growing reports whether the table is smaller than it may become.
func (sh *shard) growing() bool { return len(sh.buckets) < sh.memory.size }

// growLocked gives the shard a table twice as large, and reports whether it did.
// That takes some 100 µs for thousands of keys. When the first shard of a large
// store grows to half of its largest size, all are about to, and are united.
func (sh *shard) growLocked() bool {
	m := sh.memory
	for size := len(sh.buckets); size < m.size; {
		if size = m.sizeAbove(size); size > m.size/2 && m.unites() && m.united.CompareAndSwap(false, true) {
			go m.unite()
		}
		if sh.moveToLocked(make([]placeBucket, size)) {
			return true
		}
	}
	return false
}

// moveToLocked moves the shard to a table that was never used, and reports whether
// it did: not if there is no place for every key.
func (sh *shard) moveToLocked(table []placeBucket) bool {
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
	clear(old) // whoever looked up a place there finds that its key is not in it
	return true
}

// insertLocked copies e, which is of another table, to an empty place, and
// reports whether there is one.
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
	var steps [searchWidth]step
	const never = math.MinInt64 // nothing is forgotten
	_, place := sh.searchLocked(steps[:], a, b, never)
	if place == nil {
		return false
	}
	*place = *e
	return true
}

// unites reports whether the tables of all shards together are so large that they
// are better off in large pages.
func (m *Memory) unites() bool {
	const least = 4 << 20 // has one of 2 MiB wherever it starts
	return len(m.shards)*m.size*int(unsafe.Sizeof(placeBucket{})) >= least
}

// unite gives every shard its largest size, in one table that is kept in large
// pages: a million keys take an eighth less time in it. It runs beside the
// decisions, which do not wait for the system to hand over memory; and a shard
// that needs room before it is its turn grows by itself.
func (m *Memory) unite() {
	table := make([]placeBucket, len(m.shards)*m.size)
	inHugePages(table)
	for i := range m.shards {
		sh, table := &m.shards[i], part(table, i, m.size)
		for b := 0; b < len(table); b += 4096 / int(unsafe.Sizeof(table[0])) {
			table[b][0].hash = unused // has the system hand the page over before the shard is locked
		}
		sh.mu.Lock()
		sh.moveToLocked(table)
		sh.mu.Unlock()
	}
}
