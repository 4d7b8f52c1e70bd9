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

// Charge adds all units.
func (*concurrent) Charge(s Used, n, _, _ int64) (Used, int64) {
	n = min(n, math.MaxInt64-s.A)
	s.A += n
	return s, n
}

func (*concurrent) Refund(s Used, of Refund, _ Entries) Used {
	s.A = max(0, s.A-(of.Taken-of.Final))
	return s
}

func (*concurrent) FreshAt(s Used) int64 { return s.At }
