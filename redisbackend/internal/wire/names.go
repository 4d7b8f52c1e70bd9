package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-go/weir/internal/ground/algorithm"
)

// Names are the names of states in Redis.
type Names struct {
	prefix string          // ends in a colon
	tagged map[string]bool // scopes whose states of one key share a slot; nil: none
}

func newNames(prefix, hashTag string, together []string) (n Names) {
	if prefix == "" {
		prefix = "weir"
	}
	n.prefix = prefix + ":"
	if hashTag != "" {
		n.prefix += "{" + hashTag + "}:"
	}
	for _, scope := range together {
		if n.tagged == nil {
			n.tagged = make(map[string]bool)
		}
		n.tagged[scope] = true
	}
	return n
}

// maxKeyLength is the longest key that is part of a name in Redis. A longer key is replaced by its
// digest, so that clients cannot fill the memory of Redis with keys.
const maxKeyLength = 128

// A name has a mark of the kind of counting: limits that do not count alike have a state each under
// one scope and key.
var marks = [algorithm.Kinds]string{
	algorithm.Rates:  "",
	algorithm.Bans:   "b",
	algorithm.Values: "d",
	algorithm.Held:   "h",
}

// ValidatePrefix returns an error if prefix is illegal. Two legal prefixes never share a name.
// Suppose that one prefix and a colon begin the other prefix. A name of the shorter one goes on
// with a brace or a length, perhaps behind a mark, and the longer prefix does not.
func ValidatePrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("redisbackend: prefix: must have no braces (got %q): use HashTag", prefix)
	}
	for _, part := range strings.Split(prefix, ":")[1:] {
		number := part
		if len(part) > 1 && strings.Contains(strings.Join(marks[:], ""), part[:1]) {
			number = part[1:]
		}
		if number != "" && strings.Trim(number, "0123456789") == "" {
			return fmt.Errorf("redisbackend: prefix: must have no %q after a colon (got %q), "+
				"or prefixes share keys: write \"-\" for \":\"", part, prefix)
		}
	}
	return nil
}

// appendName appends the name of the state of a scope and key in Redis:
//
//	weir:10:per-client:198.51.100.7        the length of the scope keeps pairs apart
//	weir:{}:15:GET /items/{id}:u1          a brace in the scope or key
//	weir:{0a1b2c3d4e5f6071}:8:per-user:u1  a scope of Options.Together: a digest of the key
//	weir:b5:login:u1                       a ban; see marks
//	weir:h4:jobs:u1                        units of a concurrency limit
//
// Redis hashes the text in the first braces of a name, or all of it if they are empty. So a client
// cannot write the slot of its states into its key, as "{x}", and the keys of a scope such as
// "GET /items/{id}" do not share one slot.
func (n *Names) appendName(to []byte, kind algorithm.Kind, scope, key string) []byte {
	to = append(to, n.prefix...)
	if n.tagged != nil && n.tagged[scope] {
		to = appendTag(to, key)
	} else if strings.IndexByte(scope, '{') >= 0 || strings.IndexByte(key, '{') >= 0 {
		to = append(to, "{}:"...)
	}
	to = append(to, marks[kind]...)
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

// Name returns the name of a state.
func (n *Names) Name(kind algorithm.Kind, scope, key string) string {
	var room [256]byte
	return string(n.appendName(room[:0], kind, scope, key))
}

// HeldName returns the name of the units that concurrency limits hold.
func (n *Names) HeldName(scope, key string) string { return n.Name(algorithm.Held, scope, key) }

// AllNames returns the names of the states of all kinds, apart from the units that are held.
func (n *Names) AllNames(scope, key string) (all []string) {
	for kind := range marks {
		if kind := algorithm.Kind(kind); kind != algorithm.Held {
			all = append(all, n.Name(kind, scope, key))
		}
	}
	return all
}

// NameOf returns the name of what belongs to no scope, such as "check".
func (n *Names) NameOf(word string) string { return n.prefix + word }

// Digest returns the number of a value of a key. It depends on the prefix: all processes of an
// application find the same. A client that knows the prefix, such as the default, can look for
// values that share a number: the guide says what that gains, and how to prevent it. It depends on
// scope and key, so it does not show which keys have had the same value.
func (n *Names) Digest(scope, key, value string) uint64 {
	var room [256]byte
	text := room[:0]
	for _, part := range [...]string{n.prefix, scope, key, value} {
		text = append(strconv.AppendInt(text, int64(len(part)), 10), ':')
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}
