package backendtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testrun"
)

// seed is where random cases start; a failure prints it.
func (h Harness) seed(t testing.TB) uint64 {
	t.Helper()
	if h.Seed != 0 {
		return h.Seed
	}
	return testrun.Seed(t)
}

// typicalLimits are what people configure.
var typicalLimits = []core.Limit{
	core.TokenBucket(core.PerSecond(10), 20),
	core.TokenBucket(core.PerMinute(100), 20),
	core.TokenBucket(core.PerHour(5000), 100),
	core.LeakyBucket(core.PerSecond(100), 10),
	core.LeakyQueue(core.PerSecond(5), 10),
	core.FixedWindow(core.PerMinute(60)),
	core.FixedWindow(core.PerDay(1000)),
	core.SlidingWindow(core.PerMinute(100)),
	core.SlidingWindow(core.PerSecond(5)),
	core.SlidingLog(core.PerMinute(10)),
	core.SlidingLog(core.Per(3, 5*mins)),
	core.AnchoredWindow(core.PerHour(5000)),
	core.AnchoredWindow(core.PerMinute(10)),
	core.Concurrent(20),
	core.Ban(core.Per(10, 10*mins), hour),
}

// extremeLimits are at the edges of what is legal, or do not come out even.
var extremeLimits = []core.Limit{
	core.TokenBucket(core.Per(1_000_000_000, 1*ms), 1_000_000_000),
	core.TokenBucket(core.Per(1_000_000_000, 366*day), 1_000_000_000),
	core.TokenBucket(core.Per(1, 3_155_760*us), 1_000_000_000),
	core.TokenBucket(core.Per(1, 8766*hour), 100),
	core.LeakyBucket(core.Per(1, 366*day), 1),
	core.LeakyBucket(core.Per(7, 3*ms), 10),
	core.LeakyQueue(core.Per(999_999_937, 86_399_999_999*us), 1_000_000_000),
	core.LeakyQueue(core.Per(1_000_000_000, 31_622_399_999_999*us), 999_999_999),
	core.LeakyQueue(core.Per(3, 1*ms), 1),
	core.FixedWindow(core.Per(1_000_000_000, 1*ms)),
	core.FixedWindow(core.Per(1, 366*day)),
	core.FixedWindow(core.Per(13, 1001*us)),
	core.SlidingWindow(core.Per(1_000_000_000, 366*day)),
	core.SlidingWindow(core.Per(999_999_937, 86_399_999_999*us)),
	core.SlidingWindow(core.Per(1_000_000_000, 1*ms)),
	core.SlidingWindow(core.Per(7, 3*ms)),
	core.SlidingWindow(core.Per(1, 1*ms)),
	core.SlidingLog(core.Per(10_000, 1*ms)),
	core.SlidingLog(core.Per(10_000, 366*day)),
	core.SlidingLog(core.Per(1, 1*ms)),
	core.AnchoredWindow(core.Per(1_000_000_000, 366*day)),
	core.AnchoredWindow(core.Per(13, 1001*us)),
	core.AnchoredWindow(core.Per(1, 1*ms)),
	core.Concurrent(1),
	core.Concurrent(100_000),
	core.Ban(core.Per(1_000_000_000, 366*day), 1*ms),
	core.Ban(core.Per(1, 1*ms), 366*day),
	core.Ban(core.Per(7, 1001*us), 1003*us),
}

