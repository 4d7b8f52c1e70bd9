package memory

import (
	"container/heap"

	"github.com/weir-go/weir/internal/ground/family"
)

// loans are units of concurrency limits that end by themselves: see [backends.Charge].Lends. The
// table of held units counts them with the others.
//
// Methods get the table that counts the units.
//
// The units of a holder are one loan, which ends with the last taking. Units without a holder are a
// loan for each taking. The latest are returned first: units whose end was lost then stay behind,
// and end as soon as they can.
type loans struct {
	latest map[borrower]*loan // of the latest loan of each borrower; it leads to the earlier ones
	byEnd  loanHeap
}

type borrower struct {
	hash   uint64 // of the key
	holder uint64 // 0: none
}

type loan struct {
	of             borrower
	units          int64
	end            int64
	earlier, later *loan // of the same borrower
	place          int   // in the heap
}

// lend adds n units to those that a hash holds, until an instant or until they are taken back.
func (l *loans) lend(t *heldTable, hash, holder uint64, n, end int64) {
	if n <= 0 {
		return
	}
	of := borrower{hash, holder}
	t.set(hash, family.Held(t.of(hash), n))
	before := l.latest[of]
	if before != nil && holder != 0 {
		before.units, before.end = family.Held(before.units, n), max(before.end, end)
		heap.Fix(&l.byEnd, before.place)
		return
	}
	made := &loan{of: of, units: n, end: end, earlier: before}
	if before != nil {
		before.later = made
	}
	if l.latest == nil {
		l.latest = make(map[borrower]*loan)
	}
	l.latest[of] = made
	heap.Push(&l.byEnd, made)
}

// takeBack takes n units back from a borrower, of its latest loans first. It returns how many it
// had.
func (l *loans) takeBack(t *heldTable, hash, holder uint64, n int64) (returned int64) {
	of := borrower{hash, holder}
	for one := l.latest[of]; one != nil && returned < n; one = l.latest[of] {
		part := min(n-returned, one.units)
		returned += part
		t.set(hash, family.Held(t.of(hash), -part))
		if one.units -= part; one.units == 0 {
			l.remove(one)
		}
	}
	return returned
}

// endUntil ends the loans whose time has come.
func (l *loans) endUntil(t *heldTable, now int64) {
	for len(l.byEnd) > 0 && l.byEnd[0].end <= now {
		one := l.byEnd[0]
		t.set(one.of.hash, family.Held(t.of(one.of.hash), -one.units))
		l.remove(one)
	}
}

func (l *loans) remove(one *loan) {
	heap.Remove(&l.byEnd, one.place)
	if one.earlier != nil {
		one.earlier.later = one.later
	}
	switch {
	case one.later != nil:
		one.later.earlier = one.earlier
	case one.earlier != nil:
		l.latest[one.of] = one.earlier
	default:
		delete(l.latest, one.of)
	}
}

// loanHeap has the loan that ends first in front.
type loanHeap []*loan

func (h loanHeap) Len() int           { return len(h) }
func (h loanHeap) Less(i, j int) bool { return h[i].end < h[j].end }

func (h loanHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements [heap.Interface].
func (h *loanHeap) Push(one any) {
	l := one.(*loan)
	l.place = len(*h)
	*h = append(*h, l)
}

// Pop implements [heap.Interface].
func (h *loanHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return one
}
