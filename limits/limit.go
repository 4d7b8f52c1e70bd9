package limits

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unique"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
)

// Rate is a number of units per period, such as 100 per minute.
type Rate struct {
	Units  int64         // 1 to 1,000,000,000
	Period time.Duration // a whole number of microseconds, 1ms to 8784h (366 days)
}

// PerSecond is the rate of n units per second.
func PerSecond(n int64) Rate { return Rate{n, time.Second} }

// PerMinute is the rate of n units per minute.
func PerMinute(n int64) Rate { return Rate{n, time.Minute} }

// PerHour is the rate of n units per hour.
func PerHour(n int64) Rate { return Rate{n, time.Hour} }

// PerDay is the rate of n units per 24 hours.
func PerDay(n int64) Rate { return Rate{n, 24 * time.Hour} }

// Per is the rate of n units per period: Per(3, 5*time.Minute) is 3 in 5 minutes. It rounds the
// period to whole microseconds.
func Per(n int64, period time.Duration) Rate { return Rate{n, period.Round(time.Microsecond)} }

// Every is the rate of one unit per interval. Every(100*time.Microsecond) is 10 per millisecond, since
// no period is shorter.
func Every(interval time.Duration) Rate {
	n := int64(1)
	for n < maxUnits && interval > 0 && interval < minPeriod {
		n, interval = 10*n, 10*interval
	}
	return Per(n, interval)
}

// RateOf is the rate of so many units per second, such as a [golang.org/x/time/rate.Limit]. It takes the
// fewest whole seconds, up to 1,000, in which that is a whole number of units: 2.5 is 5 in 2 seconds. If
// there are none it rounds. The rate differs from perSecond by less than a millionth of it, and may be
// higher: [Per] is exact. Windows and logs count in periods, so they take [Per].
func RateOf(perSecond float64) Rate {
	for seconds := 1.0; seconds <= 1000; seconds++ {
		units := perSecond * seconds
		if whole := math.Round(units); whole >= 1 && whole <= maxUnits && math.Abs(units-whole) <= 1e-9*units {
			return Per(int64(whole), time.Duration(seconds)*time.Second)
		}
	}
	switch {
	case perSecond >= 1 && perSecond <= maxUnits:
		seconds := 1_000_000.0
		for perSecond*seconds > maxUnits {
			seconds /= 10
		}
		return Per(int64(math.Round(perSecond*seconds)), time.Duration(seconds)*time.Second)
	case perSecond < 1 && perSecond > 1/maxPeriod.Seconds():
		return Per(1, time.Duration(float64(time.Second)/perSecond))
	}
	return Rate{} // which no limit takes
}

// Limit is an algorithm with its rate and burst. It is a comparable value: data
// and no behaviour. The zero Limit is invalid; make one with a constructor or
// with [Parse]. Constructors accept anything: [Limit.Validate] says what
// is wrong, and everything that takes a Limit calls it.
type Limit struct {
	algorithm Algorithm
	rate      Rate                  // zero of a concurrency limit
	burst     int64                 // of a ban: how long it lasts, in microseconds
	period    unique.Handle[Period] // of a calendar limit alone
}

// TokenBucket refills at rate and holds at most burst units, so that a client
// that has been quiet may take burst units at once.
func TokenBucket(rate Rate, burst int64) Limit {
	return Limit{algorithm: AlgorithmTokenBucket, rate: rate, burst: burst}
}

// LeakyBucket drains at rate and holds at most capacity units; what would
// overflow is denied. It is the token bucket's dual and gives the same answers.
func LeakyBucket(rate Rate, capacity int64) Limit {
	return Limit{algorithm: AlgorithmLeakyBucket, rate: rate, burst: capacity}
}

// LeakyQueue drains at rate and holds at most capacity units, and tells every
// allowed request how long to wait for its turn ([Decision.Delay]), so that
// requests start evenly spaced instead of in bursts. Capacity bounds what waits
// under one key; who lets requests wait bounds them all. A request takes its
// slot when it is decided, and keeps it even if its client leaves before its turn.
func LeakyQueue(rate Rate, capacity int64) Limit {
	return Limit{algorithm: AlgorithmLeakyQueue, rate: rate, burst: capacity}
}

