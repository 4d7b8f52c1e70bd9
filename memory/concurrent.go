package memory

import (
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/family"
)

// A shard keeps the units of concurrency limits in a table of their own: a key in flight must not
// be displaced, and no instant is known at which it becomes fresh.

// storeHeldLocked sets the number of units that are held under a hash.
func (sh *shard) storeHeldLocked(hash uint64, units int64) {
	if sh.held == nil {
		sh.held = &heldTable{slots: make([]heldSlot, leastHeldSlots)}
	}
	sh.held.set(hash, units)
}

// hold adds n units to those that a key holds, whether they fit or not. A negative n releases
// units.
func (m *Memory) hold(scope, key string, n int64) {
	hash := m.limits.hash(m.limits.hashScope(scope, algorithm.Held), key)
	sh := m.shardOf(hash)
	sh.mu.Lock()
	sh.storeHeldLocked(hash, family.Held(sh.held.of(hash), n))
	sh.mu.Unlock()
}
