package limits

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
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

// checkPeriod reports a period that is not legal.
func (r Rate) checkPeriod() error {
	switch p := r.Period; {
	case p <= 0:
		return fmt.Errorf("period must be positive (got %v)", p)
	case p < minPeriod || p > maxPeriod:
		return fmt.Errorf("period must be 1ms to 8784h (got %v)", p)
	case p%time.Microsecond != 0:
		return fmt.Errorf("period must be a whole number of microseconds (got %v)", p)
	}
	return nil
}

const (
	maxUnits  = algorithm.MaxUnits
	minPeriod = time.Millisecond
	maxPeriod = 366 * 24 * time.Hour
)
