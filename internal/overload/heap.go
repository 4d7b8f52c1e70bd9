package overload

import "math/rand/v2"

// heap has the next event first: by instant, and by the order in which they were added.
type heap []event

func (h heap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h *heap) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.less(i, up) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *heap) pop() event {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = event{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		low := 2*i + 1
		if low >= last {
			return top
		}
		if low+1 < last && s.less(low+1, low) {
			low++
		}
		if !s.less(low, i) {
			return top
		}
		s[i], s[low] = s[low], s[i]
		i = low
	}
}

// queue has those that wait for a slot, the oldest first.
type queue struct {
	items  []*request
	head   int
	random bool // pop takes any of them
	drawn  *rand.Rand
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(r *request) { q.items = append(q.items, r) }

func (q *queue) pop() *request {
	if q.random {
		i := q.head + q.drawn.IntN(q.len())
		q.items[i], q.items[q.head] = q.items[q.head], q.items[i]
	}
	r := q.items[q.head]
	q.items[q.head] = nil
	if q.head++; q.head > 1024 && q.head > len(q.items)/2 {
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	return r
}
