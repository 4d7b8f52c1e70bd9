// Package family is the arithmetic of each algorithm on the state of a key. Its functions are pure:
// they take a state by value and return the next one. They have no clock, no lock and no store;
// package memory stores the states.
//
// All times are in microseconds. Instants count from the Unix epoch.
package family

import (
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/calendar"
	"github.com/weir-go/weir/limits"
)

// Used is the state of a key. Each family gives the numbers a meaning:
//
//	                 At                   A                      B
//	bucket           last taking          level, whole µs        level, fraction
//	sliding window   start of the window  units in it            units in the one before
//	fixed window     start of the window  units in it            units that the next one owes
//	anchored window  start of the window  units in it            bit 0: each taking moves the start;
//	                                                             above: units that the next one owes
//	sliding log      last taking          earlier takings        see Log
//	distinct         as a sliding log, with one unit for each value
//	calendar         start of the period  units in it            units that the next one owes
//	ban              start of the period  end of the ban;        units in it
//	                                      0: not banned;
//	                                      below 0: −inherited units
//	growing ban      start of the period  end of the last ban    lower bits: units in it;
//	                                      of a row; 0: no row;   upper bits: bans of the row
//	                                      below 0: as in a ban
//	concurrency                           units held
//
// The zero value has used nothing. It has four fields, since the compiler keeps no larger struct in
// registers. Of B a store keeps 32 bits. In Redis numbers are 0 or more, and below 2⁵³.
type Used struct {
	At, A, B int64
	Serial   uint16 // set by a store; a family sets it to 0 when it begins a new state
}

// Told is what a family says on a decision besides its answer.
type Told struct {
	InUse int64 // units in use after the decision; more than the maximum if the key owes
	Reset int64 // the wait until the state is fresh

	// The wait until the units fit. If they fit: the wait until the window ends (Traits.Ends) or,
	// without windows, until one more unit fits.
	Wait int64
}

// Compiled is a limit, compiled for its family.
type Compiled interface {
	// Decide advances s to the instant now, which is not before s.At, and adds n units if they fit.
	// It is the only arithmetic of a decision. value is that of the charge, for families that count
	// different values. list stores the lists of a [Lister]; Decide changes none.
	Decide(s Used, n, now int64, value uint64, list Entries) (after Used, told Told, fits bool)

	// Charge adds up to n units, whether they fit or not, and returns how many it added. s is a
	// state as of now, with inUse units in use. The key then owes at most the maximum.
	Charge(s Used, n, inUse, now int64) (Used, int64)

	// FreshAt returns the instant at which s becomes fresh.
	FreshAt(s Used) int64

	// Refund takes units of a taking out of s. Afterwards at least as much is in use as if the
	// units had never been taken; in doubt it takes out none. For a ban this holds until the period
	// ends: the refund of the taking that began a period does not move its start, so later units
	// leave with the period, earlier than in one that they had begun.
	// A Lister changes its list, too.
	Refund(s Used, of Refund, list Entries) Used

	// Inherit returns the state of a key that may have units in use since an unknown instant. s is
	// fresh, as of now. ok is false if Charge does the same.
	Inherit(s Used, units int64) (inherited Used, ok bool)

	// Plain returns s, as of now, as the first algorithm of the kind would have written it. Adopt
	// returns what Plain of another algorithm of the kind has returned. So a state that is charged
	// under another limit of its kind keeps what that can read.
	Plain(s Used, now int64) Used
	Adopt(s Used) Used

	// Bequeath returns the units that a key inherits if the key of s, as of now, was displaced, and
	// until when. ok is false if these are all units of s, until it is fresh.
	Bequeath(s Used) (units, until int64, ok bool)

	// Scripted returns the numbers by which scripts in Redis know the limit, beside its maximum: P,
	// Q and any further ones. See state.lua.
	Scripted() []int64

	// Replied returns the state whose numbers a script has replied, at least two of them. period is
	// that of the state in a calendar, and zero for other limits.
	Replied(numbers []int64) (s Used, period calendar.Period)

	numbers() *Numbers
}

