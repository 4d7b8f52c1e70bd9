package memory

import (
	"math"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// A concurrency limit counts the units that are held: taken and not yet released. They
// are in a table of their own in the key's shard, since a key in flight must not be
// displaced and has no instant at which it is fresh. In a view, state.a is the units held.

// concurrentRetryAfter is the wait, in microseconds, that a denial by a concurrency limit
// gives: a guess, since nobody knows when a request ends.
const concurrentRetryAfter = 1_000_000

// loadHeldLocked sets s to the view of the units held under a hash.
func (sh *shard) loadHeldLocked(s *view, hash uint64, now int64) {
	*s = view{state: state{at: now, a: sh.held.of(hash)}, asOf: now}
}

// storeHeldLocked makes units the number that is held under a hash.
func (sh *shard) storeHeldLocked(hash uint64, units int64) {
	if sh.held == nil {
		sh.held = &heldTable{slots: make([]heldSlot, leastHeldSlots)}
	}
	sh.held.set(hash, units)
}

// hold counts n more units of a concurrency limit as held, whether they fit or not. It
// releases −n units if n is negative.
func (m *Memory) hold(scope, key string, n int64) {
	hash := m.limits.hash(m.limits.hashScope(scope), key)
	sh := m.shardOf(hash)
	sh.mu.Lock()
	held := sh.held.of(hash)
	sh.storeHeldLocked(hash, held+min(n, math.MaxInt64-held))
	sh.mu.Unlock()
}

// concurrentDescribe sets d, except its Delay, to the decision on a charge of n units
// that left s behind.
func (l *compiledLimit) concurrentDescribe(d *limits.Decision, s *view, n int64, allowed bool, now int64) {
	*d = limits.Decision{
		Allowed: allowed, Source: limits.SourcePrimary, Remaining: max(0, l.max-s.a),
		EffectiveWindow: limits.Never, At: now,
	}
	switch {
	case !allowed && n > l.max:
		d.RetryAfter = limits.Never
	case !allowed:
		d.RetryAfter = arith.Wait(concurrentRetryAfter)
	}
}
