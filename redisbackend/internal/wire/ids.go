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

// AppendID appends an id as Redis stores it.
func (ids *IDs) AppendID(to []byte, id int64) []byte {
	to = append(to, ids.nonce[:]...)
	return append(to, binary.BigEndian.AppendUint64(nil, uint64(id))[2:]...)
}
