package memory

import "github.com/weir-go/weir/internal/ground/family"

// Units of concurrency limits are in a table of their own in the key's shard: a key in flight must
// not be displaced, and has no instant at which it is fresh.

// storeHeldLocked makes units the number that is held under a hash.
func (sh *shard) storeHeldLocked(hash uint64, units int64) {
	if sh.held == nil {
		sh.held = &heldTable{slots: make([]heldSlot, leastHeldSlots)}
	}
	sh.held.set(hash, units)
}

// hold counts n more units of a concurrency limit as held, whether they fit or not. It
// releases −n units if n is negative.
func (m *Memory) hold(scope, key string, n int64) {
	hash := m.limits.hash(m.limits.hashScope(scope), key)
	sh := m.shardOf(hash)
	sh.mu.Lock()
	sh.storeHeldLocked(hash, family.Held(sh.held.of(hash), n))
	sh.mu.Unlock()
}