// Refund describes a taking that cost less than it took: Taken − Final units go back.
type Refund struct {
	Taken, Final int64
	At           int64 // the instant of the taking
	Now          int64
	Value        uint64
	Ring         *Ring // the levels of the bucket; nil: they are unknown
}

// Numbers is what every family needs of a limit.
type Numbers struct {
	Given limits.Limit
	window
	rate
	algorithm.Traits // of the algorithm

	scale [2]int64 // limits of one algorithm and scale read a state alike
}

// families has the constructor of each algorithm. The rows of package algorithm cannot: package
// limits reads them, and a constructor takes a limit.
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
	limits.AlgorithmDistinct:       newDistinct,
	limits.AlgorithmGrowingBan:     newGrowingBan,
}

// Compile compiles a legal limit.
func Compile(given limits.Limit) (Compiled, Numbers) {
	l := Numbers{
		Given:  given,
		window: window{given.Burst(), given.Rate().Period.Microseconds()},
		Traits: algorithm.Of(given.Algorithm()).Traits,
	}
	if units := given.Rate().Units; units > 0 { // a concurrency limit has no rate
		l.rate = newRate(units, l.Period)
	}
	l.scale = [2]int64{l.Period}
	compiled := families[given.Algorithm()](l)
	return compiled, *compiled.numbers()
}

func (l *Numbers) numbers() *Numbers { return l }

// Inherit is the default: Charge does the same.
func (*Numbers) Inherit(Used, int64) (Used, bool) { return Used{}, false }

// Bequeath is the default: all units, until the state is fresh.
func (*Numbers) Bequeath(Used) (units, until int64, ok bool) { return 0, 0, false }

// Plain and Adopt are those of a kind with one algorithm.
func (*Numbers) Plain(s Used, _ int64) Used { return s }
func (*Numbers) Adopt(s Used) Used          { return s }

// Scripted is the default: the period, and the units in it.
func (l *Numbers) Scripted() []int64 { return []int64{l.Period, l.Given.Rate().Units} }

// Replied is the default: At, A, and B if there is a third number.
func (*Numbers) Replied(numbers []int64) (s Used, _ calendar.Period) {
	s = Used{At: numbers[0], A: numbers[1]}
	if len(numbers) > 2 {
		s.B = numbers[2]
	}
	return s, calendar.Period{}
}

// Carries reports whether l reads a state that was written under from, a limit of its kind, as from
// does.
func (l *Numbers) Carries(from *Numbers) bool {
	if l.Kind != algorithm.Rates {
		return l.Kind == from.Kind
	}
	return l.Given.Algorithm() == from.Given.Algorithm() && l.scale == from.scale
}

// Size returns a number that grows with what a state has used, and 0 if that is nothing. It has no
// unit: compare it with others of l only.
func (l *Numbers) Size(s Used) int64 {
	switch {
	case l.Lists:
		return Log(s).Sum()
	case l.Bans:
		return s.B
	}
	return s.A + s.B
}

// Describe sets d to the decision on n units, except Delay, Ticket and At, which the store sets.
func (l *Numbers) Describe(d *limits.Decision, n int64, t Told, fits bool) {
	d.Allowed = fits
	d.Source, d.Transient = limits.SourcePrimary, false
	d.Remaining = max(0, l.Max-t.InUse)
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(t.Reset)
	switch {
	case !fits:
		d.RetryAfter = limits.Never
		if n <= l.Max || l.Bans || l.Values {
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

// Queued returns how long a request of n units waits for its turn in a leaky queue. s is the state
// after its taking. For other algorithms it returns 0.
func (l *Numbers) Queued(s Used, n int64) time.Duration {
	if !l.Queues {
		return 0
	}
	return arith.Wait(l.minus(levelOf(s), l.drain(n)).ceil())
}