// FixedWindow counts in windows that start at whole multiples of the period
// since the Unix epoch, so that a day is a UTC day. Around the turn of a window
// it may allow twice its units within one period.
func FixedWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmFixedWindow, rate: rate, burst: rate.Units}
}

// SlidingWindow weighs the count of the previous window by how much of it still
// overlaps the last period and adds the count of this one. It is the one to
// start with: never more than its units at once, no jump at the turn of a
// window, and a few bytes per key.
//
// It does not know when within a window its requests came. So a client that
// takes all units at the start of a window waits for a whole period, and a
// microsecond, for the next one; and after all units at the end of a window
// come as many again, evenly spread over the period that follows.
func SlidingWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmSlidingWindow, rate: rate, burst: rate.Units}
}

// SlidingLog remembers every allowed request of the last period, so that no
// period of that length, wherever it starts, sees more than its units. It costs
// memory in proportion to the units, of which it takes at most 10,000.
func SlidingLog(rate Rate) Limit {
	return Limit{algorithm: AlgorithmSlidingLog, rate: rate, burst: rate.Units}
}

// AnchoredWindow counts in windows that each key opens for itself: one opens with
// the first request allowed while none is open, lasts the period, and closes.
// Nothing is counted outside, and what is taken within does not move it. A client
// that has nothing left waits for its window to close, which is at most a period.
//
// It is what ulule/limiter does, what INCR with EXPIRE does in Redis, and
// what GitHub's hourly limit is. Most call it a fixed window, too, as they do
// [FixedWindow], whose windows are those of the clock. Like that it may allow
// twice its units within one period: a client can keep all but one unit until the
// end of its window, and use up the next right after it.
func AnchoredWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmAnchoredWindow, rate: rate, burst: rate.Units}
}

// Concurrent allows n units to be held at once, 1 to 100,000, and has no period: a
// request holds its units from its decision to its end (core.Outcome.End). A cost is at most
// 64. No one can know when a unit is released, so the RetryAfter of a denial is a guess,
// one second.
func Concurrent(n int64) Limit {
	return Limit{algorithm: AlgorithmConcurrent, burst: n}
}

// Ban counts the units of admitted requests in periods that each begin with a key's
// first unit, as those of [AnchoredWindow] do. The charge that reaches the number, or
// goes beyond it, is allowed and bans the key: every later charge is denied for as long
// as the ban lasts, even of cost 0. Then the key is fresh. Denied requests count
// nowhere, so they do not prolong a ban. Remaining is how many units there are until the
// ban; a charge of more is allowed.
//
// A ban on failures has a FinalCost that charges failures only, such as one of
// core.OnStatus. To ban clients that go on after another limiter's denials, put the ban in a
// limiter around that one. lasting is 1ms to 366 days, rounded to a microsecond.
//
// A ban counts to 4,294,967,295 units. At that number an ending returns nothing.
func Ban(rate Rate, lasting time.Duration) Limit {
	return Limit{algorithm: AlgorithmBan, rate: rate, burst: lasting.Round(time.Microsecond).Microseconds()}
}

// Algorithm returns how l counts.
func (l Limit) Algorithm() Algorithm { return l.algorithm }

// Rate returns the rate of l, which is zero for a concurrency limit. That of a calendar limit has the
// longest that its period lasts, but for changes of clocks: 24 hours, 7, 31 or 366 days.
func (l Limit) Rate() Rate { return l.rate }

// Burst returns the most units that l ever allows at one instant: the burst or
// capacity of a bucket, the units of a window or log, the number of a concurrency limit
// or ban.
func (l Limit) Burst() int64 {
	if l.algorithm == AlgorithmBan {
		return l.rate.Units
	}
	return l.burst
}

// Lasting returns how long a ban lasts, 0 if l is no ban.
func (l Limit) Lasting() time.Duration {
	if l.algorithm == AlgorithmBan {
		return time.Duration(l.burst) * time.Microsecond
	}
	return 0
}

