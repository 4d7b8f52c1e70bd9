package limits

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unique"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
	"github.com/weir-go/weir/internal/ground/calendar"
)

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

// Calendar counts in periods of the calendar: a plan's 10,000 requests a month are Calendar(10_000,
// Month). A period begins at midnight in its time zone, so days last 23 or 25 hours where clocks
// change. Like [FixedWindow], it may allow twice its units within a short time around the end of a
// period.
//
// If a request costs more than it took, its period may pass units on to the next period, but no
// further.
func Calendar(units int64, period Period) Limit {
	p := Period(calendar.Text(calendar.Split(string(period))))
	return Limit{AlgorithmCalendar, Rate{units, calendar.Length(string(p))}, units, unique.Make(p)}
}

// Distinct counts the different values of a key within a period: the user names that an address
// tries, or the addresses that use an API key. A request with a value that the key has had within
// the period is allowed and costs nothing. A new value takes a unit if one is left.
//
// A value leaves one period after the last allowed request that had it. So no interval of that
// length has more different values than the limit has units, and a client that keeps using two
// values keeps both. A denied request changes nothing: its value stays new, and no value stays
// longer. A backend stores at most 1,000 values of a key.
//
// core.Rule.Value, or Charge.Value of package backends as a number, is the value of a request. A
// cost above 1 counts as 1.
func Distinct(rate Rate) Limit {
	return Limit{algorithm: AlgorithmDistinct, rate: rate, burst: rate.Units}
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

// Period returns the period of a calendar limit, and "" for other limits.
func (l Limit) Period() Period {
	if l.algorithm != AlgorithmCalendar {
		return ""
	}
	return l.period.Value()
}

// Window returns the window that contains an instant. The end belongs to the next window. ok is
// true for a legal [FixedWindow], [SlidingWindow] or [Calendar] limit: all its keys have the same
// windows.
func (l Limit) Window(at time.Time) (start, end time.Time, ok bool) {
	switch l.algorithm {
	case AlgorithmFixedWindow, AlgorithmSlidingWindow:
		period := l.rate.Period.Microseconds()
		if period <= 0 {
			return start, end, false
		}
		us := at.UnixMicro()
		into := us % period
		if into < 0 { // before 1970
			into += period
		}
		return time.UnixMicro(us - into), time.UnixMicro(us - into + period), true
	case AlgorithmCalendar:
		c, err := calendar.Of(string(l.Period()))
		if err != nil {
			return start, end, false
		}
		p := c.At(at.UnixMicro())
		return time.UnixMicro(p.Start), time.UnixMicro(p.End), true
	}
	return start, end, false
}

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
		errs = append(errs, l.Period().validate())
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

// String returns a text that [Parse] reads as an equal limit, such as "token-bucket 100/1m burst
// 20".
func (l Limit) String() string {
	if l == (Limit{}) {
		return "limit not set"
	}
	switch l.algorithm {
	case AlgorithmConcurrent:
		return fmt.Sprintf("%v %d", l.algorithm, l.burst)
	case AlgorithmCalendar:
		return fmt.Sprintf("%v %d/%s", l.algorithm, l.rate.Units, l.Period())
	}
	s := fmt.Sprintf("%v %d/%s", l.algorithm, l.rate.Units, shortDuration(l.rate.Period))
	switch {
	case l.algorithm.HasBurst():
		s += fmt.Sprintf(" burst %d", l.burst)
	case l.algorithm == AlgorithmBan:
		s += " for " + shortDuration(l.Lasting())
	}
	return s
}

// MarshalText implements [encoding.TextMarshaler] by [Limit.String]. It fails if l is not legal.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	return []byte(l.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] by [Parse], so a limit can stand in a flag,
// in YAML or in JSON.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}

// shortDuration is d.String without zero minutes and seconds at the end; whole days become "7d".
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if short, ok := strings.CutSuffix(s, "m0s"); ok {
		s = short + "m"
	}
	if short, ok := strings.CutSuffix(s, "h0m"); ok {
		s = short + "h"
	}
	return s
}
