package limitstest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// seed returns the seed of the random cases. A failure prints it.
func (h Harness) seed(t testing.TB) uint64 {
	t.Helper()
	if h.Seed != 0 {
		return h.Seed
	}
	return testrun.Seed(t)
}

// typicalLimits are common configurations.
var typicalLimits = []limits.Limit{
	limits.TokenBucket(limits.PerSecond(10), 20),
	limits.TokenBucket(limits.PerMinute(100), 20),
	limits.TokenBucket(limits.PerHour(5000), 100),
	limits.LeakyBucket(limits.PerSecond(100), 10),
	limits.LeakyQueue(limits.PerSecond(5), 10),
	limits.FixedWindow(limits.PerMinute(60)),
	limits.FixedWindow(limits.PerDay(1000)),
	limits.SlidingWindow(limits.PerMinute(100)),
	limits.SlidingWindow(limits.PerSecond(5)),
	limits.SlidingLog(limits.PerMinute(10)),
	limits.SlidingLog(limits.Per(3, 5*mins)),
	limits.AnchoredWindow(limits.PerHour(5000)),
	limits.AnchoredWindow(limits.PerMinute(10)),
	limits.Concurrent(20),
	limits.Ban(limits.Per(10, 10*mins), hour),
	limits.Ban(limits.Per(5, 10*mins), hour).Growing(day),
	limits.Ban(limits.Per(2, mins), mins).Growing(5 * mins),
	limits.Calendar(1000, limits.Day),
	limits.Calendar(10_000, limits.Month.From(31)),
	limits.Distinct(limits.Per(5, 10*mins)),
	limits.Distinct(limits.PerDay(10)),
}

// extremeLimits are the largest and smallest legal limits, and limits with fractions.
var extremeLimits = []limits.Limit{
	limits.TokenBucket(limits.Per(1_000_000_000, 1*ms), 1_000_000_000),
	limits.TokenBucket(limits.Per(1_000_000_000, 366*day), 1_000_000_000),
	limits.TokenBucket(limits.Per(1, 3_155_760*us), 1_000_000_000),
	limits.TokenBucket(limits.Per(1, 8766*hour), 100),
	limits.LeakyBucket(limits.Per(1, 366*day), 1),
	limits.LeakyBucket(limits.Per(7, 3*ms), 10),
	limits.LeakyQueue(limits.Per(999_999_937, 86_399_999_999*us), 1_000_000_000),
	limits.LeakyQueue(limits.Per(1_000_000_000, 31_622_399_999_999*us), 999_999_999),
	limits.LeakyQueue(limits.Per(3, 1*ms), 1),
	limits.FixedWindow(limits.Per(1_000_000_000, 1*ms)),
	limits.FixedWindow(limits.Per(1, 366*day)),
	limits.FixedWindow(limits.Per(13, 1001*us)),
	limits.SlidingWindow(limits.Per(1_000_000_000, 366*day)),
	limits.SlidingWindow(limits.Per(999_999_937, 86_399_999_999*us)),
	limits.SlidingWindow(limits.Per(1_000_000_000, 1*ms)),
	limits.SlidingWindow(limits.Per(7, 3*ms)),
	limits.SlidingWindow(limits.Per(1, 1*ms)),
	limits.SlidingLog(limits.Per(10_000, 1*ms)),
	limits.SlidingLog(limits.Per(10_000, 366*day)),
	limits.SlidingLog(limits.Per(1, 1*ms)),
	limits.AnchoredWindow(limits.Per(1_000_000_000, 366*day)),
	limits.AnchoredWindow(limits.Per(13, 1001*us)),
	limits.AnchoredWindow(limits.Per(1, 1*ms)),
	limits.Concurrent(1),
	limits.Concurrent(100_000),
	limits.Ban(limits.Per(1_000_000_000, 366*day), 1*ms),
	limits.Ban(limits.Per(1, 1*ms), 366*day),
	limits.Ban(limits.Per(1, 1*ms), 1*ms).Growing(366 * day),
	limits.Ban(limits.Per(10_000_000, 366*day), 366*day).Growing(366 * day),
	limits.Ban(limits.Per(7, 1001*us), 1003*us),
	limits.Calendar(1_000_000_000, limits.Year.FromDate(time.February, 29)),
	limits.Calendar(1, limits.Day),
	limits.Distinct(limits.Per(1000, 366*day)),
	limits.Distinct(limits.Per(1000, 1*ms)),
	limits.Distinct(limits.Per(1, 1001*us)),
}

