package limitstest

import (
	"math"
	"slices"
)

// span is when a call was under way. No two of a history begin or end at one instant.
type span struct{ begin, end int64 }

// longestOrder looks for an order of calls, at most 64, in which each takes effect between its
// beginning and its end, and leads from the state that the one before has left to that of step.
// step returns false if what the call was told is not the answer in that state. longestOrder returns
// the numbers of all calls, in such an order, or the longest beginning of an order if no order exists.
//
// It tries every call that may come next (Wing and Gong, "Testing and verifying concurrent objects",
// 1993), but no set of calls twice from equal states (Lowe, "Testing for linearizability", 2017).
func longestOrder[S any](calls []span, first S, step func(S, int) (S, bool), equal func(a, b S) bool) []int {
	if len(calls) > 64 {
		panic("limitstest: a set of calls is a word of 64 bits")
	}
	s := search[S]{calls: calls, step: step, equal: equal, seen: make(map[uint64][]S)}
	s.from(first, 0)
	return s.longest
}

type search[S any] struct {
	calls []span
	step  func(S, int) (S, bool)
	equal func(a, b S) bool

	order, longest []int
	seen           map[uint64][]S // the states that a set of calls has left
}

// from reports whether the calls that are not done can follow.
func (s *search[S]) from(state S, done uint64) bool {
	if len(s.order) > len(s.longest) {
		s.longest = slices.Clone(s.order)
	}
	if len(s.order) == len(s.calls) {
		return true
	}
	first := int64(math.MaxInt64) // the end of the call that ends first: no call that begins later may be next
	for i, c := range s.calls {
		if done&(1<<i) == 0 {
			first = min(first, c.end)
		}
	}
	for i, c := range s.calls {
		if done&(1<<i) != 0 || c.begin > first {
			continue
		}
		after, ok := s.step(state, i)
		if with := done | 1<<i; ok && s.isNew(with, after) {
			s.order = append(s.order, i)
			if s.from(after, with) {
				return true
			}
			s.order = s.order[:len(s.order)-1]
		}
	}
	return false
}

// isNew reports whether no order of the calls that are done has left an equal state before.
func (s *search[S]) isNew(done uint64, state S) bool {
	if slices.ContainsFunc(s.seen[done], func(other S) bool { return s.equal(state, other) }) {
		return false
	}
	s.seen[done] = append(s.seen[done], state)
	return true
}
