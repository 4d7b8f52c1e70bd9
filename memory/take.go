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
	if limit.retired.Load() || limit.held {
		sh.mu.Unlock()
		return false
	}
	now = sh.nowLocked(now)
	if e.hash != hash {
		e = sh.findLocked(hash)
	}
	if e == nil || e.limitID != limit.id || n > limit.max || !sh.takeNowLocked(&limit.compiledLimit, &e.state, n, now, d) {
		sh.takeLocked(e, hash, limit, n, now, d)
		sh.mu.Unlock()
	}
	d.At = m.clock.at(now)
	return true
}

// takeNowLocked decides a charge of n units, at most the maximum, on the stored state s of a key,
// in one pass, and unlocks sh, if the family has such a pass; otherwise it returns false. It names
// the types, so that d may be on the stack of the caller, and numbers in registers: that takes half
// the time of takeLocked. Families without fields have it as a method of the value, which takes no
// register.
func (sh *shard) takeNowLocked(l *compiledLimit, s *state, n, now int64, d *limits.Decision) bool {
	switch f := l.family.(type) {
	case *bucket:
		return f.takeNowLocked(sh, l, s, n, now, d)
	case *window:
		return f.takeNowLocked(sh, l, s, n, now, d)
	case *anchoredWindow:
		return f.takeNowLocked(sh, l, s, n, now, d)
	case *calendarWindow:
		return f.takeNowLocked(sh, l, s, n, now, d)
	}
	return false
}

// takeLocked decides a charge of n units on hash under limit, and takes them if they
// fit. e is the entry of hash, nil if it has none.
func (sh *shard) takeLocked(e *entry, hash uint64, limit *scopedLimit, n, now int64, d *limits.Decision) {
	s, told := &sh.scratch.view, &sh.scratch.told
	sh.loadLocked(s, e, limit, now, true)
	allowed := limit.fits(s, n)
	took := allowed && n > 0
	delay := time.Duration(0)
	if took {
		delay = limit.queued(s)
		limit.take(s, n)
		sh.numberTakingLocked(limit, &s.state) // the ticket has it
	}
	limit.describe(told, s, n, allowed, sh)
	*d = *told
	d.Delay = delay
	if took {
		if sh.rings != nil && limit.drains {
			sh.noteTakingLocked(e, hash, limit, 0, now)
		}
		sh.storeLocked(e, hash, limit, s, now)
	}
}
