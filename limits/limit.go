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

// Every is the rate of one unit per interval. Every(100*time.Microsecond) is 10 per millisecond,
// since no period is shorter.
func Every(interval time.Duration) Rate {
	n := int64(1)
	for n < maxUnits && interval > 0 && interval < minPeriod {
		n, interval = 10*n, 10*interval
	}
	return Per(n, interval)
}

// RateOf is the rate of perSecond units per second, which may come from a
// [golang.org/x/time/rate.Limit]. Its period is the fewest whole seconds, up to 1,000, in which
// that is a whole number of units: 2.5 is 5 in 2 seconds. If there are none it rounds. The rate
// differs from perSecond by less than a millionth of it, and may be higher; [Per] is exact. For
// windows and logs use [Per], since they count in periods.
func RateOf(perSecond float64) Rate {
	for seconds := 1.0; seconds <= 1000; seconds++ {
		units := perSecond * seconds
		if whole := math.Round(units); whole >= 1 && whole <= maxUnits &&
			math.Abs(units-whole) <= 1e-9*units {
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

// Limit is an algorithm with its rate and burst. It is a comparable value: data without behaviour.
// The zero Limit is not legal; make one with a constructor or with [Parse]. Constructors accept
// every value: [Limit.Validate] reports mistakes, and every function that takes a Limit calls it.
type Limit struct {
	algorithm Algorithm
	rate      Rate                  // zero in a concurrency limit
	burst     int64                 // in a ban: how long it lasts, in microseconds
	period    unique.Handle[Period] // in a calendar limit only
}

// TokenBucket refills at rate and holds at most burst units. So a client that has been quiet may
// take burst units at once.
func TokenBucket(rate Rate, burst int64) Limit {
	return Limit{algorithm: AlgorithmTokenBucket, rate: rate, burst: burst}
}

// LeakyBucket drains at rate and holds at most capacity units. A request that would overflow it is
// denied. It is the token bucket's dual, with the same decisions.
func LeakyBucket(rate Rate, capacity int64) Limit {
	return Limit{algorithm: AlgorithmLeakyBucket, rate: rate, burst: capacity}
}

// LeakyQueue drains at rate and holds at most capacity units. It tells every allowed request how
// long to wait for its turn ([Decision.Delay]), so requests start evenly spaced instead of in
// bursts. Capacity bounds the requests that wait under one key; core.Config.MaxWaiting bounds those
// of all keys. A request takes its slot when it is decided, and keeps it even if its client leaves
// before its turn.
func LeakyQueue(rate Rate, capacity int64) Limit {
	return Limit{algorithm: AlgorithmLeakyQueue, rate: rate, burst: capacity}
}

// FixedWindow counts in windows that start at whole multiples of the period since the Unix epoch,
// so a day is a UTC day. Around the end of a window it may allow twice its units within one period.
func FixedWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmFixedWindow, rate: rate, burst: rate.Units}
}

// SlidingWindow adds the count of this window and the part of the previous window's count that
// still overlaps the last period. Start with this one: it never allows more than its units at once,
// does not jump between windows, and takes a few bytes per key.
//
// It does not know when in a window its requests came. So a client that takes all units at the
// start of a window waits a whole period and a microsecond for the next unit. A client that takes
// all units at the end of a window gets them back evenly over the period that follows.
func SlidingWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmSlidingWindow, rate: rate, burst: rate.Units}
}

// SlidingLog remembers every allowed request of the last period. So no period of that length,
// wherever it starts, has more than its units. It takes memory in proportion to its units, of which
// there are at most 10,000.
func SlidingLog(rate Rate) Limit {
	return Limit{algorithm: AlgorithmSlidingLog, rate: rate, burst: rate.Units}
}

// AnchoredWindow counts in windows that each key opens for itself. A window opens with the first
// request allowed while none is open, and closes after a period. Later requests do not move it. A
// client that has nothing left waits until its window closes, at most a period.
//
// It counts like ulule/limiter, like INCR with EXPIRE in Redis, and like GitHub's hourly limit. It
// is often called a fixed window, as [FixedWindow] is, whose windows follow the clock. Like that,
// it may allow twice its units within one period: a client can keep all but one unit until the end
// of its window, and use up the next window right after.
func AnchoredWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmAnchoredWindow, rate: rate, burst: rate.Units}
}

