package limitstest

import (
	"math/big"
	"math/rand/v2"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// algorithm is what the suite knows of one algorithm. It stands in a file of its own, whose init
// registers it: nothing else in the suite lists algorithms.
type algorithm struct {
	id      limits.Algorithm
	counted counted
	model   model

	drains  bool // its units drain continuously, and it has a burst
	windows bool // all units of a window come back when it ends, and what is owed moves on
	aligned bool // all keys have the same windows, and a taking counts in one of them only
	moves   bool // a taking may open a window

	// limit returns a limit of n per period for all cases. Its maximum at one instant is n, and it
	// has no more units in a longer time.
	limit func(rate limits.Rate) limits.Limit

	typical []limits.Limit // common configurations
	extreme []limits.Limit // the largest and smallest legal limits, and limits with fractions
	illegal map[string]limits.Limit

	// random returns a limit with some of the numbers. It may be illegal.
	random func(random *rand.Rand, rate limits.Rate, burst int64) limits.Limit

	// withMaximum returns l with another maximum, to which its state carries over.
	withMaximum func(l limits.Limit, most int64) limits.Limit

	// changed returns a limit to which the state of l carries over. rate is that of l, or the same
	// fraction written otherwise. nil: withMaximum.
	changed func(random *rand.Rand, l limits.Limit, rate limits.Rate, most int64) limits.Limit

	alternating []limits.Limit // that replace each other under live state
	scenes      []scene

	// together has the decisions on four groups under 10 a minute, which take 4, 4, 4 and 2 units.
	// The third is denied. If third is not 0, this charge takes as many of it.
	together [4]limits.Decision
	third    int64

	cases []testCase // that are about this algorithm alone
}

// registered has each algorithm.
var registered = map[limits.Algorithm]*algorithm{}

func register(a algorithm) { registered[a.id] = &a }

// algorithms returns all, in the order of package limits.
func algorithms() []*algorithm {
	var all []*algorithm
	for _, id := range limits.Algorithms() {
		if a := registered[id]; a != nil {
			all = append(all, a)
		}
	}
	return all
}

// algorithmOf returns the algorithm of l. That of the zero limit counts nothing.
func algorithmOf(l limits.Limit) *algorithm {
	if a := registered[l.Algorithm()]; a != nil {
		return a
	}
	return &algorithm{model: none{}}
}

// limitsOf returns the limits that each algorithm has of some sort.
func limitsOf(sort func(*algorithm) []limits.Limit) []limits.Limit {
	var all []limits.Limit
	for _, a := range algorithms() {
		all = append(all, sort(a)...)
	}
	return all
}

func typicalLimits() []limits.Limit {
	return limitsOf(func(a *algorithm) []limits.Limit { return a.typical })
}

func extremeLimits() []limits.Limit {
	return limitsOf(func(a *algorithm) []limits.Limit { return a.extreme })
}

// everyAlgorithm returns a limit of n per period under each algorithm: see algorithm.limit.
func everyAlgorithm(rate limits.Rate) []limits.Limit {
	return limitsOf(func(a *algorithm) []limits.Limit { return []limits.Limit{a.limit(rate)} })
}

// everyKind returns a limit of n per period of each kind of counting.
func everyKind(rate limits.Rate) []limits.Limit {
	seen := map[counted]bool{}
	return limitsOf(func(a *algorithm) []limits.Limit {
		if a.id != plain(rate).Algorithm() && a.counted == unitsOfRates || seen[a.counted] {
			return nil
		}
		seen[a.counted] = true
		return []limits.Limit{a.limit(rate)}
	})
}

// isRate reports whether units taken under l come back as time passes, and are at most the maximum.
func isRate(l limits.Limit) bool { return countedBy(l) == unitsOfRates }

// isBucket reports whether units of l drain continuously.
func isBucket(l limits.Limit) bool { return algorithmOf(l).drains }

// byClock reports whether all keys of l have the same windows, and a taking counts in one window
// only.
func byClock(l limits.Limit) bool { return algorithmOf(l).aligned }

// hasWindows reports whether l counts in windows at whose end all units come back.
func hasWindows(l limits.Limit) bool { return algorithmOf(l).windows }

// countedBy returns what a limit counts.
func countedBy(l limits.Limit) counted { return algorithmOf(l).counted }

// model is the definition of an algorithm, by the slowest and plainest means. Its methods get a
// usage of its own limits; x is an instant that is not before u.at.
type model interface {
	// fresh returns the usage of a key that was never charged.
	fresh(l limits.Limit, now int64) usage

	inUse(u usage, x int64) int64
	freshAt(u usage) int64
	plus(u usage, x, n int64) usage
	wait(u usage, x, n int64) int64
	turned(u usage, x int64) usage

	// decide decides a charge at x, when the clock shows now. It takes units only if taking.
	decide(u usage, c backends.Charge, x, now int64, taking bool) (limits.Decision, usage)

	// window returns the EffectiveWindow at x of u, which has units left.
	window(u usage, x, now, left int64) int64

	// sameCounting reports whether b can use a usage of a as it is.
	sameCounting(a, b limits.Limit) bool

	// under returns u as l, which counts the same, finds it.
	under(u usage, l limits.Limit, x int64) usage

	// stepBack returns the longest step back of the clock, in microseconds, at which it stops.
	stepBack(l limits.Limit) int64

	// rebased returns u after a longer step back. rebasedBy is that by a charge of l, which counts
	// otherwise.
	rebased(u usage, now int64) usage
	rebasedBy(u usage, l limits.Limit, now int64) usage

	// again repeats an event of a history. owing charges units above an estimate, of which there
	// may be mayOwe.
	again(u usage, e event) usage
	owing(u usage, x, n int64) usage
	mayOwe(u usage, x int64) int64

	// refundable returns how many units of the i-th event a backend must return when the charge
	// ends, and how many it may. returned returns u after a return of that event at now.
	refundable(u usage, i int, e backends.Ending, x int64) (least, most int64)
	returned(u usage, i int, units *big.Rat, now int64) usage

	// untilOne bounds the wait for one unit of a key that has used all.
	untilOne(l limits.Limit, now int64) int64

	// begun returns how many units may have come with windows that begin from one instant to
	// another, and whether units drain meanwhile.
	begun(l limits.Limit, from, to int64) (units int64, drains bool)
}

// rates has the definitions that most algorithms share.
type rates struct{}

func (rates) fresh(l limits.Limit, now int64) usage            { return usage{limit: l, at: now} }
func (rates) turned(u usage, _ int64) usage                    { return u }
func (rates) owing(u usage, x, n int64) usage                  { return u.plus(x, n) }
func (rates) untilOne(l limits.Limit, _ int64) int64           { return micros(l) }
func (rates) begun(limits.Limit, int64, int64) (int64, bool)   { return 0, true }
func (rates) rebasedBy(u usage, _ limits.Limit, n int64) usage { return u.rebased(n) }

func (rates) stepBack(l limits.Limit) int64 {
	return max(sec.Microseconds(), micros(l))
}

func (rates) under(u usage, l limits.Limit, _ int64) usage {
	u.limit = l
	return u
}

func (rates) sameCounting(a, b limits.Limit) bool {
	return micros(a) == micros(b) && a.Period() == b.Period()
}

// rebased counts units as taken now. What a window owes, it owes on.
func (rates) rebased(u usage, now int64) usage { return u.startingWith(u.inUse(u.at), now) }

func (rates) returned(u usage, i int, units *big.Rat, _ int64) usage { return u.without(i, units) }

// startingWith returns a usage of n units that count as taken now.
func (u usage) startingWith(n, now int64) usage {
	back := fresh(u.limit, now)
	if n > 0 {
		back = back.plus(now, n)
	}
	back.debt, back.change = u.debt, u.change
	return back
}

func (rates) again(u usage, e event) usage {
	if e.extra {
		return u.owing(e.at, floor(e.units))
	}
	return u.plus(e.at, floor(e.units))
}

func (rates) mayOwe(u usage, x int64) int64 { return max(0, 2*u.limit.Burst()-u.inUse(x)) }

// wait tries instants until it finds the first one at which n units fit.
func (rates) wait(u usage, x, n int64) int64 {
	denied, allowed := int64(0), u.freshAt()-x
	for allowed-denied > 1 {
		middle := denied + (allowed-denied)/2
		if u.inUse(x+middle)+n <= u.limit.Burst() {
			allowed = middle
		} else {
			denied = middle
		}
	}
	return allowed
}

func (rates) window(u usage, x, now, left int64) int64 {
	if left == 0 {
		return x - now + u.wait(x, 1)
	}
	return ceil(ratio(left, u.limit.Rate().Units, micros(u.limit)))
}

func (rates) decide(found usage, c backends.Charge, x, now int64,
	taking bool) (limits.Decision, usage) {
	l, most := c.Limit, c.Limit.Burst()
	step := x - now // how far the clock has stepped back: waits are longer by it
	found = found.turned(x)
	inUse := found.inUse(x)

	d := limits.Decision{At: now}
	d.Allowed = c.Cost == 0 || c.Cost <= most && inUse+c.Cost <= most
	after := found
	if d.Allowed && taking && c.Cost > 0 {
		after = found.plus(x, c.Cost)
		if l.Algorithm().Delays() {
			d.Delay = duration(step + after.drainTime(found.levelAt(x)))
		}
	}
	d.Remaining = max(0, most-after.inUse(x))
	if freshAt := after.freshAt(); freshAt > x {
		d.ResetAfter = duration(freshAt - now)
	}
	switch {
	case c.Cost > most:
		d.RetryAfter = limits.Never
	case !d.Allowed:
		d.RetryAfter = duration(step + found.wait(x, c.Cost))
	}
	if d.EffectiveWindow = d.RetryAfter; d.Allowed {
		d.EffectiveWindow = duration(algorithmOf(l).model.window(after, x, now, d.Remaining))
	}
	return d, after
}

// none is the model of the zero limit, under which nothing was taken.
type none struct{ rates }

func (none) inUse(usage, int64) int64                                          { return 0 }
func (none) freshAt(u usage) int64                                             { return u.at }
func (none) plus(u usage, _, _ int64) usage                                    { return u }
func (none) stepBack(limits.Limit) int64                                       { return sec.Microseconds() }
func (none) refundable(usage, int, backends.Ending, int64) (least, most int64) { return 0, 0 }
