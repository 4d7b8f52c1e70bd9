// Package family is what each algorithm does to the numbers that a key has used. Its functions
// are pure: they take a state by value and return the one after it. They have no clock, no lock and
// no store; package memory keeps the states.
//
// All times are in microseconds, and instants count from the Unix epoch.
package family

import (
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
)

// Used is what a key has used. Each family gives the numbers a meaning:
//
//	                  At                       A                          B
//	bucket            instant of last taking   level, whole µs            level, fraction
//	sliding window    start of the window      units in it                units in the one before
//	fixed window      start of the window      units in it                what the next owes
//	anchored window   start of the window      units in it                1 if each taking moves the start; above, what the next owes
//	log               instant of last taking   list of earlier takings    sum, units of the last, and of the one that is not stored yet
//	calendar          start of the period      units in it                what the next owes
//	ban               start of the period      end of the ban, 0: none,   units in the period
//	                                           below: units inherited
//	concurrency limit                          units held
//
// The zero value has used nothing. It has four fields, since the compiler keeps no larger struct
// in registers.
type Used struct {
	At, A, B int64
	Serial   uint16 // of a store: a state that starts anew has 0
}

// Told is what there is to say on a decision.
type Told struct {
	InUse int64 // units that count afterwards, those above the maximum included
	Reset int64 // until the state is that of a key that has used nothing
	Wait  int64 // until the units fit; if they do: until the window ends or, if nothing is left, until a unit fits
}

// Compiled is a limit as its family decides by it.
type Compiled interface {
	// Decide makes s what it is at the instant now, which is no earlier, and adds n units if they fit.
	// It is the only arithmetic of a decision. log has the earlier takings of sliding logs.
	Decide(s Used, n, now int64, log Entries) (after Used, told Told, fits bool)

	// Charge adds up to n units to s, a state as of now with so many in use, whether they fit or not,
	// and returns how many. The key then owes at most the maximum.
	Charge(s Used, n, inUse, now int64) (Used, int64)

	// FreshAt returns the instant at which s equals the state of a key that has used nothing.
	FreshAt(s Used) int64

	// Refund returns units that a taking has put into s, as far as the key then has at least as much
	// in use now as if they had never been taken. In doubt it returns none. Of a ban this holds until
	// the period ends: a refund of the taking that began the period leaves its start, so units taken
	// later leave with it, sooner than in a period that they had begun.
	Refund(s Used, of Refund, log Entries) Used

	// Inherit returns what s, which is fresh, is for a key that may have had so many units in use for
	// an unknown time. ok is false if Charge does the same.
	Inherit(s Used, units int64) (of Used, ok bool)

	numbers() *Numbers
}

// Refund is what a taking has not cost in the end.
type Refund struct {
	Taken, Final int64
	At           int64 // when it was taken
	Now          int64
	Ring         *Ring // of a bucket that remembers levels; nil: it does not
}

// Entries are the earlier takings of sliding logs. A list is linked by the numbers of its entries,
// from the oldest on; 0 ends it.
type Entries interface {
	Entry(i uint32) (at, units int64, next uint32)
	SetUnits(i uint32, units int64)
}

// Numbers are what the arithmetic of every family needs of a limit.
type Numbers struct {
	Given  limits.Limit
	Max    int64 // the most units that fit at one instant
	Period int64

	algorithm.Traits // a Ring may remember the levels of one that drains

	form [2]int64 // of one algorithm, states mean the same under limits with equal forms
	p, q int64    // one unit comes with every p/q, in lowest terms
	unit span     // p/q
}

// families makes a limit of each algorithm out of its numbers.
var families = [...]func(Numbers) Compiled{
	limits.AlgorithmTokenBucket:    newBucket,
	limits.AlgorithmLeakyBucket:    newBucket,
	limits.AlgorithmLeakyQueue:     newBucket,
	limits.AlgorithmFixedWindow:    newFixedWindow,
	limits.AlgorithmSlidingWindow:  newSlidingWindow,
	limits.AlgorithmSlidingLog:     newSlidingLog,
	limits.AlgorithmAnchoredWindow: newAnchoredWindow,
	limits.AlgorithmConcurrent:     newConcurrent,
	limits.AlgorithmBan:            newBan,
	limits.AlgorithmCalendar:       newCalendar,
}

// Compile compiles a legal limit.
func Compile(given limits.Limit) (Compiled, Numbers) {
	l := Numbers{
		Given: given, Max: given.Burst(), Period: given.Rate().Period.Microseconds(),
		Traits: algorithm.Of(given.Algorithm()).Traits,
	}
	if units := given.Rate().Units; units > 0 { // a concurrency limit has no rate
		g := arith.GCD(units, l.Period)
		l.p, l.q = l.Period/g, units/g
		l.unit = span{l.p / l.q, l.p % l.q}
	}
	l.form = [2]int64{l.Period}
	compiled := families[given.Algorithm()](l)
	return compiled, *compiled.numbers()
}

func (l *Numbers) numbers() *Numbers { return l }

// Inherit is the default: Charge does the same.
func (*Numbers) Inherit(Used, int64) (Used, bool) { return Used{}, false }

// Carries reports whether a state that was written under from means the same under l.
func (l *Numbers) Carries(from *Numbers) bool {
	return l.Given.Algorithm() == from.Given.Algorithm() && l.form == from.form
}

// Size returns a number that is larger the more a state has used, and 0 if that is nothing. It is
// compared, not counted.
func (l *Numbers) Size(s Used) int64 {
	switch {
	case l.Lists:
		return s.Sum()
	case l.Bans:
		return s.B
	}
	return s.A + s.B
}

// Describe sets d to the decision on n units. It leaves Delay, Ticket and At to the store.
func (l *Numbers) Describe(d *limits.Decision, n int64, t Told, fits bool) {
	d.Allowed = fits
	d.Source, d.Transient = limits.SourcePrimary, false
	d.Remaining = max(0, l.Max-t.InUse)
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(t.Reset)
	switch {
	case !fits:
		d.RetryAfter = limits.Never
		if n <= l.Max || l.Bans {
			d.RetryAfter = arith.Wait(t.Wait)
		}
		d.EffectiveWindow = d.RetryAfter
	case l.Ends || d.Remaining == 0:
		d.EffectiveWindow = arith.Wait(t.Wait)
	default:
		d.EffectiveWindow = arith.Wait(l.drain(d.Remaining).ceil())
	}
	if l.Held {
		d.EffectiveWindow = limits.Never
	}
}
