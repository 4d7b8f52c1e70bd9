package memory

import "github.com/weir-go/weir/limits"

// takeOne is takeAll for one charge of n ≥ 0 units on a key under limit. It decides nothing and
// returns false if limit was retired, is a concurrency limit or counts values.
func (m *Memory) takeOne(limit *scopedLimit, key string, n int64, d *limits.Decision) bool {
	hash := m.limits.hash(limit.scopeHash, key)
	now := m.clock.now()
	sh, e := m.shardOf(hash), m.firstSlot(hash)
	sh.mu.Lock()
	if limit.retired.Load() || limit.grouped {
		sh.mu.Unlock()
		return false
	}
	now = sh.nowLocked(now)
	if e.hash != hash {
		e = sh.findLocked(hash)
	}
	if e == nil || e.limitID != limit.id || limit.Lists || sh.rings != nil {
		sh.takeLocked(e, hash, limit, n, now, d)
		sh.mu.Unlock()
	} else { // most takings: the state is under limit, and nothing else depends on it
		s, t, fits := limit.family.Decide(e.used(), n, now, &sh.nodes)
		d.Ticket, d.Delay = 0, 0
		if fits && n > 0 {
			s.Serial = sh.serialLocked(limit, s)
			e.set(s)
			d.Ticket = ticketOf(now, s.Serial)
			if limit.Queues {
				d.Delay = limit.Queued(s, n)
			}
		}
		sh.mu.Unlock()
		limit.Describe(d, n, t, fits)
	}
	d.At = m.clock.at(now)
	return true
}

// takeLocked decides a charge of n units on hash under limit, and takes them if they fit. e is the
// entry of hash, or nil.
func (sh *shard) takeLocked(e *entry, hash uint64, limit *scopedLimit, n, now int64,
	d *limits.Decision) {
	found, displaced := sh.loadLocked(e, limit, now, true)
	s, t, fits := sh.decideLocked(limit, found, displaced, n, now)
	d.Ticket, d.Delay = 0, 0
	if fits && n > 0 {
		s.Serial = sh.serialLocked(limit, s)
		if sh.rings != nil && limit.Drains {
			sh.noteLevelLocked(e, hash, limit, 0, now)
		}
		sh.storeLocked(e, hash, limit, s, now)
		d.Ticket, d.Delay = ticketOf(now, s.Serial), limit.Queued(s, n)
	}
	limit.Describe(d, n, t, fits)
}
