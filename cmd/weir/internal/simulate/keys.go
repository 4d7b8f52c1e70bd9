package simulate

import (
	"hash/maphash"
	"unsafe"
)

// keys assigns numbers to texts and stores each text once, in memory that the garbage collector
// does not scan: about 40 bytes plus the text. Texts are identified by a 64-bit hash with a secret
// seed, as in a [memory.Memory]: comparing texts would cost two cache misses per line. Only one
// goroutine may add texts.
type keys struct {
	seed  maphash.Seed
	table []slot
	where chunked[uint64] // chunk, offset and length of each text by number
	n     uint32
	arena [][]byte
}

type slot struct {
	hash uint64 // 0: free
	id   uint32
}

const (
	arenaSize = 1 << 20
	maxText   = 1 << 12 // bytes of a text that are kept
)

func newKeys() *keys {
	k := &keys{seed: maphash.MakeSeed(), table: make([]slot, 1<<10)}
	k.of("") // number 0 is the empty text
	return k
}

// of returns the number of a text, and the stored text.
func (k *keys) of(text string) (uint32, string) {
	text = text[:min(len(text), maxText)]
	hash := max(1, maphash.String(k.seed, text))
	at := k.find(hash)
	if s := k.table[at]; s.hash == hash {
		return s.id, k.text(s.id)
	}
	id := k.n
	k.n++
	*k.where.at(id) = k.store(text)
	k.table[at] = slot{hash, id}
	if uint64(k.n)*4 > uint64(len(k.table))*3 {
		k.grow()
	}
	return id, k.text(id)
}

// find returns the index of hash in the table, or the free slot for it.
func (k *keys) find(hash uint64) uint64 {
	mask := uint64(len(k.table) - 1)
	at := hash & mask
	for k.table[at].hash != 0 && k.table[at].hash != hash {
		at = (at + 1) & mask
	}
	return at
}

// store stores a text and returns its place.
func (k *keys) store(text string) uint64 {
	last := len(k.arena) - 1
	if last < 0 || cap(k.arena[last])-len(k.arena[last]) < len(text) {
		k.arena = append(k.arena, make([]byte, 0, arenaSize))
		last++
	}
	at := len(k.arena[last])
	k.arena[last] = append(k.arena[last], text...)
	return uint64(last)<<40 | uint64(at)<<16 | uint64(len(text))
}

// text returns the text of a number. It is never modified.
func (k *keys) text(id uint32) string {
	where := *k.where.at(id)
	n := where & 0xffff
	if n == 0 {
		return ""
	}
	return unsafe.String(&k.arena[where>>40][where>>16&0xffffff], n)
}

func (k *keys) grow() {
	old := k.table
	k.table = make([]slot, 2*len(old))
	for _, s := range old {
		if s.hash != 0 {
			k.table[k.find(s.hash)] = s
		}
	}
}

// chunked is an array that grows without copying. The zero value is empty.
type chunked[T any] struct{ chunks []*[chunkSize]T }

const chunkSize = 1 << 11

// at returns a pointer to element i, and grows the array if needed.
func (c *chunked[T]) at(i uint32) *T {
	chunk := int(i / chunkSize)
	for chunk >= len(c.chunks) {
		c.chunks = append(c.chunks, nil)
	}
	if c.chunks[chunk] == nil {
		c.chunks[chunk] = new([chunkSize]T)
	}
	return &c.chunks[chunk][i%chunkSize]
}

// get returns element i, or the zero value if it was never set.
func (c *chunked[T]) get(i uint32) (zero T) {
	if chunk := int(i / chunkSize); chunk < len(c.chunks) && c.chunks[chunk] != nil {
		return c.chunks[chunk][i%chunkSize]
	}
	return zero
}

// all yields every element that is not zero.
func (c *chunked[T]) all(isZero func(*T) bool) func(yield func(uint32, *T) bool) {
	return func(yield func(uint32, *T) bool) {
		for n, chunk := range c.chunks {
			if chunk == nil {
				continue
			}
			for i := range chunk {
				if v := &chunk[i]; !isZero(v) && !yield(uint32(n*chunkSize+i), v) {
					return
				}
			}
		}
	}
}