// randomLimit is any legal limit; common ones and extremes are as likely as
// all the rest.
func randomLimit(random *rand.Rand) core.Limit {
	switch random.IntN(4) {
	case 0:
		return typicalLimits[random.IntN(len(typicalLimits))]
	case 1:
		return extremeLimits[random.IntN(len(extremeLimits))]
	}
	for {
		rate := core.Per(upTo(random, 1_000_000_000), time.Duration(999+upTo(random, (366*day).Microseconds()-999))*us)
		burst := upTo(random, 1_000_000_000)
		limit := core.Limit{}
		switch random.IntN(9) {
		case 0:
			limit = core.TokenBucket(rate, burst)
		case 1:
			limit = core.LeakyBucket(rate, burst)
		case 2:
			limit = core.LeakyQueue(rate, burst)
		case 3:
			limit = core.FixedWindow(rate)
		case 4:
			limit = core.SlidingWindow(rate)
		case 5:
			rate.Units = upTo(random, 10_000)
			limit = core.SlidingLog(rate)
		case 6:
			limit = core.AnchoredWindow(rate)
		case 7:
			limit = core.Concurrent(upTo(random, 100_000))
		case 8:
			limit = core.Ban(rate, duration(999+upTo(random, (366*day).Microseconds()-999)))
		}
		if limit.Validate() == nil {
			return limit
		}
	}
}

// changedLimit is a limit that replaces l under live state: in one of
// three cases the same but for its maximum.
func changedLimit(random *rand.Rand, l core.Limit) core.Limit {
	if random.IntN(3) > 0 {
		return randomLimit(random)
	}
	most, rate := upTo(random, 2*l.Burst()), l.Rate()
	if times := upTo(random, 4); rate.Units*times <= 1_000_000_000 && rate.Period*time.Duration(times) <= 366*day {
		rate.Units, rate.Period = rate.Units*times, rate.Period*time.Duration(times) // as a fraction, the same
	}
	changed := l
	switch l.Algorithm() {
	case core.AlgorithmTokenBucket:
		changed = core.TokenBucket(rate, most)
	case core.AlgorithmLeakyBucket:
		changed = core.LeakyBucket(rate, most)
	case core.AlgorithmLeakyQueue:
		changed = core.LeakyQueue(rate, most)
	case core.AlgorithmFixedWindow:
		changed = core.FixedWindow(core.Per(most, l.Rate().Period))
	case core.AlgorithmSlidingWindow:
		changed = core.SlidingWindow(core.Per(most, l.Rate().Period))
	case core.AlgorithmSlidingLog:
		changed = core.SlidingLog(core.Per(most, l.Rate().Period))
	case core.AlgorithmAnchoredWindow:
		changed = core.AnchoredWindow(core.Per(most, l.Rate().Period))
	case core.AlgorithmConcurrent:
		changed = core.Concurrent(most)
	case core.AlgorithmBan:
		changed = core.Ban(rate, l.Lasting())
		if random.IntN(2) == 0 {
			changed = core.Ban(core.Per(most, l.Rate().Period), l.Lasting())
		}
	}
	if changed.Validate() != nil {
		return l
	}
	return changed
}

// randomCost is what a request costs of l after a decision like last.
func randomCost(random *rand.Rand, l core.Limit, last core.Decision) int64 {
	if l.Algorithm() == core.AlgorithmConcurrent {
		return [...]int64{0, 1, 1, 1, 2, upTo(random, 64), min(64, last.Remaining), min(64, last.Remaining+1), 64}[random.IntN(9)]
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
	return [...]int64{l.Burst() + 1, 1_000_000_001, math.MaxInt64, math.MaxInt64 - 1, 1 << 32, 1 << 53}[random.IntN(6)]
}

// randomAdvance is how far the clock moves before a charge of l, if the last
// decision on it was last. It goes to where something is about to happen.
func randomAdvance(random *rand.Rand, l core.Limit, now int64, last core.Decision) int64 {
	off := random.Int64N(3) - 1
	p := max(1, micros(l))
	units := max(1, l.Rate().Units)
	switch random.IntN(14) {
	case 0:
		return 1
	case 1, 2:
		if last.RetryAfter > 0 && last.RetryAfter != core.Never {
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
	}
	return 0
}

// upTo is a number from 1 to most, each order of magnitude as likely as the
// others.
func upTo(random *rand.Rand, most int64) int64 {
	n := int64(math.Exp(random.Float64() * math.Log(float64(most)+1)))
	return max(1, min(n, most))
}
