package memory

import "github.com/weir-go/weir/internal/ground/family"

// noteLevelLocked records the level that a taking finds in the bucket of a hash, before its units
// are added. The record is a [family.Ring]: it tells a later refund how many units are still in the
// level. lasts is Charge.Lasts in microseconds.
//
// The first charge with a Lasts creates the ring. It restarts if it does not suit the charge or the
// limit. A ring that is new or restarts knows no level yet: takings before it are worth nothing.
//
// A charge without Lasts deletes the ring if the bucket is empty, if there is no state, or if the
// state is not a bucket's. An empty bucket is like no state, since a store may drop a fresh state.
// A leaky queue has no ring, since its refunds do not depend on levels.
func (sh *shard) noteLevelLocked(e *entry, hash uint64, limit *scopedLimit, lasts, now int64) {
	r := sh.rings[hash]
	if r == nil && lasts == 0 {
		return
	}
	if limit.Queues || lasts == 0 && sh.endsRingLocked(e, now) {
		delete(sh.rings, hash)
		return
	}
	switch {
	case r == nil:
		sh.storeRingLocked(hash, family.NewRing(now, lasts))
	case e == nil, !r.Spans(lasts), e.limitID != limit.id: // no state, or r is for other charges
		r.Restart(now, lasts)
	default:
		s, _ := sh.asOfLocked(limit, e.used(), now)
		r.Note(now, s)
	}
}

// endsRingLocked reports whether e, nil for a key without state, has no level to remember at now:
// its state is not a bucket's, or the bucket is empty.
func (sh *shard) endsRingLocked(e *entry, now int64) bool {
	if e == nil {
		return true
	}
	from := sh.limits.get(e.limitID)
	if !from.Drains || from.Queues {
		return true
	}
	s, _ := sh.asOfLocked(from, e.used(), now)
	return s.A == 0 && s.B == 0
}

// storeRingLocked stores r. If the map has doubled since the last sweep, it first removes the rings
// of keys without state.
func (sh *shard) storeRingLocked(hash uint64, r *family.Ring) {
	if sh.rings == nil {
		sh.rings = make(map[uint64]*family.Ring)
	}
	if len(sh.rings) >= sh.ringsSweep {
		for hash := range sh.rings {
			if sh.findLocked(hash) == nil {
				delete(sh.rings, hash)
			}
		}
		sh.ringsSweep = max(64, 2*len(sh.rings))
	}
	sh.rings[hash] = r
}
