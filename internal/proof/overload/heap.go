package overload

import (
	"math/rand/v2"
	"time"
)

// heap orders events by instant, and at one instant by when they were added.
type heap[T any] struct {
	items []timed[T]
	seq   uint64
}

type timed[T any] struct {
	at   time.Duration
	seq  uint64
	what T
}

func (h *heap[T]) less(i, j int) bool {
	a, b := &h.items[i], &h.items[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (h *heap[T]) push(at time.Duration, what T) {
	h.seq++
	h.items = append(h.items, timed[T]{at, h.seq, what})
	s := h.items
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *heap[T]) pop() (at time.Duration, what T) {
	s := h.items
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = timed[T]{}
	h.items = s[:last]
	for i := 0; ; {
		low := 2*i + 1
		if low >= last {
			return top.at, top.what
		}
		if low+1 < last && h.less(low+1, low) {
			low++
		}
		if !h.less(low, i) {
			return top.at, top.what
		}
		s[i], s[low] = s[low], s[i]
		i = low
	}
}

// play passes the events of the heap to happen until end, with those that are added meanwhile. It
// sleeps from one instant to the next, and sets now.
func (h *heap[T]) play(now *time.Duration, end time.Duration, happen func(T)) {
	for {
		at, what := h.pop()
		if at >= end {
			return
		}
		if at > *now {
			time.Sleep(at - *now)
			*now = at
		}
		happen(what)
	}
}

// queue has the requests that wait for a slot, the oldest first.
type queue[T any] struct {
	items  []T
	head   int
	random bool // pop takes a random one
	drawn  *rand.Rand
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(r T) { q.items = append(q.items, r) }

func (q *queue[T]) pop() T {
	if q.random {
		i := q.head + q.drawn.IntN(q.len())
		q.items[i], q.items[q.head] = q.items[q.head], q.items[i]
	}
	var none T
	r := q.items[q.head]
	q.items[q.head] = none
	if q.head++; q.head > 1024 && q.head > len(q.items)/2 {
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	return r
}
