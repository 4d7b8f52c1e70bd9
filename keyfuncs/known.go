package keyfuncs

import "github.com/weir-go/weir/core"

// Known returns key, restricted to the keys for which known reports true. For all other
// requests the result is core.ErrAbsent, so that they count together, or by the next
// key of [First]:
//
//	keyfuncs.First(
//		keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k-alice", "k-bob")),
//		keyfuncs.Address(keyfuncs.Peer),
//	)
//
// known gets the key that key returned, which for a secret is its [Digest]. It is
// called for every request that has a key. If either argument is nil, the result is
// nil.
//
// Another key costs a client another known one. Known does not replace authentication:
// the request is let through either way.
func Known[R any](
	key func(R) (string, error), known func(key string) bool,
) func(R) (string, error) {
	if key == nil || known == nil {
		return nil
	}
	return func(r R) (string, error) {
		k, err := key(r)
		if err != nil {
			return "", err
		}
		if !known(k) {
			return "", core.ErrAbsent
		}
		return k, nil
	}
}

// DigestSet returns a function for [Known] that reports whether a key is the [Digest] of
// one of secrets. It compares digests rather than secrets, so that its running time
// reveals nothing about a secret.
func DigestSet(secrets ...string) func(key string) bool {
	digests := make(map[string]struct{}, len(secrets))
	for _, secret := range secrets {
		digests[Digest(secret)] = struct{}{}
	}
	return func(key string) bool {
		_, ok := digests[key]
		return ok
	}
}
