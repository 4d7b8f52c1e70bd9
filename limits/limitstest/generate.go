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

// randomLimit returns any legal limit: a quarter typical, a quarter extreme.
func randomLimit(random *rand.Rand) limits.Limit {
	switch random.IntN(4) {
	case 0:
		return pick(random, typicalLimits())
	case 1:
		return pick(random, extremeLimits())
	}
	for {
		rate := limits.Per(upTo(random, 1_000_000_000),
			time.Duration(999+upTo(random, (366*day).Microseconds()-999))*us)
		burst := upTo(random, 1_000_000_000)
		limit := pick(random, algorithms()).random(random, rate, burst)
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
	a := algorithmOf(l)
	changed := a.withMaximum(l, most)
	if a.changed != nil {
		changed = a.changed(random, l, rate, most)
	}
	if changed.Validate() != nil {
		return l
	}
	return changed
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
	switch random.IntN(14) {
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
	}
	return 0
}

// pick returns one of choices.
func pick[T any](random *rand.Rand, choices []T) T { return choices[random.IntN(len(choices))] }

// upTo returns a number from 1 to most. All orders of magnitude are equally likely.
func upTo(random *rand.Rand, most int64) int64 {
	n := int64(math.Exp(random.Float64() * math.Log(float64(most)+1)))
	return max(1, min(n, most))
}
