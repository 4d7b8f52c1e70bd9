package memory

import (
	"math"
)

// ring remembers the least levels that a bucket had, so that units can be returned long
// after they were taken. A taking leaves the bucket higher by its cost until the bucket,
// lower by as much, would have been empty: what has drained since would not have drained.
// So a refund is worth at most the least level that later takings have found. The ring
// keeps that for slices of time.
type ring struct {
	zero   int64 // the latest instant at which the level was 0, or was not known
	width  int64 // of a slice, microseconds
	newest int64 // number of the latest slice: instant / width
	low    [ringSlices]int64
}

// ringSlices times ring.width is Charge.Lasts: with 8 slices, 98 of 100 units come back
// that a memory of every level would return.
const ringSlices = 8

// noteTakingLocked records, before units are taken from the bucket of a hash, the level
// that they find. lasts is that of the charge, in microseconds. A bucket has a ring from
// its first charge that lasts on, until a charge that does not last finds it empty or
// under another algorithm: a backend that forgets fresh keys then has the same rings. A
// leaky queue returns nothing by levels, and has none.
func (sh *shard) noteTakingLocked(e *entry, hash uint64, limit *scopedLimit, lasts, now int64) {
	r, ok := sh.rings[hash]
	if !ok && lasts == 0 {
		return
	}
	if limit.queues || lasts == 0 && sh.endsRing(e, now) {
		delete(sh.rings, hash)
		return
	}
	width := (lasts + ringSlices - 1) / ringSlices
	switch {
	case !ok, e == nil, lasts != 0 && width != r.width, e.limitID != limit.id:
		if lasts == 0 {
			width = r.width
		}
		r = newRing(now, width)
	default:
		s := &sh.scratch.other
		limit.advance(s, &e.state, now, sh)
		r.note(now, s.a, s.b != 0)
	}
	sh.storeRingLocked(hash, r)
}

// endsRing reports whether e, nil for a key without state, has no levels to remember at
// the instant now.
func (sh *shard) endsRing(e *entry, now int64) bool {
	if e == nil {
		return true
	}
	from := sh.limits.get(e.limitID)
	if !from.drains || from.queues {
		return true
	}
	s := &sh.scratch.other
	from.advance(s, &e.state, now, sh)
	return s.a == 0 && s.b == 0
}

func newRing(now, width int64) ring {
	r := ring{zero: now, width: width, newest: now / width}
	for i := range r.low {
		r.low[i] = math.MaxInt64
	}
	return r
}

// note records a taking at the instant now, which found a level of whole microseconds us,
// and perhaps a fraction.
func (r *ring) note(now, us int64, fraction bool) {
	if us == 0 && !fraction {
		*r = newRing(now, r.width)
		return
	}
	slice := now / r.width
	for r.newest < slice {
		r.newest++
		if slice-r.newest >= ringSlices {
			r.newest = slice - ringSlices + 1
		}
		r.low[r.newest%ringSlices] = math.MaxInt64
	}
	low := &r.low[slice%ringSlices]
	*low = min(*low, us)
}

// worth returns how much of the time d, for which units of a taking at the instant at
// drain, the level is higher for it now, in whole microseconds. The whole taking drains in
// cost, and the latest taking was at the instant last. Besides what the ring says, later
// takings have found at least what this one found and its cost, less what drained since.
func (r *ring) worth(at, cost, d, last int64) int64 {
	slice := at / r.width
	if at < r.zero || r.newest-slice >= ringSlices {
		return 0
	}
	level := r.foundAt(at) + cost
	for ; slice <= r.newest; slice++ {
		d = min(d, max(r.low[slice%ringSlices], level-r.upTo(slice, at, last)))
	}
	return d
}

// lower lowers what takings since the instant at have found by d, which is returned of a
// taking at that instant. Not every level of its slice is of a later taking, and those are
// not below what the taking leaves behind, less what drains.
func (r *ring) lower(at, cost, d, last int64) {
	slice := max(at/r.width, r.newest-ringSlices+1)
	level := r.foundAt(at) + cost - d
	for ; slice <= r.newest; slice++ {
		if low := &r.low[slice%ringSlices]; *low != math.MaxInt64 {
			*low = min(*low, max(0, *low-d, level-r.upTo(slice, at, last)))
		}
	}
}

// foundAt returns a level that a taking at the instant at has found at least.
func (r *ring) foundAt(at int64) int64 {
	if low := r.low[at/r.width%ringSlices]; at > r.zero && low != math.MaxInt64 {
		return low
	}
	return 0 // it opened the ring, which does not know what it found
}

// upTo returns how long after the instant at takings of a slice were at most.
func (r *ring) upTo(slice, at, last int64) int64 {
	return min(last, (slice+1)*r.width-1) - at
}

// storeRingLocked keeps r. Rings of keys that are gone are dropped when there are twice
// as many as at the last look.
func (sh *shard) storeRingLocked(hash uint64, r ring) {
	if sh.rings == nil {
		sh.rings = make(map[uint64]ring)
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

// To the last taking its units are worth all of them. A leaky queue returns only those: the ones
// behind have been told when their turn is.
func (*bucket) refundLocked(sh *shard, l *scopedLimit, e *entry, of refund, _ int64) int64 {
	level := e.level()
	cost := l.drain(min(of.taken-of.final, l.max))
	whole := l.drain(min(of.taken, l.max)).us
	worth := cost
	r, ok := sh.rings[e.hash]
	switch {
	case of.at == e.at:
	case l.queues:
		return 0
	case ok:
		worth = minSpan(cost, span{r.worth(of.at, whole, cost.ceil(), e.at), 0})
	case cost.us < e.at-of.at:
		worth = span{}
	default:
		worth.us -= max(0, e.at-of.at)
	}
	worth = minSpan(worth, level)
	if worth == (span{}) || of.at > e.at {
		return 0
	}
	level = l.minus(level, worth)
	e.a, e.b = level.us, uint32(level.frac)
	if ok && of.at != e.at {
		r.lower(of.at, whole, worth.ceil(), e.at)
		sh.rings[e.hash] = r
	}
	return l.unitsDrained(worth)
}

func minSpan(a, b span) span {
	if a.us < b.us || a.us == b.us && a.frac < b.frac {
		return a
	}
	return b
}
