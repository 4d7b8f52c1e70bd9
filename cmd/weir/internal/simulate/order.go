package simulate

import (
	"cmp"
	"slices"
)

const second = 1_000_000 // microseconds

const (
	// window is how many seconds a line may be late: servers write a line when a request
	// ends, and some with the instant at which it began.
	window = 120

	// maxWaiting is how many requests wait for those that belong before them.
	maxWaiting = 1 << 17

	// setBack is how many lines in a row are before the window until the clock is taken to
	// have been set back.
	setBack = 32
)

// order brings requests into the order in which they arrived, as far as a bounded memory
// allows, and spreads those of a second where stamps are whole seconds.
type order struct {
	whole bool        // stamps are whole seconds
	emit  func(*item) // takes the item over

	started bool
	next    int64               // the first second that was not emitted
	newest  int64               // the latest second that waits
	seconds [2 * window][]*item // by second
	waiting int
	ahead   *item // the first line, or one that is far ahead of all before it: a quiet time, or a clock that is wrong
	lateRun int

	late, jumps int64
}

// push adds a request, and takes it over.
func (o *order) push(it *item) {
	sec := it.at / second
	switch {
	case o.ahead != nil:
		ahead := o.ahead
		o.ahead = nil
		if sec < ahead.at/second-window { // one line had a wrong clock
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

// begin makes the second of the first request the one that others follow.
func (o *order) begin(it *item) {
	if !o.started {
		o.started = true
		o.restart(it.at / second)
	}
}

// restart makes a second the one that others follow.
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
	slot := &o.seconds[sec%int64(len(o.seconds))]
	*slot = append(*slot, it)
	o.waiting++
	for o.waiting > maxWaiting && o.next < o.newest {
		o.emitSecond()
	}
}

// emitSecond emits the requests of the next second.
func (o *order) emitSecond() {
	slot := &o.seconds[o.next%int64(len(o.seconds))]
	items := *slot
	start := o.next * second
	o.next++
	if len(items) == 0 {
		return
	}
	if !o.whole && !slices.IsSortedFunc(items, byArrival) {
		slices.SortStableFunc(items, byArrival)
	}
	for i, it := range items {
		it.spread = it.at
		if o.whole {
			it.at = start
			it.spread = start + int64(i)*second/int64(len(items))
		}
		o.emit(it)
	}
	o.waiting -= len(items)
	*slot = items[:0]
}

func byArrival(a, b *item) int { return cmp.Compare(a.at, b.at) }

// flush emits all that waits.
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
