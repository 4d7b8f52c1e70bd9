package memory

import (
	"context"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

// Reset implements [backends.Resetter]. It resets the states of all kinds of limits, one after the
// other. Units of concurrency limits stay held. If the store has
// displaced keys, a key that was reset may start from the summary of displaced keys instead of
// fresh.
func (m *Memory) Reset(_ context.Context, scope, key string) error {
	for kind := range algorithm.Kind(algorithm.Kinds) {
		m.reset(m.limits.keys.Key(m.limits.hashScope(scope, kind), key))
	}
	return nil
}

// reset empties the slot of a hash.
func (m *Memory) reset(hash uint64) {
	sh := m.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.table.find(hash); e != nil {
		sh.states.clear(e)
	}
}

// Count implements [backends.Counter]. It reads every slot, one shard at a time.
func (m *Memory) Count(context.Context) (int, error) {
	now := m.clock.now()
	live := 0
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		live += sh.held.len()
		for b := range sh.table.buckets {
			for p := range sh.table.buckets[b] {
				if !sh.states.reusable(&sh.table.buckets[b][p], now) {
					live++
				}
			}
		}
		sh.mu.Unlock()
	}
	return live, nil
}

// MaxKeys returns how many keys may have live state before one displaces another.
func (m *Memory) MaxKeys() int { return m.maxKeys }

// Displaced returns how many keys have lost their slot because more than MaxKeys were live. A
// rising number means a flood of new keys, or a MaxKeys that is too low. New keys are then denied
// early.
func (m *Memory) Displaced() int64 {
	var n int64
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		n += sh.displaced
		sh.mu.Unlock()
	}
	return n
}

// retireLimits frees the ids of limits that no state names. It stops all decisions while it looks
// at every state: some ten milliseconds for a million keys. So it runs only when all ids are given
// out, and at most once a second.
func (m *Memory) retireLimits() error {
	m.sweep.Lock()
	defer m.sweep.Unlock()
	now := m.clock.now()
	if now < m.sweep.notBefore {
		return nil
	}
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		now = max(now, sh.latest)
	}
	m.sweep.notBefore = now + 1_000_000
	inUse := make([]bool, maxLimits+1)
	for i := range m.shards {
		sh := &m.shards[i]
		sh.latest = now
		for b := range sh.table.buckets {
			for p := range sh.table.buckets[b] {
				switch e := &sh.table.buckets[b][p]; {
				case sh.states.reusable(e, now):
					sh.states.clear(e)
				default:
					inUse[e.limitID] = true
				}
			}
		}
	}
	for i := range m.shards {
		m.shards[i].floors.forget(inUse)
	}
	m.limits.retire(inUse)
	return nil
}

// Supports implements [backends.Supporter]: a Memory decides every legal limit.
func (m *Memory) Supports(limit limits.Limit) bool { return limit.Validate() == nil }
