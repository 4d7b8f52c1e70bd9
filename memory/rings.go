package memory

import "github.com/weir-go/weir/internal/ground/family"

// rings are the [family.Ring] of the keys of a shard that have charges with a Lasts. A ring tells a
// later refund how many units are still in the level of a bucket.
type rings struct {
	byHash map[uint64]*family.Ring
	sweep  int // at this size store sweeps
}

// empty reports whether no key ever had a ring.
func (r *rings) empty() bool { return r.byHash == nil }

// of returns the ring of a hash, or nil.
func (r *rings) of(hash uint64) *family.Ring { return r.byHash[hash] }

// forget removes the ring of a hash.
func (r *rings) forget(hash uint64) { delete(r.byHash, hash) }

// store stores a ring. If the map has doubled since the last sweep, it first removes the rings of
// keys without state.
func (r *rings) store(hash uint64, ring *family.Ring, t *table) {
	if r.byHash == nil {
		r.byHash = make(map[uint64]*family.Ring)
	}
	if len(r.byHash) >= r.sweep {
		for hash := range r.byHash {
			if t.find(hash) == nil {
				delete(r.byHash, hash)
			}
		}
		r.sweep = max(64, 2*len(r.byHash))
	}
	r.byHash[hash] = ring
}

// note records the level that a taking finds in the bucket of a hash, before its units are added.
// lasts is Charge.Lasts in microseconds. e is the entry of hash, or nil, and under wrote its state.
//
// The first charge with a Lasts creates the ring. It restarts if it does not suit the charge or the
// limit. A ring that is new or restarts knows no level yet: takings before it are worth nothing.
//
// A charge without Lasts deletes the ring if the bucket is empty, if there is no state, or if the
// state is not a bucket's. An empty bucket is like no state, since a store may drop a fresh state.
// A leaky queue has no ring, since its refunds do not depend on levels.
func (r *rings) note(e *entry, hash uint64, under, limit *scopedLimit, t *table, lasts, now int64) {
	ring := r.of(hash)
	if ring == nil && lasts == 0 {
		return
	}
	if limit.Queues || lasts == 0 && endsRing(e, under, now) {
		r.forget(hash)
		return
	}
	switch {
	case ring == nil:
		r.store(hash, family.NewRing(now, lasts), t)
	case e == nil, !ring.Spans(lasts), under != limit: // no state, or ring is for other charges
		ring.Restart(now, lasts)
	default:
		s, _ := limit.asOf(e.used(), now, nil)
		ring.Note(now, s)
	}
}

// endsRing reports whether e, nil for a key without state, has no level to remember at now: its
// state is not a bucket's, or the bucket is empty.
func endsRing(e *entry, under *scopedLimit, now int64) bool {
	if e == nil || !under.Drains || under.Queues {
		return true
	}
	s, _ := under.asOf(e.used(), now, nil)
	return s.A == 0 && s.B == 0
}
