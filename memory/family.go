package memory

import "github.com/weir-go/weir/limits"

// family is the algorithms that keep one form of state. Each has a file of its own, and embeds
// sharedByFamilies, which has what most of them do alike. A limit l is one of the family's; sh is
// the key's shard, whose lock the caller has. What is passed must not lie on the stack, where it
// could not stay: see scratch.
type family interface {
	// advance makes s, a state that was written under l, what it is at s.asOf, which is no earlier. A
	// state that starts anew has no serial: what was taken before is not returned to it.
	advance(l *compiledLimit, s *view, sh *shard)

	// inUse returns how many units count at s.asOf, those above the maximum included.
	inUse(l *compiledLimit, s *view) int64

	// take adds n units at s.asOf, whether they fit or not.
	take(l *compiledLimit, s *view, n int64)

	// untilFits returns the least wait, from s.asOf, until n units fit, for n from 1 to the maximum
	// that do not fit now.
	untilFits(l *compiledLimit, s *view, n int64, sh *shard) int64

	// freshAt returns the instant at which s, as it is stored, equals the state of a key that has used
	// nothing.
	freshAt(l *compiledLimit, s *state) int64

	// units returns a number that is larger the more a state has used, and 0 if that is nothing. It is
	// compared, not counted.
	units(s *state) int64

	// refundLocked returns n of the units that a taking has put into the state of e, as far as the
	// key then has at least as much in use as if they had never been taken, and how many: in doubt 0,
	// and refundable of limitstest says the same.
	refundLocked(sh *shard, l *scopedLimit, e *entry, of refund, now int64) int64

	// What follows has a default.

	// compile completes l, whose limit, algorithm, period, maximum and unit are set.
	compile(l *compiledLimit)

	// fresh completes the state of a key that has used nothing at s.asOf.
	fresh(l *compiledLimit, s *view)

	// windowEnd returns the instant at which the window of s ends, if all units come back then. Of
	// a key that owes whole windows it is the end of the last of them.
	windowEnd(l *compiledLimit, s *view) (at int64, ok bool)

	// charge adds up to n units beyond what fits, so that the key owes at most the maximum, and
	// returns how many.
	charge(l *compiledLimit, s *view, n int64) int64

	// fits reports whether n units, 0 ≤ n, fit at s.asOf.
	fits(l *compiledLimit, s *view, n int64) bool

	// inherit makes s, which is fresh, the state of a key that may have so many units in use, nobody
	// knows since when.
	inherit(l *compiledLimit, s *view, units int64)

	// describe sets d, except its Delay, to the decision on a charge of n units that has left s
	// behind, whether it is allowed or not.
	describe(l *compiledLimit, d *limits.Decision, s *view, n int64, allowed bool, sh *shard)
}

// refund is what is to be returned of a taking.
type refund struct {
	taken, final int64
	at           int64 // the instant that its units count from
}

// families has the family of each algorithm. Pointers, since the methods of a value would be linked
// twice: its own, and those of the pointer to it.
var families = [...]family{
	limits.AlgorithmTokenBucket:    new(bucket),
	limits.AlgorithmLeakyBucket:    new(bucket),
	limits.AlgorithmLeakyQueue:     new(bucket),
	limits.AlgorithmFixedWindow:    new(window),
	limits.AlgorithmSlidingWindow:  new(window),
	limits.AlgorithmSlidingLog:     new(slidingLog),
	limits.AlgorithmAnchoredWindow: new(anchoredWindow),
	limits.AlgorithmConcurrent:     new(concurrent),
	limits.AlgorithmBan:            new(ban),
	limits.AlgorithmCalendar:       new(calendarWindow),
}

// sharedByFamilies has the methods of a family that counts units until they expire.
type sharedByFamilies struct{}

func (*sharedByFamilies) compile(l *compiledLimit) { l.form = [2]int64{l.period} }

func (*sharedByFamilies) fresh(*compiledLimit, *view) {}

func (*sharedByFamilies) windowEnd(*compiledLimit, *view) (int64, bool) { return 0, false }

func (*sharedByFamilies) fits(l *compiledLimit, s *view, n int64) bool {
	if n == 0 || n > l.max {
		return n == 0
	}
	return l.inUse(s) <= l.max-n
}

func (*sharedByFamilies) charge(l *compiledLimit, s *view, n int64) int64 {
	if n = min(n, max(0, 2*l.max-l.inUse(s))); n > 0 {
		l.take(s, n)
	}
	return n
}

func (*sharedByFamilies) inherit(l *compiledLimit, s *view, units int64) { l.take(s, units) }

func (*sharedByFamilies) describe(l *compiledLimit, d *limits.Decision, s *view, n int64, allowed bool, sh *shard) {
	l.describeUnits(d, s, n, allowed, sh)
}

// scratch is what the caller with the lock of a shard decides in. It is passed to families, which
// are interfaces: on the stack of a function it would have to be allocated.
type scratch struct {
	view  view
	other view // of what is looked at besides, such as a state under another limit
	told  limits.Decision
}
