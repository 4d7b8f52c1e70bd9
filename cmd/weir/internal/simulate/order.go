package simulate

import (
	"cmp"
	"container/heap"
	"slices"
)

const second = 1_000_000 // microseconds

const (
	// window is how many seconds late a line may be: servers write a line when a request ends, some
	// with the time at which it began.
	window = 120

	// maxWaiting is the number of requests that wait in memory for earlier ones. Further requests
	// wait on tapes.
	maxWaiting = 1 << 17

	// setBack is the number of consecutive lines before the window that mean that the clock was set
	// back.
	setBack = 32
)

// order sorts requests by arrival, unless they are late by more than the window. If stamps are
// whole seconds, it spreads the requests of a second.
type order struct {
	whole bool         // stamps are whole seconds
	most  int          // maximal number waiting in memory
	emit  func(*item)  // takes ownership of the item
	fresh func() *item // returns an unused item
	free  func(*item)  // takes back an item

	started bool
	next    int64               // the first second not yet emitted
	newest  int64               // the latest second with waiting requests
	seconds [2 * window]waiting // by second
	waiting int                 // in memory and on tapes
	kept    int                 // those in memory
	tapes   tapes
	written []*tape // tapes not read to their ends, oldest first
	// the first line, or a line far ahead of all others: a quiet time or a wrong clock
	ahead   *item
	lateRun int

	late, jumps int64
}

// push adds a request and takes ownership of it.
func (o *order) push(it *item) {
	sec := it.at / second
	switch {
	case o.ahead != nil:
		ahead := o.ahead
		o.ahead = nil
		if sec < ahead.at/second-window { // a single line had a wrong clock
			o.jumps++
			ahead.at = sec * second
			if o.started {
				ahead.at = o.newest * second
			}
		}
		o.begin(ahead)
		o.accept(ahead)
		o.push(it)
		return
	case !o.started || sec > o.newest+window:
		o.ahead = it
		return
	case sec < o.next:
		if o.lateRun++; o.lateRun < setBack {
			o.late++
			it.at = o.next * second
			o.accept(it)
			return
		}
		o.jumps++
		o.flush()
		o.restart(sec)
	}
	o.lateRun = 0
	o.accept(it)
}

// begin starts at the second of the first request.
func (o *order) begin(it *item) {
	if !o.started {
		o.started = true
		o.restart(it.at / second)
	}
}

// restart makes sec the current second.
func (o *order) restart(sec int64) {
	o.newest, o.next = sec, max(0, sec-window)
	o.lateRun = 0
}

func (o *order) accept(it *item) {
	sec := it.at / second
	if sec > o.newest {
		o.newest = sec
		for o.next < o.newest-window {
			if o.waiting == 0 {
				o.next = o.newest - window
				break
			}
			o.emitSecond()
		}
	}
	slot := o.slot(sec)
	slot.items = append(slot.items, it)
	o.waiting++
	if o.kept++; o.kept > o.most {
		o.spill()
	}
}

// waiting holds the waiting requests of one second.
type waiting struct {
	items   []*item // in the order of lines
	written int     // number of earlier requests, which are on tapes
}

func (o *order) slot(sec int64) *waiting { return &o.seconds[sec%int64(len(o.seconds))] }

// sort returns the items of a second in the order of emission.
func (o *order) sort(items []*item) []*item {
	if !o.whole && !slices.IsSortedFunc(items, byArrival) {
		slices.SortStableFunc(items, byArrival)
	}
	return items
}

// clear removes the items of w.
func (w *waiting) clear() {
	const worthKeeping = 1 << 10
	if cap(w.items) > worthKeeping { // there are many seconds, and each may be full once
		w.items = nil
	}
	w.items = w.items[:0]
}

// spill writes all requests in memory to a tape, second by second.
func (o *order) spill() {
	t := &tape{}
	for sec := o.next; sec <= o.newest; sec++ {
		slot := o.slot(sec)
		for _, it := range o.sort(slot.items) {
			o.tapes.write(t, it)
			o.free(it)
		}
		slot.written += len(slot.items)
		slot.clear()
	}
	o.kept = 0
	o.tapes.rewind(t, o.fresh())
	o.written = append(o.written, t)
}

// emitSecond emits the requests of the next second.
func (o *order) emitSecond() {
	slot, start := o.slot(o.next), o.next*second
	o.next++
	n, i := slot.written+len(slot.items), 0
	emit := func(it *item) {
		it.spread = it.at
		if o.whole {
			it.at = start
			it.spread = start + int64(i)*second/int64(n)
		}
		i++
		o.emit(it)
	}
	items := o.sort(slot.items)
	if slot.written > 0 {
		o.merge(start+second, items, emit)
	} else {
		for _, it := range items {
			emit(it)
		}
	}
	o.waiting -= n
	o.kept -= len(items)
	slot.written = 0
	slot.clear()
}

// merge calls visit for the requests on tapes before a time and for items, in the order of
// emission.
func (o *order) merge(before int64, items []*item, visit func(*item)) {
	h := heads{inTurn: o.whole}
	for i, t := range o.written {
		if t.head != nil && t.head.at < before {
			h.all = append(h.all, head{it: t.head, turn: i, tape: t})
		}
	}
	if len(items) > 0 {
		h.all = append(h.all, head{it: items[0], turn: len(o.written), rest: items[1:]})
	}
	heap.Init(&h)
	for len(h.all) > 0 {
		first := &h.all[0]
		it, next := first.it, (*item)(nil)
		if t := first.tape; t != nil {
			spare := o.fresh()
			t.head = spare
			if o.tapes.advance(t); t.head == nil {
				o.free(spare)
			} else if t.head.at < before {
				next = t.head
			}
		} else if len(first.rest) > 0 {
			next, first.rest = first.rest[0], first.rest[1:]
		}
		visit(it)
		if first.it = next; next != nil {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	o.written = slices.DeleteFunc(o.written, func(t *tape) bool { return t.head == nil })
}

// head is the next request of a source: a tape, or the requests in memory.
type head struct {
	it   *item
	turn int     // order of sources with requests of the same time
	tape *tape   // nil: memory
	rest []*item // requests in memory
}

// heads is a heap of the next requests.
type heads struct {
	all    []head
	inTurn bool // ignore times
}

func (h *heads) Len() int { return len(h.all) }
func (h *heads) Less(i, j int) bool {
	if a, b := h.all[i].it.at, h.all[j].it.at; a != b && !h.inTurn {
		return a < b
	}
	return h.all[i].turn < h.all[j].turn
}
func (h *heads) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *heads) Push(any)      {} // unused
func (h *heads) Pop() any {
	h.all = h.all[:len(h.all)-1]
	return nil
}

func byArrival(a, b *item) int { return cmp.Compare(a.at, b.at) }

// flush emits all waiting requests.
func (o *order) flush() {
	if ahead := o.ahead; ahead != nil {
		o.ahead = nil
		o.begin(ahead)
		o.accept(ahead)
	}
	for o.waiting > 0 {
		o.emitSecond()
	}
}
