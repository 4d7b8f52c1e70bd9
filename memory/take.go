package memory

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// takeOne is takeAll for a single charge of n ≥ 0 units on a key under limit. It
// returns false, and has decided nothing, if limit is retired or the clock seems to
// have stepped back.
func (m *Memory) takeOne(limit *scopedLimit, key string, n int64, d *limits.Decision) bool {
	hash := m.limits.hash(limit.scopeHash, key)
	now, steps := m.clock.read()
	sh, e := m.shardOf(hash), m.firstSlot(hash)
	sh.mu.Lock()
	if limit.retired.Load() || sh.isPastLocked(steps) {
		sh.mu.Unlock()
		return false
	}
	if e.hash != hash {
		e = sh.findLocked(hash)
	}
	if e != nil && e.limitID == limit.id && n <= limit.max && e.at-now <= limit.maxAhead {
		switch limit.family {
		case familyBucket:
			if sh.rings == nil {
				sh.takeFromBucketLocked(&limit.compiledLimit, &e.state, n, now, d)
				return true
			}
		case familyWindow:
			sh.takeFromWindowLocked(&limit.compiledLimit, &e.state, n, now, d)
			return true
		case familyAnchoredWindow:
			sh.takeFromAnchoredWindowLocked(&limit.compiledLimit, &e.state, n, now, d)
			return true
		case familyLog, familyBan: // no pass of its own: takeLocked decides
		case familyConcurrent:
		}
	}
	if limit.family == familyConcurrent || sh.aheadLocked(e, limit, now) != 0 {
		sh.mu.Unlock()
		return false
	}
	sh.takeLocked(e, hash, limit, n, now, d)
	sh.mu.Unlock()
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
