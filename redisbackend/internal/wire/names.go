package wire

import (
	"crypto/sha256"
	"encoding/base64"
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

// marks stand between scope and key, one for each kind of counting: limits that do not count alike
// have a state each under one scope and key.
var marks = [algorithm.Kinds]byte{
	algorithm.Rates:  '=',
	algorithm.Bans:   '!',
	algorithm.Values: '~',
	algorithm.Held:   '+',
}

// digestMark stands before the mark if a digest follows instead of the key.
const digestMark = '#'

const allMarks = "=!~+#"

// isEscaped says which characters of a scope are written otherwise. A colon becomes a semicolon, and
// the others become their number, as in a URL.
var isEscaped = func() (is [256]bool) {
	for _, c := range []byte(":;%" + allMarks) {
		is[c] = true
	}
	return is
}()

// ValidatePrefix returns an error if prefix is illegal. Two legal prefixes never share a name.
// Suppose that one prefix and a colon begin the other prefix. A name of the shorter one goes on
// with a brace, or has a mark before its next colon, and the longer prefix does not.
func ValidatePrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("redisbackend: prefix: must have no braces (got %q): use HashTag", prefix)
	}
	if _, rest, _ := strings.Cut(prefix, ":"); strings.ContainsAny(rest, allMarks) {
		return fmt.Errorf("redisbackend: prefix: must have none of %q after a colon (got %q), "+
			"or prefixes share keys: write \"-\" for them", allMarks, prefix)
	}
	return nil
}

// appendName appends the name of the state of a scope and key in Redis:
//
//	weir:per-client=198.51.100.7           a rate
//	weir:login!u1                          a ban; see marks
//	weir:jobs+u1                           units of a concurrency limit
//	weir:rls;hour=u1                       a scope with a colon
//	weir:{}:GET /items/{id}=u1             a brace in the scope or key
//	weir:{0a1b2c3d4e5f6071}:per-user=u1    a scope of Options.Together: a digest of the key
//	weir:per-user#=47DEQpj8HBSa-_TImW5...  a long key: its digest
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
	to = appendScope(to, scope)
	if len(key) > maxKeyLength {
		digest := sha256.Sum256([]byte(key))
		to = append(to, digestMark, marks[kind])
		return base64.RawURLEncoding.AppendEncode(to, digest[:])
	}
	return append(append(to, marks[kind]), key...)
}

// appendScope appends a scope as names have it. It has no colon and no mark then.
func appendScope(to []byte, scope string) []byte {
	for i := range len(scope) {
		switch c := scope[i]; {
		case !isEscaped[c]:
			to = append(to, c)
		case c == ':':
			to = append(to, ';')
		default:
			to = fmt.Appendf(to, "%%%02X", c)
		}
	}
	return to
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