// Concurrent allows n units to be held at once, 1 to 100,000, and has no period. A request holds
// its units from its decision to its end (core.Outcome.End). A cost is at most 64. The RetryAfter
// of a denial is a guess, one second, since the end of a request is not known.
func Concurrent(n int64) Limit {
	return Limit{algorithm: AlgorithmConcurrent, burst: n}
}

// Ban counts the units of admitted requests in periods that each begin with a key's first unit, as
// those of [AnchoredWindow] do. The charge that reaches or exceeds the number is allowed and bans
// the key: every later charge is denied until the ban ends, even one of cost 0. Then the key is
// fresh. Denied requests are not counted, so they do not prolong a ban. Remaining is the number of
// units until the ban; a charge of more is allowed, and bans.
//
// To ban on failures, set a FinalCost that charges only failures, such as core.OnStatus returns. To
// ban clients that go on after another limiter's denials, put the ban in a limiter around that one.
// lasting is 1ms to 366 days, rounded to a microsecond.
//
// A ban counts up to 4,294,967,295 units. From that number an ending returns nothing.
func Ban(rate Rate, lasting time.Duration) Limit {
	return Limit{algorithm: AlgorithmBan, rate: rate,
		burst: lasting.Round(time.Microsecond).Microseconds()}
}

// Algorithm returns the algorithm of l.
func (l Limit) Algorithm() Algorithm { return l.algorithm }

// Rate returns the rate of l. It is zero for a concurrency limit. For a calendar limit its period
// is the longest one, without changes of clocks: 24 hours, 7, 31 or 366 days.
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

// Lasting returns how long a ban lasts, and 0 for other limits.
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

// Validate returns nil if l is legal. Otherwise its error names every illegal value and the legal
// range.
func (l Limit) Validate() error {
	if l.algorithm == 0 {
		return errors.New("limit is not set (make one with a constructor such as " +
			"SlidingWindow(PerMinute(100)))")
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
		errs = append(errs, fmt.Errorf("units of %s must be 1 to %d (got %d)", l.algorithm.withArticle(),
			most, l.rate.Units))
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
	if l.algorithm == AlgorithmBan &&
		(l.burst < minPeriod.Microseconds() || l.burst > maxPeriod.Microseconds()) {
		errs = append(errs, fmt.Errorf("a ban must last 1ms to 366 days (8784h) (got %v)", l.Lasting()))
	}
	if l.algorithm.HasBurst() {
		if l.burst < 1 || l.burst > maxUnits {
			errs = append(errs, fmt.Errorf("burst must be 1 to %d (got %d)", maxUnits, l.burst))
		} else if len(errs) == 0 && l.refillsTooSlowly() {
			errs = append(errs, fmt.Errorf(
				"a burst of %d at %d per %s takes over 100 years to refill: lower the burst",
				l.burst, l.rate.Units, shortDuration(l.rate.Period)))
		}
	}
	return errors.Join(errs...)
}

// refillsTooSlowly reports whether an empty bucket takes over 100 years to fill.
func (l Limit) refillsTooSlowly() bool {
	return arith.ProductExceeds(l.burst, l.rate.Period.Microseconds(), l.rate.Units, bounds.BucketFill)
}

// Share returns l divided among n instances, rounded up: 100 a minute among 3 is 34 a minute.
// Together, n processes that count alone then allow about what l allows. For n below 2 it returns
// l.
func (l Limit) Share(n int) Limit {
	if n < 2 {
		return l
	}
	instances := int64(n)
	l.rate.Units = arith.CeilDiv(l.rate.Units, instances)
	if l.algorithm != AlgorithmBan {
		l.burst = arith.CeilDiv(l.burst, instances)
	}
	if l.algorithm.HasBurst() && l.refillsTooSlowly() {
		l.burst-- // rounding up may exceed 100 years
	}
	return l
}

// WithUnits returns l with n units, and with its burst or capacity in the same proportion, at least
// 1. The units of a concurrency limit are those held at once. [Limit.Validate] reports whether the
// result is legal.
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

// Never is the wait of a request that no wait helps: it costs more than the limit ever allows.
const Never time.Duration = math.MaxInt64
