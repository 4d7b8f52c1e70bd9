package family

import "math"

// Ring remembers the least levels that a bucket had, so that units can be returned long after they
// were taken. A taking leaves the bucket higher by its cost until the bucket, lower by as much, would
// have been empty: what has drained since would not have drained. So a refund is worth at most the
// least level that later takings have found. The ring keeps that level for slices of time.
//
// An example: one unit drains in 1 s, and each slice is 1 s.
//
//	at 0 s    A takes 5 units: the level is 5 s
//	at 1 s    B finds 4 s and takes 1: the level is 5 s, the least of slice 1 is 4 s
//	at 4 s    C finds 2 s and takes 1: the level is 3 s, the least of slice 4 is 2 s
//	at 5 s    A returns 4 units. Without A, the bucket would have been empty when C came: 2 s of
//	          its cost drained before that. So A's units are worth 2 s, the least level since.
type Ring struct {
	emptyAt int64 // the latest instant at which the level was 0, or was not known
	width   int64 // of a slice
	newest  int64 // number of the latest slice: instant / width
	least   [ringSlices]int64
}

// ringSlices times the width is Charge.Lasts: with 8 slices, 98 of 100 units come back that a memory
// of every level would return.
const ringSlices = 8

const unknownLevel = math.MaxInt64 // of a slice without takings

// NewRing returns a ring that knows no level before now, for charges that last so long.
func NewRing(now, lasts int64) *Ring {
	r := new(Ring)
	r.begin(now, widthOf(lasts))
	return r
}

func widthOf(lasts int64) int64 { return (lasts + ringSlices - 1) / ringSlices }

func (r *Ring) begin(now, width int64) {
	*r = Ring{emptyAt: now, width: width, newest: now / width}
	for i := range r.least {
		r.least[i] = unknownLevel
	}
}

// Restart makes r forget all levels. lasts is that of the charges to come; 0: as before.
func (r *Ring) Restart(now, lasts int64) {
	width := r.width
	if lasts != 0 {
		width = widthOf(lasts)
	}
	r.begin(now, width)
}

// Spans reports whether r is for charges that last so long. 0: for any.
func (r *Ring) Spans(lasts int64) bool { return lasts == 0 || widthOf(lasts) == r.width }

// Note records a taking at the instant now, which found a bucket at s.
func (r *Ring) Note(now int64, s Used) {
	if s.A == 0 && s.B == 0 {
		r.begin(now, r.width)
		return
	}
	slice := now / r.width
	for r.newest < slice {
		r.newest++
		if slice-r.newest >= ringSlices {
			r.newest = slice - ringSlices + 1
		}
		r.least[r.newest%ringSlices] = unknownLevel
	}
	least := &r.least[slice%ringSlices]
	*least = min(*least, s.A)
}

// worth returns how much of the time d, in which units of a taking at the instant at drain, the level
// is higher for it now. The whole taking drains in cost, and the latest taking was at the instant
// last. Later takings have found what the ring says, and at least what this one found and its cost,
// less what drained since.
func (r *Ring) worth(at, cost, d, last int64) int64 {
	slice := at / r.width
	if at < r.emptyAt || r.newest-slice >= ringSlices {
		return 0
	}
	level := r.foundAt(at) + cost
	for ; slice <= r.newest; slice++ {
		d = min(d, max(r.least[slice%ringSlices], level-r.elapsedIn(slice, at, last)))
	}
	return d
}

// lower lowers what takings since the instant at have found by d, which is returned of a taking at that
// instant. Some levels of its slice are of earlier takings; the later ones are not below what the
// taking leaves behind, less what drains.
func (r *Ring) lower(at, cost, d, last int64) {
	slice := max(at/r.width, r.newest-ringSlices+1)
	level := r.foundAt(at) + cost - d
	for ; slice <= r.newest; slice++ {
		if least := &r.least[slice%ringSlices]; *least != unknownLevel {
			*least = min(*least, max(0, *least-d, level-r.elapsedIn(slice, at, last)))
		}
	}
}

// foundAt returns a level that a taking at the instant at has found at least.
func (r *Ring) foundAt(at int64) int64 {
	if least := r.least[at/r.width%ringSlices]; at > r.emptyAt && least != unknownLevel {
		return least
	}
	return 0 // it opened the ring, which does not know what it found
}

// elapsedIn returns how long after the instant at takings of a slice were at most.
func (r *Ring) elapsedIn(slice, at, last int64) int64 {
	return min(last, (slice+1)*r.width-1) - at
}
