package family

import "math"

// concurrent is the concurrency limit. It counts the units that are held: taken and not yet
// released. Its state has no instant.
type concurrent struct{ Numbers }

// retryAfter is the wait of a denial by a concurrency limit: a guess, since the end of a request is
// not known.
const retryAfter = 1_000_000

func newConcurrent(l Numbers) Compiled { return &concurrent{l} }

// Scripted returns 0 for how long Redis holds a unit, which the limit does not say.
func (*concurrent) Scripted() []int64 { return []int64{0, 1} }

func (l *concurrent) Decide(s Used, n, _ int64, _ uint64, _ Entries) (Used, Told, bool) {
	fits := n == 0 || n <= l.Max-s.A
	if fits {
		s.A += n
	}
	return s, Told{InUse: s.A, Wait: retryAfter}, fits
}

// Held returns held + n, the units held after n more are taken (n < 0: released). It stays within 0
// and MaxInt64.
func Held(held, n int64) int64 { return max(0, held+min(n, math.MaxInt64-held)) }

// Charge adds all n units.
func (*concurrent) Charge(s Used, n, _, _ int64) (Used, int64) {
	before := s.A
	s.A = Held(before, n)
	return s, s.A - before
}

func (*concurrent) Refund(s Used, r Refund, _ Entries) Used {
	s.A = Held(s.A, r.Final-r.Taken)
	return s
}

func (*concurrent) FreshAt(s Used) int64 { return s.At }
