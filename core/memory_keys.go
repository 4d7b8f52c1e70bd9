package core

import (
	"context"
	"slices"
)

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
	l := classLook{seen: -1}
	for looks := 1; ; looks++ {
		l.now, l.steps = m.clock.read()
		l.last = looks == maxLooks
		const pause = 1_000_000
		if l.now < m.sweep.notBefore && l.now >= m.sweep.notBefore-pause {
			return nil
		}
		if m.retireClassesBy(&l) {
			m.sweep.notBefore = l.now + pause
			return nil
		}
	}
}

// classLook is a look at the clock, on which retireClasses decides what is live.
type classLook struct {
	steps int64 // of the clock, before it was read
	now   int64
	last  bool  // whatever has happened since, go on
	seen  int64 // the latest instant, too far ahead, that looks before found a state at
}

// retireClassesBy is retireClasses by one look at the clock. It returns false, having
// retired nothing, if another look is needed: where somebody has acted after another step of
// the clock, what is live may seem fresh, and is live if this is the last look. Where
// states are too far ahead, this caller may be late; a second look that finds the same
// rebases them, since otherwise their limits would be in use for all of the step.
func (m *Memory) retireClassesBy(l *classLook) bool {
	past, seen := make([]bool, len(m.shards)), l.seen
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if past[i] = sh.isPastLocked(l.steps); past[i] && !l.last {
			return false
		}
	}
	inUse := make([]bool, maxClasses+1)
	for i := range m.shards {
		sh := &m.shards[i]
		for b := range sh.buckets {
			for p := range sh.buckets[b] {
				e := &sh.buckets[b][p]
				if e.empty() {
					continue
				}
				if !past[i] && e.at-l.now > m.classes.get(e.class).hold {
					l.seen = max(l.seen, e.at)
					if e.at <= seen {
						sh.rebaseLocked(e, l.now, false)
					}
				}
				if !past[i] && sh.spentLocked(e, l.now) {
					sh.clearSpentLocked(e, l.now)
				} else {
					inUse[e.class] = true
				}
			}
		}
		sh.floors = slices.DeleteFunc(sh.floors, func(f floor) bool {
			if !past[i] && f.class.freshAt(&f.state) <= l.now {
				sh.noteClearLocked(l.now)
				return true
			}
			inUse[f.class.id] = true
			return false
		})
	}
	if l.seen > seen && !l.last {
		return false
	}
	m.classes.retire(inUse)
	return true
}

// Supports implements [Supporter]: a Memory decides every legal limit.
func (m *Memory) Supports(limit Limit) bool { return limit.Validate() == nil }
