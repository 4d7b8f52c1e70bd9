package memory

import "github.com/weir-go/weir/internal/ground/family"

// noteTakingLocked records the level that a taking finds in the bucket of a hash; it is called
// before the units are added. lasts is Charge.Lasts in microseconds. A bucket gets a ring with its
// first charge that has a Lasts. It loses the ring when a charge without Lasts finds it empty or
// under another algorithm, so a backend that forgets fresh keys has the same rings. A leaky queue
// has no ring, since its refunds do not depend on levels.
func (sh *shard) noteTakingLocked(e *entry, hash uint64, limit *scopedLimit, lasts, now int64) {
	r := sh.rings[hash]
	if r == nil && lasts == 0 {
		return
	}
	if limit.Queues || lasts == 0 && sh.endsRing(e, now) {
		delete(sh.rings, hash)
		return
	}
	switch {
	case r == nil:
		sh.storeRingLocked(hash, family.NewRing(now, lasts))
	case e == nil, !r.Spans(lasts), e.limitID != limit.id:
		r.Restart(now, lasts)
	default:
		s, _ := sh.asOfLocked(limit, e.used(), now)
		r.Note(now, s)
	}
}

// endsRing reports whether e, nil for a key without state, has no level to remember at now: it is
// not a bucket, or it is empty.
func (sh *shard) endsRing(e *entry, now int64) bool {
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

// storeRingLocked stores r. When the map has doubled since the last sweep, it removes the rings of
// keys that are gone.
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
