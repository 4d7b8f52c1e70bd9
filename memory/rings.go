package memory

import "github.com/weir-go/weir/internal/ground/family"

// noteTakingLocked records, before units are taken from the bucket of a hash, the level
// that they find. lasts is that of the charge, in microseconds. A bucket has a ring from
// its first charge that lasts on, until a charge that does not last finds it empty or
// under another algorithm: a backend that forgets fresh keys then has the same rings. A
// leaky queue returns nothing by levels, and has none.
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

// endsRing reports whether e, nil for a key without state, has no levels to remember at
// the instant now.
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

// storeRingLocked keeps r. Rings of keys that are gone are dropped when there are twice
// as many as at the last look.
func (sh *shard) storeRingLocked(hash uint64, r *family.Ring) {
	if sh.rings == nil {
		sh.rings = make(map[uint64]*family.Ring)
	}
	if len(sh.rings) >= sh.ringsLook {
		for hash := range sh.rings {
			if sh.findLocked(hash) == nil {
				delete(sh.rings, hash)
			}
		}
		sh.ringsLook = max(64, 2*len(sh.rings))
	}
	sh.rings[hash] = r
}
