package memory

import (
	"context"
	"errors"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

var errEndingLengths = errors.New("memory: endings and settlements differ in length")

// Settle implements [backends.Settler]. It never fails for endings of charges that the Memory has
// decided.
func (m *Memory) Settle(_ context.Context, endings []backends.Ending, out []limits.Settlement) error {
	if len(endings) != len(out) {
		return errEndingLengths
	}
	for i := range endings {
		m.settleOne(&endings[i], &out[i])
	}
	return nil
}

func (m *Memory) settleOne(e *backends.Ending, s *limits.Settlement) {
	*s = limits.Settlement{}
	if e.Final == e.Taken || e.Final < 0 || e.Taken < 0 {
		return
	}
	if algorithm.Of(e.Limit.Algorithm()).Held {
		m.hold(e.Scope, e.Key, e.Final-e.Taken)
		s.Returned, s.Charged = max(0, e.Taken-e.Final), max(0, e.Final-e.Taken)
		return
	}
	for {
		limit, err := m.limitOf(&backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit})
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
			s.Charged = sh.chargeLocked(limit, hash, e.Final-e.Taken, max(0, e.Lasts.Microseconds()), now)
			s.Forgiven = e.Final - e.Taken - s.Charged
		}
		sh.mu.Unlock()
		return
	}
}

// refundLocked returns the units of a taking that it has not cost in the end, as far as
// [family.Compiled].Refund does, and how many fewer are in use for it now: what has drained, faded or
// expired since has come back by itself. A state that is gone or fresh has nothing to return, and
// neither has one that was converted since: its units count as taken later.
func (sh *shard) refundLocked(limit *scopedLimit, hash uint64, e *backends.Ending, now int64) int64 {
	entry := sh.findLocked(hash)
	if entry == nil || !entry.knows(e.Ticket) {
		return 0
	}
	under := sh.limits.get(entry.limitID)
	before := entry.used()
	if !under.Carries(&limit.Numbers) || under.family.FreshAt(before) <= now {
		return 0
	}
	_, inUse := sh.asOfLocked(under, before, now)
	after := under.family.Refund(before, family.Refund{
		Taken: e.Taken, Final: e.Final, At: e.Ticket & ticketMask, Now: now, Ring: sh.rings[hash],
	}, &sh.nodes)
	if after == before {
		return 0
	}
	_, left := sh.asOfLocked(under, after, now)
	returned := min(e.Taken-e.Final, inUse-left)
	if under.Lists {
		sh.nodes.cut(&entry.state, after, under.share)
	}
	sh.noteTakenLocked(hash)
	if under.Size(after) == 0 {
		if len(sh.floors) == 0 && len(sh.changes) == 0 {
			sh.clearLocked(entry)
			return returned
		}
		// fresh, but not unknown: that would start from what was displaced
		sh.releaseLocked(&entry.state)
		after, _ = sh.asOfLocked(under, family.Used{}, now)
		after.Serial = sh.serialLocked(under, after)
	}
	entry.set(after)
	return returned
}

// chargeLocked charges n units that a taking has cost above its estimate, whether they
// fit or not, and returns how many: as many as leave the key owing at most the maximum. A
// live state under another limit stays as it is: it would have to be converted, and what
// has ended must not undo what was taken since, or lift a ban. What is remembered of keys that were
// displaced under other limits stays, too: the units are added to it.
func (sh *shard) chargeLocked(limit *scopedLimit, hash uint64, n, lasts, now int64) int64 {
	entry := sh.findLocked(hash)
	if entry != nil && sh.livesUnderAnotherLocked(entry, limit, now) {
		return 0
	}
	s, displaced := sh.loadLocked(entry, limit, now, false)
	owes := int64(0) // above the maximum, which is the most that a key that is not found starts from
	if displaced && !limit.Bans {
		owes = max(0, sh.floorLocked(limit, now)-limit.Max)
	}
	s, inUse := sh.asOfLocked(limit, s, now)
	if s, n = limit.family.Charge(s, n, inUse, now); n == 0 {
		return 0
	}
	s, _ = limit.family.Charge(s, owes, inUse+n, now)
	if entry == nil && sh.displacedOtherwiseLocked(limit, now) {
		sh.raiseFloorLocked(limit, sh.rememberedLocked(limit, s, now), now)
		return n
	}
	if limit.Drains {
		sh.noteTakingLocked(entry, hash, limit, lasts, now)
	}
	s.Serial = sh.serialLocked(limit, s)
	sh.storeLocked(entry, hash, limit, s, now)
	return n
}

// livesUnderAnotherLocked reports whether e would have to be converted to limit.
func (sh *shard) livesUnderAnotherLocked(e *entry, limit *scopedLimit, now int64) bool {
	under := sh.limits.get(e.limitID)
	switch {
	case sh.carriesLocked(e, limit, now) || sh.reusableLocked(e, now):
		return false
	case limit.Bans != under.Bans:
		return true
	}
	if _, changed := sh.changeLocked(e, now); changed {
		return true
	}
	_, inUse := sh.asOfLocked(under, e.used(), now)
	return inUse > 0
}