// randomLimit returns any legal limit: a quarter typical, a quarter extreme.
func randomLimit(random *rand.Rand) limits.Limit {
	switch random.IntN(4) {
	case 0:
		return typicalLimits[random.IntN(len(typicalLimits))]
	case 1:
		return extremeLimits[random.IntN(len(extremeLimits))]
	}
	for {
		rate := limits.Per(upTo(random, 1_000_000_000),
			time.Duration(999+upTo(random, (366*day).Microseconds()-999))*us)
		burst := upTo(random, 1_000_000_000)
		limit := limits.Limit{}
		switch random.IntN(11) {
		case 0:
			limit = limits.TokenBucket(rate, burst)
		case 1:
			limit = limits.LeakyBucket(rate, burst)
		case 2:
			limit = limits.LeakyQueue(rate, burst)
		case 3:
			limit = limits.FixedWindow(rate)
		case 4:
			limit = limits.SlidingWindow(rate)
		case 5:
			rate.Units = upTo(random, 10_000)
			limit = limits.SlidingLog(rate)
		case 6:
			limit = limits.AnchoredWindow(rate)
		case 7:
			limit = limits.Concurrent(upTo(random, 100_000))
		case 8:
			limit = limits.Ban(rate, duration(999+upTo(random, (366*day).Microseconds()-999)))
			if random.IntN(2) == 0 {
				limit = limit.Growing(duration(upTo(random, (366 * day).Microseconds())))
			}
		case 9:
			limit = limits.Calendar(rate.Units, randomPeriod(random))
		case 10:
			rate.Units = upTo(random, 1000)
			limit = limits.Distinct(rate)
		}
		if limit.Validate() == nil {
			return limit
		}
	}
}

// changedLimit returns a limit that replaces l under live state. One in three differs from l in its
// maximum only.
func changedLimit(random *rand.Rand, l limits.Limit) limits.Limit {
	if random.IntN(3) > 0 {
		return randomLimit(random)
	}
	most, rate := upTo(random, 2*l.Burst()), l.Rate()
	if times := upTo(random, 4); rate.Units*times <= 1_000_000_000 &&
		rate.Period*time.Duration(times) <= 366*day {
		rate.Units, rate.Period = rate.Units*times, rate.Period*time.Duration(times) // the same fraction
	}
	changed := l
	switch l.Algorithm() {
	case limits.AlgorithmTokenBucket:
		changed = limits.TokenBucket(rate, most)
	case limits.AlgorithmLeakyBucket:
		changed = limits.LeakyBucket(rate, most)
	case limits.AlgorithmLeakyQueue:
		changed = limits.LeakyQueue(rate, most)
	case limits.AlgorithmFixedWindow:
		changed = limits.FixedWindow(limits.Per(most, l.Rate().Period))
	case limits.AlgorithmSlidingWindow:
		changed = limits.SlidingWindow(limits.Per(most, l.Rate().Period))
	case limits.AlgorithmSlidingLog:
		changed = limits.SlidingLog(limits.Per(most, l.Rate().Period))
	case limits.AlgorithmAnchoredWindow:
		changed = limits.AnchoredWindow(limits.Per(most, l.Rate().Period))
	case limits.AlgorithmCalendar:
		changed = limits.Calendar(most, l.Period())
	case limits.AlgorithmDistinct:
		changed = limits.Distinct(limits.Per(most, rate.Period))
	case limits.AlgorithmConcurrent:
		changed = limits.Concurrent(most)
	case limits.AlgorithmBan:
		changed = limits.Ban(rate, l.Lasting())
		if random.IntN(2) == 0 {
			changed = limits.Ban(limits.Per(most, l.Rate().Period), l.Lasting())
		}
		if random.IntN(2) == 0 {
			changed = changed.Growing(l.Lasting() * time.Duration(upTo(random, 20)))
		}
	case limits.AlgorithmGrowingBan:
		changed = limits.Ban(limits.Per(most, l.Rate().Period), l.Lasting())
		if random.IntN(3) > 0 {
			changed = changed.Growing(l.Lasting() * time.Duration(upTo(random, 20)))
		}
	}
	if changed.Validate() != nil {
		return l
	}
	return changed
}

