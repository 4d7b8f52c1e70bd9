package wire

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"
)

// IDs issues the ids of held units. The client chooses them, so it can release the units of a
// request without knowing the result.
type IDs struct {
	nonce [6]byte      // first bytes of all ids
	last  atomic.Int64 // latest id
}

// IDLength is the length of an id in Redis, in bytes.
const IDLength = 12

// UnitsWeight is how many units of a concurrency limit weigh as much as a key: the script writes
// each of them.
const UnitsWeight = 8

func (ids *IDs) begin() {
	_, _ = rand.Read(ids.nonce[:]) // never fails
}

// setHoldTime sets the first byte of each id, which encodes HoldTime on a logarithmic scale: see
// concurrent.lua.
func (ids *IDs) setHoldTime(holdTime time.Duration) {
	ids.nonce[0] = byte(math.Ceil(4 * math.Log2(holdTime.Seconds())))
}

// Issue returns the first of n new consecutive ids.
func (ids *IDs) Issue(n int64) int64 { return ids.last.Add(n) - n + 1 }

// Loan says that units are lent, for how long, and to whom: see [backends.Charge].Lends. Units of
// the zero Loan are held by this process.
type Loan struct {
	Lends  time.Duration
	Holder uint64 // 0: none
}

// First bytes of the ids of lent units: see concurrent.lua.
const (
	lentByte  = 66
	namedByte = 67
)

// AppendID appends an id as Redis stores it. For units with a holder it appends the id of the
// holder's first unit, whatever id is.
func (ids *IDs) AppendID(to []byte, of Loan, id int64) []byte {
	if of.Holder != 0 {
		to = append(to, namedByte)
		to = append(to, binary.BigEndian.AppendUint64(nil, of.Holder)[:7]...)
		return append(to, 0, 0, 0, 0)
	}
	at := len(to)
	to = append(to, ids.nonce[:]...)
	if of.Lends > 0 {
		to[at] = lentByte
	}
	return append(to, binary.BigEndian.AppendUint64(nil, uint64(id))[2:]...)
}
