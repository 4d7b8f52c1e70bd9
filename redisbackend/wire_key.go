package redisbackend

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// maxKeyLength is the length up to which a key is part of a name in Redis. A longer key is
// replaced by its digest, so that clients cannot fill the memory of Redis with keys.
const maxKeyLength = 128

// Marks of the kinds of values. They keep a sorted set apart from the string that a scope
// and key had before its limit became a concurrency limit.
const (
	markState = ""
	markHeld  = "h"
)

// validatePrefix returns what is wrong with the prefix of [Options]. Two legal prefixes never share a
// name. Suppose that one prefix and a colon begin the other prefix: every name of the shorter prefix
// continues with a brace or a length, perhaps behind a mark, and the longer prefix does not.
func validatePrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("redisbackend: prefix: must have no braces (got %q): a hash tag goes into HashTag", prefix)
	}
	for _, part := range strings.Split(prefix, ":")[1:] {
		if number := strings.TrimPrefix(part, markHeld); number != "" && strings.Trim(number, "0123456789") == "" {
			return fmt.Errorf("redisbackend: prefix: must have no %q after a colon (got %q), or prefixes share keys: write \"-\" for \":\"", part, prefix)
		}
	}
	return nil
}

// appendName appends the name of the state of a scope and key in Redis. The length of the
// scope comes first, so that no two pairs share a name.
//
// If the scope or key contains a brace, the empty hash tag "{}" precedes them. Redis then
// hashes the whole name. Without it, a client that sends "{x}" in its key could choose the
// slot of its states and send all its load to one server. Also, all keys of a scope such
// as "GET /items/{id}" would share one slot.
//
// In a scope of Options.Together the hash tag is a digest of the key.
//
// mark says what kind of value there is, see the constants.
func (b *Bare) appendName(to []byte, mark, scope, key string) []byte {
	to = append(to, b.prefix...)
	if b.tagged != nil && b.tagged[scope] {
		to = appendTag(to, key)
	} else if strings.IndexByte(scope, '{') >= 0 || strings.IndexByte(key, '{') >= 0 {
		to = append(to, "{}:"...)
	}
	to = append(to, mark...)
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

// appendTag appends the hash tag of a key.
func appendTag(to []byte, key string) []byte {
	var room [256]byte
	digest := sha256.Sum256(append(room[:0], key...))
	to = append(to, '{')
	to = hex.AppendEncode(to, digest[:8])
	return append(to, "}:"...)
}

func (b *Bare) name(scope, key string) string {
	var room [256]byte
	return string(b.appendName(room[:0], markState, scope, key))
}

// heldName is name for the units that are held by a concurrency limit.
func (b *Bare) heldName(scope, key string) string {
	var room [256]byte
	return string(b.appendName(room[:0], markHeld, scope, key))
}
