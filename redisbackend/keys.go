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

// fitsName reports whether key may be part of a name as it is. One with braces
// could choose a slot of a Cluster for itself, and many such aim at one server.
func fitsName(key string) bool {
	return len(key) <= maxKeyLength && !strings.ContainsAny(key, "{}")
}

// appendName appends the name under which Redis keeps the state of key under
// scope. The length of scope comes first, so that no two pairs share a name.
func (b *Backend) appendName(to []byte, scope, key string) []byte {
	to = append(to, b.prefix...)
	to = strconv.AppendInt(to, int64(len(scope)), 10)
	to = append(to, ':')
	to = append(to, scope...)
	if !fitsName(key) {
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
