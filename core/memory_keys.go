package core

import "context"

// Reset implements [Resetter]. While more keys are live than MaxKeys, a key that
// was reset may start from the summary of displaced keys instead of fresh.
func (m *Memory) Reset(_ context.Context, scope, key string) error {
	hash := m.classes.hash(m.classes.mix(scope), key)
	sh := m.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.findLocked(hash); e != nil {
		sh.clearLocked(e)
	}
	return nil
}

// Count implements [Counter]. It looks at every place, one shard at a time.
func (m *Memory) Count(context.Context) (int, error) {
	now := m.clock.now()
	live := 0
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		for b := range sh.buckets {
			for p := range sh.buckets[b] {
				if !sh.spentLocked(&sh.buckets[b][p], now) {
					live++
				}
			}
		}
		sh.mu.Unlock()
	}
	return live, nil
}

// retireClasses looks at every state for classes that none is of, and frees
// their ids. It does so at most once a second, and only when all ids have been
// given out, since it stops all decisions for as long as it looks: some ten
// milliseconds for a million keys.
func (m *Memory) retireClasses() error {
	m.sweep.Lock()
	defer m.sweep.Unlock()
	now := m.clock.now()
	const pause = 1_000_000
	if now < m.sweep.notBefore && now >= m.sweep.notBefore-pause {
		return nil
	}
	m.sweep.notBefore = now + pause
	inUse := make([]bool, maxClasses+1)
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		for b := range sh.buckets {
			for p := range sh.buckets[b] {
				if e := &sh.buckets[b][p]; e.empty() {
					continue
				} else if sh.spentLocked(e, now) {
					sh.clearSpentLocked(e, now)
				} else {
					inUse[e.class] = true
				}
			}
		}
		for _, f := range sh.floors {
			inUse[f.class.id] = true
		}
	}
	m.classes.retire(inUse)
	return nil
}

// Supports implements [Supporter]: a Memory decides every legal limit.
func (m *Memory) Supports(limit Limit) bool { return limit.Validate() == nil }
