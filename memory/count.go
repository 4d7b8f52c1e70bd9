package memory

import (
	"context"
	"slices"

	"github.com/weir-go/weir/limits"
)

// Reset implements [limits.Resetter]. Units of concurrency limits stay held. While more keys are
// live than MaxKeys, a key that was reset may start from the summary of displaced keys
// instead of fresh.
func (m *Memory) Reset(_ context.Context, scope, key string) error {
	hash := m.limits.hash(m.limits.hashScope(scope), key)
	sh := m.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.findLocked(hash); e != nil {
		sh.clearLocked(e)
	}
	return nil
}

// Count implements [limits.Counter]. It looks at every slot, one shard at a time.
func (m *Memory) Count(context.Context) (int, error) {
	now := m.clock.now()
	live := 0
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		live += sh.held.len()
		for b := range sh.buckets {
			for p := range sh.buckets[b] {
				if !sh.reusableLocked(&sh.buckets[b][p], now) {
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

// Displaced returns how many keys have lost their place to another, because more were live
// than MaxKeys. A number that rises shows a flood of new keys, or a MaxKeys that is too low:
// new keys are then denied early.
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

// retireLimits frees the ids of the limits that no state and no floor is under. It
// stops all decisions while it looks at every state: some ten milliseconds for a
// million keys. So it runs only when all ids are given out, and at most once a second.
func (m *Memory) retireLimits() error {
	m.sweep.Lock()
	defer m.sweep.Unlock()
	l := retireLook{seen: -1}
	for looks := 1; ; looks++ {
		l.now, l.steps = m.clock.read()
		l.last = looks == maxLooks
		const pause = 1_000_000
		if l.now < m.sweep.notBefore && l.now >= m.sweep.notBefore-pause {
			return nil
		}
		if m.retireLimitsBy(&l) {
			m.sweep.notBefore = l.now + pause
			return nil
		}
	}
}

// retireLook is one look at the clock, by which retireLimits decides which states are
// live.
type retireLook struct {
	steps int64 // of the clock, counted before it was read
	now   int64
	last  bool  // go on, whatever has happened since
	seen  int64 // the latest instant, too far ahead, of a state that earlier looks found
}

// retireLimitsBy is retireLimits by one look at the clock. It returns false, and has
// retired nothing, if another look is needed. There are two reasons. Other callers may
// have acted after a later step of the clock: live states then seem fresh, so the last
// look takes them for live. Or states are too far ahead, and this caller may be late:
// a second look that finds the same rebases them, because otherwise their limits would
// stay in use for as long as the step.
func (m *Memory) retireLimitsBy(l *retireLook) bool {
	past, seen := make([]bool, len(m.shards)), l.seen
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if past[i] = sh.isPastLocked(l.steps); past[i] && !l.last {
			return false
		}
	}
	inUse := make([]bool, maxLimits+1)
	for i := range m.shards {
		sh := &m.shards[i]
		for b := range sh.buckets {
			for p := range sh.buckets[b] {
				e := &sh.buckets[b][p]
				if e.empty() {
					continue
				}
				if !past[i] && e.at-l.now > m.limits.get(e.limitID).maxStepBack {
					l.seen = max(l.seen, e.at)
					if e.at <= seen {
						sh.rebaseLocked(e, l.now, false)
					}
				}
				if !past[i] && sh.reusableLocked(e, l.now) {
					sh.clearReusableLocked(e, l.now)
				} else {
					inUse[e.limitID] = true
				}
			}
		}
		sh.floors = slices.DeleteFunc(sh.floors, func(f floor) bool {
			if !past[i] && f.limit.freshAt(&f.state) <= l.now {
				sh.noteClearLocked(l.now)
				return true
			}
			inUse[f.limit.id] = true
			return false
		})
	}
	if l.seen > seen && !l.last {
		return false
	}
	m.limits.retire(inUse)
	return true
}

// Supports implements [limits.Supporter]: a Memory decides every legal limit.
func (m *Memory) Supports(limit limits.Limit) bool { return limit.Validate() == nil }
