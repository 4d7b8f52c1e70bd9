package simulate

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/weir-go/weir/limits"
)

// blockSize is the size of a block of a tape. Each tape that is being read has one block in memory.
const blockSize = 1 << 15

// tapes store requests outside of the heap, about 20 bytes each: in a temporary file, or in memory
// if no file can be made. The file has only numbers, no texts of a log. The zero value is ready to use.
// It is used by one goroutine.
type tapes struct {
	file   *os.File
	noFile bool    // the file cannot be created or written
	size   int64   // of file
	unused []int64 // offsets of unused blocks of file

	keys   *keys
	limits numbered[limits.Limit, limits.Limit]
	errs   numbered[string, error] // by text

	err error // first error of reading file
}

// tape is a sequence of requests that is written once and then read once.
type tape struct {
	blocks []block
	data   []byte // written but not in a block, or read but not decoded
	last   int64  // time of the last request
	head   *item  // the next request; nil at the end
}

// block is a part of a tape. All blocks except the last have blockSize bytes.
type block struct {
	at   int64 // offset in the file
	size int
	kept []byte // nil: in the file
}

// write adds a request to a tape.
func (t *tapes) write(to *tape, it *item) {
	var room [256]byte
	b := room[:0]
	b = binary.AppendVarint(b, it.at-to.last)
	b = binary.AppendVarint(b, it.lasted)
	b = binary.AppendVarint(b, it.bytes)
	b = binary.AppendUvarint(b, uint64(it.client))
	b = binary.AppendUvarint(b, uint64(it.status))
	it.each(func(c *charge) {
		b = binary.AppendUvarint(b, uint64(c.rule))
		b = binary.AppendUvarint(b, uint64(c.id))
		b = binary.AppendUvarint(b, uint64(c.value))
		b = binary.AppendVarint(b, c.cost)
		b = binary.AppendUvarint(b, t.limits.number(c.limit, c.limit))
		text := ""
		if c.err != nil {
			text = "error: " + c.err.Error()
		}
		b = binary.AppendUvarint(b, t.errs.number(text, c.err))
	})
	to.last = it.at
	to.data = binary.AppendUvarint(to.data, uint64(len(b)))
	to.data = append(to.data, b...)
	for len(to.data) >= blockSize {
		to.blocks = append(to.blocks, t.put(to.data[:blockSize]))
		to.data = append(to.data[:0], to.data[blockSize:]...)
	}
}

// rewind ends the writing of a tape and reads its first request into it.
func (t *tapes) rewind(from *tape, it *item) {
	if len(from.data) > 0 {
		from.blocks = append(from.blocks, t.put(from.data))
	}
	from.data, from.last, from.head = nil, 0, it
	t.advance(from)
}

// advance reads the next request of a tape into its head, or sets head to nil at the end.
func (t *tapes) advance(from *tape) {
	length, n := binary.Uvarint(from.data)
	for n <= 0 || len(from.data)-n < int(length) {
		if len(from.blocks) == 0 || t.err != nil {
			from.head = nil
			return
		}
		from.data = t.get(from.data, from.blocks[0])
		from.blocks = from.blocks[1:]
		length, n = binary.Uvarint(from.data)
	}
	b := from.data[n : n+int(length)]
	from.data = from.data[n+int(length):]

	signed := func() int64 {
		v, n := binary.Varint(b)
		b = b[n:]
		return v
	}
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	it := from.head
	from.last += signed()
	*it = item{at: from.last, lasted: signed(), bytes: signed(), client: uint32(number()),
		status: uint16(number()),
		more:   it.more[:0]}
	for len(b) > 0 {
		c := charge{
			rule: uint16(number()), id: uint32(number()), value: uint32(number()), cost: signed(),
		}
		c.key, c.text = t.keys.text(c.id), t.keys.text(c.value)
		c.limit, c.err = t.limits.value(number()), t.errs.value(number())
		it.add(c)
	}
}

// put stores a copy of data.
func (t *tapes) put(data []byte) block {
	b := block{size: len(data)}
	if t.file == nil && !t.noFile {
		file, err := os.CreateTemp("", "weir-simulate-")
		if err == nil {
			os.Remove(file.Name()) // if the system refuses, close removes it
		}
		t.file, t.noFile = file, err != nil
	}
	if n := len(t.unused); n > 0 {
		b.at, t.unused = t.unused[n-1], t.unused[:n-1]
	} else {
		b.at = t.size
		t.size += blockSize
	}
	if !t.noFile {
		_, err := t.file.WriteAt(data, b.at)
		t.noFile = err != nil // the disk is full
	}
	if t.noFile {
		b.kept = append([]byte(nil), data...)
	}
	return b
}

// get appends the data of a block to a copy of rest, and frees the block.
func (t *tapes) get(rest []byte, b block) []byte {
	data := make([]byte, len(rest)+b.size)
	if n := copy(data, rest); b.kept != nil {
		copy(data[n:], b.kept)
	} else if _, err := t.file.ReadAt(data[n:], b.at); err != nil {
		t.err = err
	}
	t.unused = append(t.unused, b.at)
	return data
}

// failure returns the error of the file.
func (t *tapes) failure() error {
	if t.err == nil {
		return nil
	}
	return fmt.Errorf("the temporary file of requests that wait cannot be read: %w", t.err)
}

// close removes the file.
func (t *tapes) close() {
	if t.file != nil {
		t.file.Close()
		os.Remove(t.file.Name())
	}
}

// numbered stores values that tapes refer to by number. The zero value has number 0.
type numbered[K comparable, V any] struct {
	numbers map[K]uint64
	values  []V
}

func (n *numbered[K, V]) number(k K, v V) uint64 {
	var zero K
	if k == zero {
		return 0
	}
	number, ok := n.numbers[k]
	if !ok {
		if n.numbers == nil {
			n.numbers = make(map[K]uint64)
		}
		n.values = append(n.values, v)
		number = uint64(len(n.values))
		n.numbers[k] = number
	}
	return number
}

func (n *numbered[K, V]) value(number uint64) (zero V) {
	if number == 0 {
		return zero
	}
	return n.values[number-1]
}
