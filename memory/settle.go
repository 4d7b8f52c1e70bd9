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

// Settle implements [backends.Settler]. It fails for a charge of this Memory only if the limit was
// retired, and the table of limits is full of live ones.
func (m *Memory) Settle(_ context.Context, endings []backends.Ending,
	out []limits.Settlement) error {
	if len(endings) != len(out) {
		return errEndingLengths
	}
	for i := range endings {
		m.settleOne(&endings[i], &out[i])
	}
	return nil
}

// settleOne carries out e and sets s to its result. If the limit was retired before the shard was
// locked, it looks the limit up again.
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
		hash := m.limits.keys.Key(limit.scopeHash, e.Key)
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

// hold adds n units to those that a key holds, whether they fit or not. A negative n releases
// units.
func (m *Memory) hold(scope, key string, n int64) {
	hash := m.limits.keys.Key(m.limits.hashScope(scope, algorithm.Held), key)
	sh := m.shardOf(hash)
	sh.mu.Lock()
	sh.heldLocked().set(hash, family.Held(sh.held.of(hash), n))
	sh.mu.Unlock()
}

// refundLocked refunds the units that a taking did not cost, as far as [family.Compiled].Refund
// allows. It returns by how much the units in use fell: units that drained, faded or expired before
// are not among them. It refunds nothing if the state is gone, fresh, or was converted since the
// taking: converted units count from the conversion.
func (sh *shard) refundLocked(limit *scopedLimit, hash uint64, e *backends.Ending,
	now int64) int64 {
	entry := sh.table.find(hash)
	if entry == nil || !entry.knows(e.Ticket) {
		return 0
	}
	under := sh.states.limits.get(entry.limitID) // the limit that wrote the state
	before := entry.used()
	if !under.Carries(&limit.Numbers) || under.family.FreshAt(before) <= now {
		return 0
	}
	_, inUse := under.asOf(before, now, &sh.states.logs)
	listed := uint32(0) // the node that has e.Value, if the limit counts values
	if under.Values {
		sh.states.logs.value = sh.states.limits.digest(e.Value) // OfValue and Refund read it
		listed = sh.states.logs.OfValue(entry.log().Head())
	}
	after := under.family.Refund(before, family.Refund{
		Taken: e.Taken, Final: e.Final, At: e.Ticket & ticketMask, Now: now, Ring: sh.states.rings.of(hash),
	}, &sh.states.logs)
	if after == before {
		return 0
	}
	_, left := under.asOf(after, now, &sh.states.logs)
	if under.Values {
		after = family.Used(sh.states.logs.without(listed, family.Log(after), under.share))
		entry.set(after) // storeRefundedLocked may free the nodes of entry; those of the value are free
	} else if under.Lists {
		sh.states.logs.cut(&entry.state, family.Log(after), under.share)
	}
	sh.storeRefundedLocked(entry, under, after, now)
	return min(e.Taken-e.Final, inUse-left)
}

// storeRefundedLocked stores the state of entry after a refund, or empties its slot if nothing is
// in use.
func (sh *shard) storeRefundedLocked(entry *entry, limit *scopedLimit, state family.Used,
	now int64) {
	// An equal state would mean that nothing was taken since the conversion. After a refund it may be
	// equal although something was.
	sh.states.changes.noteTaken(entry.hash)
	if limit.Size(state) == 0 {
		if sh.floors.empty() && sh.states.changes.empty() {
			sh.states.clear(entry)
			return
		}
		// Keep a fresh state. Without one the key would start from the floors, and lose its change.
		sh.states.logs.forget(&entry.state)
		state, _ = limit.asOf(family.Used{}, now, &sh.states.logs)
		state.Serial = sh.states.nextSerial(limit, state)
	}
	entry.set(state)
}

// chargeLocked charges up to n units that a taking cost above its estimate, whether they fit or
// not, and returns how many. It stops where the key owes the maximum. It leaves a state under another
// limit as it is if units of it would become units of limit: a conversion could undo later takings.
//
// A key without an entry may have been displaced under another limit, whose units are then only in
// a floor. A new entry under limit would hide them. So chargeLocked stores no entry then, and
// raises the floor of limit instead.
func (sh *shard) chargeLocked(limit *scopedLimit, hash uint64, n, lasts, now int64) int64 {
	entry := sh.table.find(hash)
	s, displaced := sh.loadLocked(entry, limit, now, false) // stores no conversion
	s, inUse := limit.asOf(s, now, &sh.states.logs)
	if inUse > 0 && entry != nil && !sh.states.carries(entry, limit, now) {
		return 0
	}
	if s, n = limit.family.Charge(s, n, inUse, now); n == 0 {
		return 0
	}
	if displaced && !limit.Bans {
		// The floor may be above the maximum, and loadLocked starts a key with the maximum at most.
		// The rest comes after n: if both exceed what a key may owe, the rest is cut, and not n.
		rest := max(0, sh.floors.used(limit, now)-limit.Max)
		s, _ = limit.family.Charge(s, rest, inUse+n, now)
	}
	if entry == nil && sh.floors.hides(limit, now) {
		sh.floors.raise(limit, sh.rememberedLocked(limit, s, now), now)
		return n
	}
	if limit.Drains {
		sh.states.noteLevel(entry, hash, limit, &sh.table, lasts, now)
	}
	s.Serial = sh.states.nextSerial(limit, s)
	sh.storeLocked(entry, hash, limit, s, now)
	return n
}
