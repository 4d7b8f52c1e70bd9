package memory

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// takeOne is takeAll for a single charge of n ≥ 0 units on a key under limit. It
// returns false, and has decided nothing, if limit is retired or counts what runs at once.
func (m *Memory) takeOne(limit *scopedLimit, key string, n int64, d *limits.Decision) bool {
	hash := m.limits.hash(limit.scopeHash, key)
	now := m.clock.now()
	sh, e := m.shardOf(hash), m.firstSlot(hash)
	sh.mu.Lock()
	if limit.retired.Load() || limit.family == familyConcurrent {
		sh.mu.Unlock()
		return false
	}
	now = sh.nowLocked(now)
	if e.hash != hash {
		e = sh.findLocked(hash)
	}
	fast := e != nil && e.limitID == limit.id && n <= limit.max
	switch {
	case fast && limit.family == familyBucket && sh.rings == nil:
		sh.takeFromBucketLocked(&limit.compiledLimit, &e.state, n, now, d)
	case fast && limit.family == familyWindow:
		sh.takeFromWindowLocked(&limit.compiledLimit, &e.state, n, now, d)
	case fast && limit.family == familyAnchoredWindow:
		sh.takeFromAnchoredWindowLocked(&limit.compiledLimit, &e.state, n, now, d)
	default:
		sh.takeLocked(e, hash, limit, n, now, d)
		sh.mu.Unlock()
	}
	d.At = m.clock.at(now)
	return true
}

// takeLocked decides a charge of n units on hash under limit, and takes them if they
// fit. e is the entry of hash, nil if it has none.
func (sh *shard) takeLocked(e *entry, hash uint64, limit *scopedLimit, n, now int64, d *limits.Decision) {
	var s view
	sh.loadLocked(&s, e, limit, now)
	allowed := limit.fits(&s, n)
	took := allowed && n > 0
	var delay time.Duration
	if took {
		delay = limit.queued(&s, now)
		limit.take(&s, n)
		if limit.algorithm == limits.AlgorithmLeakyQueue {
			s.serial = 0
		}
		sh.numberLocked(&s.state) // the ticket has it
	}
	limit.describe(d, &s, n, allowed, now, &sh.nodes)
	d.Delay = delay
	if took {
		if sh.rings != nil && limit.family == familyBucket {
			sh.noteTakingLocked(e, hash, limit, 0, now)
		}
		sh.storeLocked(e, hash, limit, &s, now)
	}
}
