package memory

import (
	"math"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// concurrent is the concurrency limit, which counts the units that are held: taken and not yet
// released. They are in a table of their own in the key's shard, since a key in flight must not be
// displaced and has no instant at which it is fresh. In a view, state.a is the units held.
type concurrent struct{ sharedByFamilies }

// concurrentRetryAfter is the wait, in microseconds, that a denial by a concurrency limit
// gives: a guess, since nobody knows when a request ends.
const concurrentRetryAfter = 1_000_000

func (*concurrent) compile(l *compiledLimit) { l.held = true }

func (*concurrent) inUse(_ *compiledLimit, s *view) int64 { return s.a }

func (*concurrent) take(_ *compiledLimit, s *view, n int64) { s.a += n }

func (*concurrent) describe(l *compiledLimit, d *limits.Decision, s *view, n int64, allowed bool, _ *shard) {
	*d = limits.Decision{
		Allowed: allowed, Source: limits.SourcePrimary, Remaining: l.remaining(s),
		EffectiveWindow: limits.Never, At: s.asOf,
	}
	switch {
	case !allowed && n > l.max:
		d.RetryAfter = limits.Never
	case !allowed:
		d.RetryAfter = arith.Wait(concurrentRetryAfter)
	}
}

// No state of a concurrency limit is stored, so nobody asks for what follows.

func (*concurrent) advance(*compiledLimit, *view, *shard) { panic(neverStored) }

func (*concurrent) untilFits(*compiledLimit, *view, int64, *shard) int64 { panic(neverStored) }

func (*concurrent) freshAt(*compiledLimit, *state) int64 { panic(neverStored) }

func (*concurrent) units(*state) int64 { panic(neverStored) }

func (*concurrent) refundLocked(*shard, *scopedLimit, *entry, refund, int64) int64 {
	panic(neverStored)
}

const neverStored = "memory: a concurrency limit has no stored state"

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
