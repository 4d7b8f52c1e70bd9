package remote

import "hash/maphash"

// keyHasher hashes the keys of a cache with seeds that clients do not know.
type keyHasher struct{ scope, key maphash.Seed }

func newKeyHasher() keyHasher { return keyHasher{maphash.MakeSeed(), maphash.MakeSeed()} }

// hash returns a hash that is not 0.
func (h *keyHasher) hash(scope, key string) uint64 {
	return max(1, maphash.String(h.scope, scope)^maphash.String(h.key, key))
}