const (
	maxUnits  = algorithm.MaxUnits
	minPeriod = time.Millisecond
	maxPeriod = 366 * 24 * time.Hour
)

// Validate returns nil if l is legal; otherwise an error that names every
// illegal value and its legal range.
func (l Limit) Validate() error {
	if l.algorithm == 0 {
		return errors.New("limit is not set (make one with a constructor such as SlidingWindow(PerMinute(100)))")
	}
	if int(l.algorithm) >= algorithm.End {
		return fmt.Errorf("unknown algorithm %d", uint8(l.algorithm))
	}
	most := algorithm.Of(l.algorithm).Most
	if l.algorithm == AlgorithmConcurrent {
		if l.burst < 1 || l.burst > most {
			return fmt.Errorf("a concurrency limit must be 1 to %d (got %d)", most, l.burst)
		}
		return nil
	}
	var errs []error
	if l.rate.Units < 1 || l.rate.Units > most {
		errs = append(errs, fmt.Errorf("units of %s must be 1 to %d (got %d)", l.algorithm.one(), most, l.rate.Units))
	}
	switch p := l.rate.Period; {
	case l.algorithm == AlgorithmCalendar:
		errs = append(errs, l.validatePeriod())
	case p <= 0:
		errs = append(errs, fmt.Errorf("period must be positive (got %v)", p))
	case p < minPeriod || p > maxPeriod:
		errs = append(errs, fmt.Errorf("period must be 1ms to 8784h (got %v)", p))
	case p%time.Microsecond != 0:
		errs = append(errs, fmt.Errorf("period must be a whole number of microseconds (got %v)", p))
	}
	if l.algorithm == AlgorithmBan && (l.burst < minPeriod.Microseconds() || l.burst > maxPeriod.Microseconds()) {
		errs = append(errs, fmt.Errorf("a ban must last 1ms to 366 days (8784h) (got %v)", l.Lasting()))
	}
	if l.algorithm.HasBurst() {
		if l.burst < 1 || l.burst > maxUnits {
			errs = append(errs, fmt.Errorf("burst must be 1 to %d (got %d)", maxUnits, l.burst))
		} else if len(errs) == 0 && l.refillsTooSlowly() {
			errs = append(errs, fmt.Errorf("a burst of %d at %d per %s takes over 100 years to refill: lower the burst or raise the rate", l.burst, l.rate.Units, shortDuration(l.rate.Period)))
		}
	}
	return errors.Join(errs...)
}

// refillsTooSlowly reports whether an empty bucket takes over 100 years to fill.
func (l Limit) refillsTooSlowly() bool {
	return arith.ProductExceeds(l.burst, l.rate.Period.Microseconds(), l.rate.Units, bounds.BucketFill)
}

// Share returns l divided among n instances, rounded up: each of n processes
// that count alone then allows about one n-th of what they would share.
// For n below 2 it returns l.
func (l Limit) Share(n int) Limit {
	if n < 2 {
		return l
	}
	by := int64(n)
	l.rate.Units = arith.CeilDiv(l.rate.Units, by)
	if l.algorithm != AlgorithmBan {
		l.burst = arith.CeilDiv(l.burst, by)
	}
	if l.algorithm.HasBurst() && l.refillsTooSlowly() {
		l.burst-- // rounded up, it would take a little over 100 years where the whole took just that
	}
	return l
}

// WithUnits returns l with n units, and its burst or capacity in the same proportion, at least 1. The
// units of a concurrency limit are those held at once. [Limit.Validate] says whether that is legal.
func (l Limit) WithUnits(n int64) Limit {
	traits := algorithm.Of(l.algorithm)
	switch {
	case traits.Held:
		l.burst = n
		return l
	case traits.Drains && l.rate.Units > 0:
		l.burst = max(1, int64(float64(l.burst)*float64(n)/float64(l.rate.Units)+0.5))
	case !traits.Bans:
		l.burst = n
	}
	l.rate.Units = n
	return l
}

// Never is the wait of a request that no wait helps: its cost is above the most that
// the limit ever allows.
const Never time.Duration = math.MaxInt64
