package memory

import (
	"context"
	"errors"

	"github.com/weir-go/weir/limits"
)

var errEndingLengths = errors.New("memory: endings and settlements differ in length")

// Settle implements [limits.Settler]. It never fails for endings of charges that the Memory has
// decided.
func (m *Memory) Settle(_ context.Context, endings []limits.Ending, out []limits.Settlement) error {
	if len(endings) != len(out) {
		return errEndingLengths
	}
	for i := range endings {
		m.settleOne(&endings[i], &out[i])
	}
	return nil
}

func (m *Memory) settleOne(e *limits.Ending, s *limits.Settlement) {
	*s = limits.Settlement{}
	if e.Final == e.Taken || e.Final < 0 || e.Taken < 0 {
		return
	}
	if e.Limit.Algorithm() == limits.AlgorithmConcurrent {
		m.hold(e.Scope, e.Key, e.Final-e.Taken)
		s.Returned, s.Charged = max(0, e.Taken-e.Final), max(0, e.Final-e.Taken)
		return
	}
	for {
		limit, err := m.limitOf(&limits.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit})
		if err != nil {
			s.Err = err
			return
		}
		hash := m.limits.hash(limit.scopeHash, e.Key)
		now := m.clock.now()
		sh := m.shardOf(hash)
		sh.mu.Lock()
		if limit.retired.Load() {
			sh.mu.Unlock()
			continue
		}
		now = sh.nowLocked(now)
		if e.Final < e.Taken {
			s.Returned = sh.refundLocked(limit, hash, e, now)
		} else {
			s.Charged = sh.chargeLocked(limit, hash, e.Final-e.Taken, e.Lasts.Microseconds(), now)
			s.Forgiven = e.Final - e.Taken - s.Charged
		}
		sh.mu.Unlock()
		return
	}
}

// refundLocked returns the units of a taking that it has not cost in the end, as far as
// the key then has at least as much in use as if they had never been taken. It returns
// how many fewer are in use for it now: what has drained, faded or expired since has come
// back by itself. A state that is gone or fresh has nothing to return, and neither has one that
// was converted since: its units count as taken later.
func (sh *shard) refundLocked(limit *scopedLimit, hash uint64, e *limits.Ending, now int64) int64 {
	entry := sh.findLocked(hash)
	if entry == nil || !entry.knows(e.Ticket) || sh.reusableLocked(entry, now) {
		return 0
	}
	under := sh.limits.get(entry.limitID)
	if !under.carries(&limit.compiledLimit) {
		return 0
	}
	var s view
	under.advance(&s, &entry.state, now, &sh.nodes)
	before := under.unitsInUse(&s)
	n := sh.refundEntryLocked(under, entry, e, now)
	under.advance(&s, &entry.state, now, &sh.nodes)
	returned := min(e.Taken-e.Final, before-under.unitsInUse(&s))
	if n > 0 && under.isEmpty(&entry.state) {
		if len(sh.floors) == 0 {
			sh.clearLocked(entry)
			return returned
		}
		// fresh, but not unknown: that would start from what was displaced
		under.fresh(&s, now)
		s.limitID = entry.limitID
		sh.numberLocked(&s.state)
		sh.releaseLocked(&entry.state, 0)
		entry.state = s.state
	}
	return returned
}

// refundEntryLocked takes units of a taking off the state of an entry, and returns how many.
func (sh *shard) refundEntryLocked(under *scopedLimit, entry *entry, e *limits.Ending, now int64) int64 {
	n, at := e.Taken-e.Final, e.Ticket&ticketMask
	switch under.family {
	case familyBucket:
		return sh.bucketRefundLocked(&under.compiledLimit, entry, e.Taken, n, at)
	case familyWindow:
		return under.windowRefund(&entry.state, n, at)
	case familyAnchoredWindow:
		return under.anchoredRefund(&entry.state, n, e.Final, at)
	case familyLog:
		if now-at >= under.period {
			return 0 // it has expired
		}
		return sh.logRefundLocked(under.share, &entry.state, n, at)
	case familyBan:
		return under.banRefund(&entry.state, n, at)
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// isEmpty reports whether there are no units in a stored state.
func (l *compiledLimit) isEmpty(s *state) bool {
	if l.family == familyBucket {
		return s.a == 0 && s.b == 0
	}
	return l.counted(s) == 0
}

// chargeLocked charges n units that a taking has cost above its estimate, whether they
// fit or not, and returns how many: as many as leave the key owing at most the maximum. A
// live state under another limit stays as it is: it would have to be converted, and what
// has ended must not undo what was taken since, or lift a ban.
func (sh *shard) chargeLocked(limit *scopedLimit, hash uint64, n, lasts, now int64) int64 {
	entry := sh.findLocked(hash)
	if entry != nil && !sh.reusableLocked(entry, now) {
		if under := sh.limits.get(entry.limitID); under.family != limit.family && (under.family == familyBan || limit.family == familyBan) {
			return 0
		}
	}
	var s view
	sh.loadLocked(&s, entry, limit, now)
	if s.former != nil {
		return 0
	}
	if n = min(n, limit.mayOwe(&s)); n == 0 {
		return 0
	}
	if limit.family == familyBucket {
		sh.noteTakingLocked(entry, hash, limit, lasts, now)
	}
	limit.take(&s, n)
	if limit.algorithm == limits.AlgorithmLeakyQueue {
		s.serial = 0
	}
	limit.owe(&s.state, n)
	sh.storeLocked(entry, hash, limit, &s, now)
	return n
}

// mayOwe returns how many more units a key may be charged beyond what fits: it owes at
// most its limit's maximum.
func (l *compiledLimit) mayOwe(s *view) int64 {
	switch l.family {
	case familyBucket:
		return l.bucketMayOwe(&s.state)
	case familyWindow, familyAnchoredWindow, familyLog:
		return max(0, 2*l.max-l.inUse(s))
	case familyBan: // what is charged during a ban is ignored
		if s.a > 0 {
			return 0
		}
		return max(0, 2*l.max-int64(s.b))
	case familyConcurrent:
		return 0
	default:
		panic(unknownFamily)
	}
}

// owe notes in s, to which n units were just added, how many of them the next window
// starts with.
func (l *compiledLimit) owe(s *state, n int64) {
	switch l.family {
	case familyWindow:
		l.windowOwe(s, n)
	case familyAnchoredWindow:
		l.anchoredOwe(s, n)
	case familyBucket, familyLog, familyBan: // what is too much drains, expires or is forgotten like the rest
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}
