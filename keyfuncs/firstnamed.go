package keyfuncs

// FirstNamed is [First] with names in the place of numbers: a key is preceded by
// its name, as in "user:alice" and "address:203.0.113.7", where people look at the
// keys of a backend. To change the order of keys loses no counts; to change a name
// is to start counting anew.
//
//	keyfuncs.FirstNamed(
//		keyfuncs.Named("user", user),
//		keyfuncs.Named("address", keyfuncs.Address(keyfuncs.Peer)),
//	)
//
// Without arguments, or with one that [Named] could not make, or with a name twice,
// the result is nil.
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

// NamedKey is a key function with a name, for [FirstNamed]. [Named] makes it.
type NamedKey[R any] struct {
	name string
	key  func(R) (string, error)
}

const maxKeyName = 64

// Named returns key with a name for [FirstNamed]: 1 to 64 letters, digits, or any
// of "!#$%&'*+-.^_`|~" (a token of RFC 9110, which has no colon). If the name is
// another, or key is nil, FirstNamed returns nil.
func Named[R any](name string, key func(R) (string, error)) NamedKey[R] {
	if !isToken(name) || len(name) > maxKeyName {
		return NamedKey[R]{}
	}
	return NamedKey[R]{name, key}
}
