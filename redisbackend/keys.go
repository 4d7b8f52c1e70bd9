package redisbackend

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxKeyLength is how long a key may be that is part of a name in Redis as it
// is. Longer ones are digested: what a client sends must not cost more.
const maxKeyLength = 128

// appendName appends the name under which Redis keeps the state of key under
// scope. The length of scope comes first, so that no two pairs share a name.
//
// Braces of scope or key are no hash tag: an empty one in front of them has all of
// the name hashed. Otherwise a client could choose the slot of its states, and aim
// all its load at one server; and so would all keys of "GET /items/{id}".
func (b *Backend) appendName(to []byte, scope, key string) []byte {
	to = append(to, b.prefix...)
	if strings.IndexByte(scope, '{') >= 0 || strings.IndexByte(key, '{') >= 0 {
		to = append(to, "{}:"...)
	}
	to = strconv.AppendInt(to, int64(len(scope)), 10)
	to = append(to, ':')
	to = append(to, scope...)
	if len(key) > maxKeyLength {
		digest := sha256.Sum256([]byte(key))
		to = append(to, '#')
		return hex.AppendEncode(to, digest[:])
	}
	to = append(to, ':')
	return append(to, key...)
}

func (b *Backend) name(scope, key string) string {
	var room [256]byte
	return string(b.appendName(room[:0], scope, key))
}