// randomPeriod returns any period of the calendar, in a zone whose data the program has.
func randomPeriod(random *rand.Rand) limits.Period {
	period := [...]limits.Period{
		limits.Day, limits.Week, limits.Month, limits.Year,
		limits.Week.From(1 + random.IntN(7)),
		limits.Month.From(1 + random.IntN(31)),
		limits.Year.FromDate(time.Month(1+random.IntN(12)), 1+random.IntN(28)),
	}[random.IntN(7)]
	zones := [...]string{"UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu",
		"Australia/Lord_Howe", "America/Sao_Paulo"}
	zoned := period.In(zones[random.IntN(len(zones))])
	if limits.Calendar(1, zoned).Validate() != nil {
		return period
	}
	return zoned
}

// randomCost returns the cost of a request under l, often at an edge of last, the last decision.
func randomCost(random *rand.Rand, l limits.Limit, last limits.Decision) int64 {
	if l.Algorithm().Holds() {
		return [...]int64{0, 1, 1, 1, 2, upTo(random, 64), min(64, last.Remaining),
			min(64, last.Remaining+1), 64}[random.IntN(9)]
	}
	if l.Algorithm().CountsValues() {
		return [...]int64{0, 1, 1, 1, 1, 1, 2, math.MaxInt64}[random.IntN(8)]
	}
	switch random.IntN(12) {
	case 0:
		return 0
	case 1, 2, 3:
		return 1
	case 4:
		return 1 + random.Int64N(5)
	case 5, 6:
		return upTo(random, l.Burst())
	case 7:
		return 1 + random.Int64N(l.Burst())
	case 8:
		return last.Remaining
	case 9:
		return last.Remaining + 1
	case 10:
		return l.Burst()
	}
	return [...]int64{l.Burst() + 1, 1_000_000_001, math.MaxInt64, math.MaxInt64 - 1, 1 << 32,
		1 << 53}[random.IntN(6)]
}

// randomAdvance returns how far the clock moves before a charge of l, often to an instant at which,
// by the last decision, something changes.
func randomAdvance(random *rand.Rand, l limits.Limit, now int64, last limits.Decision) int64 {
	off := random.Int64N(3) - 1
	p := max(1, micros(l))
	units := max(1, l.Rate().Units)
	switch random.IntN(15) {
	case 0:
		return 1
	case 1, 2:
		if last.RetryAfter > 0 && last.RetryAfter != limits.Never {
			return last.At + last.RetryAfter.Microseconds() + off - now
		}
	case 3:
		if last.ResetAfter > 0 {
			return last.At + last.ResetAfter.Microseconds() + off - now
		}
	case 4:
		return last.Delay.Microseconds() + off
	case 5:
		return p - now%p + off
	case 6, 7:
		return upTo(random, 2*p/units+2)
	case 8:
		return random.Int64N(p + 1)
	case 9:
		return upTo(random, (30 * day).Microseconds())
	case 10: // a row of bans ends
		return last.At + (last.ResetAfter + l.Longest()).Microseconds() + off - now
	}
	return 0
}

// upTo returns a number from 1 to most. All orders of magnitude are equally likely.
func upTo(random *rand.Rand, most int64) int64 {
	n := int64(math.Exp(random.Float64() * math.Log(float64(most)+1)))
	return max(1, min(n, most))
}
