package family

import "math"

// Ring remembers the least levels of a bucket, so that units can be returned long after they were
// taken. A taking raises the level by its cost. Without it, the bucket would have been empty
// earlier, and from then on nothing would have drained. So a refund is worth at most the least
// level that later takings have found. The ring keeps that level for each slice of time.
//
// An example: one unit drains in 1 s, and each slice is 1 s.
//
//	at 0 s    A takes 5 units: the level is 5 s
//	at 1 s    B finds 4 s and takes 1: the level is 5 s, the least of slice 1 is 4 s
//	at 4 s    C finds 2 s and takes 1: the level is 3 s, the least of slice 4 is 2 s
//	at 5 s    A returns 4 units; the level is 2 s. Without them, the bucket would have been
//	          empty from 2 s to 4 s, and the level would be 0. So they are worth 2 s, the least
//	          level since A.
type Ring struct {
	emptyAt int64             // the latest instant at which the level was 0 or unknown
	width   int64             // of a slice, µs
	newest  int64             // number of the latest slice: instant / width
	least   [ringSlices]int64 // least level found in a slice, at its number modulo ringSlices
}

// ringSlices slices cover Charge.Lasts. With 8 slices, 98% of the units come back that a memory of
// every level would return.
const ringSlices = 8

const unknownLevel = math.MaxInt64 // in a slice without takings

// NewRing returns a ring that knows no level before now. lasts is Charge.Lasts in microseconds.
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

// Restart makes r forget all levels. lasts is that of the next charges; 0 keeps the width.
func (r *Ring) Restart(now, lasts int64) {
	width := r.width
	if lasts != 0 {
		width = widthOf(lasts)
	}
	r.begin(now, width)
}

// Spans reports whether r suits charges with this lasts. 0 suits every ring.
func (r *Ring) Spans(lasts int64) bool { return lasts == 0 || widthOf(lasts) == r.width }

// Note records that a taking at now has found the bucket in the state s.
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

// worth returns how much of d is still part of the level. d is the drain time of the units that a
// taking returns, cost that of all its units. takenAt is its instant, and last that of the latest
// taking. Later takings have found at least the levels of the ring, and at least the level that
// this taking left, less the time since.
func (r *Ring) worth(takenAt, cost, d, last int64) int64 {
	slice := takenAt / r.width
	if takenAt < r.emptyAt || r.newest-slice >= ringSlices {
		return 0
	}
	level := r.foundAt(takenAt) + cost
	for ; slice <= r.newest; slice++ {
		d = min(d, max(r.least[slice%ringSlices], level-r.elapsedIn(slice, takenAt, last)))
	}
	return d
}

// lower lowers the levels found since a taking at takenAt by d, which that taking has returned. No
// level falls below the level that the taking left, less the time since. A lower level, in the
// slice of the taking, was found by an earlier one and stays.
func (r *Ring) lower(takenAt, cost, d, last int64) {
	slice := max(takenAt/r.width, r.newest-ringSlices+1)
	level := r.foundAt(takenAt) + cost - d
	for ; slice <= r.newest; slice++ {
		if least := &r.least[slice%ringSlices]; *least != unknownLevel {
			*least = min(*least, max(0, *least-d, level-r.elapsedIn(slice, takenAt, last)))
		}
	}
}

// foundAt returns a lower bound of the level that a taking at takenAt has found.
func (r *Ring) foundAt(takenAt int64) int64 {
	least := r.least[takenAt/r.width%ringSlices]
	if takenAt > r.emptyAt && least != unknownLevel {
		return least
	}
	return 0 // the taking began the ring
}

// elapsedIn returns the longest time from takenAt to a taking in a slice.
func (r *Ring) elapsedIn(slice, takenAt, last int64) int64 {
	return min(last, (slice+1)*r.width-1) - takenAt
}
