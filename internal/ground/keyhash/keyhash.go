// Package keyhash hashes keys for the tables of a process.
package keyhash

import "hash/maphash"

// Hasher hashes keys in scopes. Its seeds are secret, so a client cannot choose keys that collide.
type Hasher struct{ scope, key maphash.Seed }

// New returns a Hasher with seeds of its own.
func New() Hasher { return Hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

// Scope returns the hash of a scope.
func (h *Hasher) Scope(scope string) uint64 { return maphash.String(h.scope, scope) }

// Key returns the hash of a key in the scope with a hash. It is never below 2: tables mark slots
// that have no key by 0 and 1.
func (h *Hasher) Key(scope uint64, key string) uint64 {
	sum := maphash.String(h.key, key) ^ scope
	if sum < 2 {
		return sum + 2
	}
	return sum
}

// Of returns the hash of a key in a scope.
func (h *Hasher) Of(scope, key string) uint64 { return h.Key(h.Scope(scope), key) }
