package family

import "math"

// concurrent is the concurrency limit, which counts the units that are held: taken and not yet
// released. Its state is a number in A, which has no instant.
type concurrent struct{ Numbers }

// retryAfter is the wait that a denial by a concurrency limit gives. It is a guess, since it is not
// known when a request ends.
const retryAfter = 1_000_000

func newConcurrent(l Numbers) Compiled { return &concurrent{l} }

func (l *concurrent) Decide(s Used, n, _ int64, _ Entries) (Used, Told, bool) {
	fits := n == 0 || n <= l.Max-s.A
	if fits {
		s.A += n
	}
	return s, Told{InUse: s.A, Wait: retryAfter}, fits
}

// Held returns how many units are held if n more are than the units held so far, whether they fit or not;
// if n is negative, −n fewer.
func Held(held, n int64) int64 { return max(0, held+min(n, math.MaxInt64-held)) }

// Charge adds all units.
func (*concurrent) Charge(s Used, n, _, _ int64) (Used, int64) {
	before := s.A
	s.A = Held(before, n)
	return s, s.A - before
}

func (*concurrent) Refund(s Used, of Refund, _ Entries) Used {
	s.A = Held(s.A, of.Final-of.Taken)
	return s
}

func (*concurrent) FreshAt(s Used) int64 { return s.At }
