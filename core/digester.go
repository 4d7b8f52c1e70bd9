package core

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"strconv"

	"github.com/weir-go/weir/limits/backends"
)

// digester digests the values of a rule to 64 bits. Digests of a backend in this process depend on
// a secret seed, so a client cannot choose values that collide. All processes that share another
// backend must find the same digest: it depends on the salt of the backend, see [backends.Salter].
type digester struct {
	isShared bool
	salt     string
}

var valueSeed = maphash.MakeSeed()

func newDigester(b backends.Backend) digester {
	if backends.IsInProcess(b) {
		return digester{}
	}
	return digester{isShared: true, salt: backends.Salt(b)}
}

// digest returns the digest of a value of a key. It is not 0. Shared digests depend on scope and
// key, so they do not show which keys have had the same value.
func (d *digester) digest(scope, key, value string) uint64 {
	if !d.isShared {
		return max(1, maphash.String(valueSeed, value))
	}
	var room [256]byte
	text := room[:0]
	for _, part := range [...]string{d.salt, scope, key, value} {
		text = append(strconv.AppendInt(text, int64(len(part)), 10), ':')
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}
