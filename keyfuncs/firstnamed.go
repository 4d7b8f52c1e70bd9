package keyfuncs

import "github.com/weir-go/weir/internal/ground/token"

// FirstNamed is [First] with names instead of positions: each result begins with the
// name of its key function, as in "user:alice" and "address:203.0.113.7". That helps
// people who read the keys of a backend. Changing the order of keys keeps the counts;
// changing a name resets them.
//
//	keyfuncs.FirstNamed(
//		keyfuncs.Named("user", user),
//		keyfuncs.Named("address", keyfuncs.Address(keyfuncs.Peer)),
//	)
//
// The result is nil without arguments, if a name occurs twice, or if an argument is the
// zero NamedKey, which [Named] returns for a wrong name.
func FirstNamed[R any](keys ...NamedKey[R]) func(R) (string, error) {
	choices := make([]choice[R], len(keys))
	seen := make(map[string]bool, len(keys))
	for i, key := range keys {
		if key.key == nil || seen[key.name] {
			return nil
		}
		seen[key.name] = true
		choices[i] = choice[R]{key.name + ":", key.key}
	}
	if len(choices) == 0 {
		return nil
	}
	return firstOf(choices)
}

// NamedKey is a key function with a name, for [FirstNamed]. Use [Named] to make one.
type NamedKey[R any] struct {
	name string
	key  func(R) (string, error)
}

const maxKeyName = 64

// Named returns key with a name for [FirstNamed]. A name has 1 to 64 letters, digits,
// or any of "!#$%&'*+-.^_`|~": it is a token (RFC 9110, section 5.6.2), which has no
// colon. If the name is anything else or key is nil, FirstNamed returns nil.
func Named[R any](name string, key func(R) (string, error)) NamedKey[R] {
	if !token.Is(name) || len(name) > maxKeyName {
		return NamedKey[R]{}
	}
	return NamedKey[R]{name, key}
}
