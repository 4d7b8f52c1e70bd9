package limitstest

import (
	"math"
	"slices"
)

// lifetime is the time from the beginning of a call to its end. In a history no two of these
// instants are equal.
type lifetime struct{ begin, end int64 }

// longestOrder looks for an order of at most 64 calls that explains them. In it each call takes
// effect between its beginning and its end. step returns the state after a call, and false if the
// call got other decisions than that state explains. longestOrder returns the indexes of all calls
// in such an order, or, without such an order, the longest beginning of one.
//
// It tries every call that may come next (Wing and Gong, "Testing and verifying concurrent
// objects", 1993), but does not go on twice from one set of calls and equal states (Lowe, "Testing
// for linearizability", 2017).
//
// An example with a limit of 1: A lasts from 1 to 4 and was denied, B from 2 to 3 and was allowed.
// A first: it would have been allowed, so no order begins with A. B first, then A: both are
// explained.
func longestOrder[S any](calls []lifetime, first S,
	step func(S, int) (S, bool), equal func(a, b S) bool) []int {
	if len(calls) > 64 {
		panic("limitstest: a set of calls is a word of 64 bits")
	}
	s := search[S]{calls: calls, step: step, equal: equal, seen: make(map[uint64][]S)}
	s.from(first, 0)
	return s.longest
}

type search[S any] struct {
	calls []lifetime
	step  func(S, int) (S, bool)
	equal func(a, b S) bool

	order, longest []int
	seen           map[uint64][]S // by set of calls: the states that it has led to
}

// from reports whether the calls outside the set done can follow from state.
func (s *search[S]) from(state S, done uint64) bool {
	if len(s.order) > len(s.longest) {
		s.longest = slices.Clone(s.order)
	}
	if len(s.order) == len(s.calls) {
		return true
	}
	// the end of the call that ends first: no call that begins later may be next
	first := int64(math.MaxInt64)
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

// isNew reports whether no order of the calls in done has led to an equal state before.
func (s *search[S]) isNew(done uint64, state S) bool {
	if slices.ContainsFunc(s.seen[done], func(other S) bool { return s.equal(state, other) }) {
		return false
	}
	s.seen[done] = append(s.seen[done], state)
	return true
}
