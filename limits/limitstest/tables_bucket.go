package limitstest

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// bucketTables are about the token bucket, the leaky bucket and the leaky queue. At q units per p,
// a unit drains in p/q.
var bucketTables = []table{
	{
		name: "a token bucket drains one unit every p over q",
		why: "a token bucket allows what fits, tells the least waits and drains continuously (DESIGN " +
			"5, the table of algorithms)",
		phases: []phase{{limits.TokenBucket(limits.PerSecond(10), 5), []step{ // a unit drains in 100ms
			{0, 1, allowed(4, 100*ms, 400*ms)},
			{0, 3, allowed(1, 400*ms, 100*ms)},
			{0, 2, denied(1, 100*ms, 400*ms)},
			{0, 1, allowed(0, 500*ms, 100*ms)},
			{0, 0, allowed(0, 500*ms, 100*ms)},
			{0, 1, denied(0, 100*ms, 500*ms)},
			{99_999 * us, 1, denied(0, 1*us, 400_001*us)},
			{1 * us, 1, allowed(0, 500*ms, 100*ms)},
			{250 * ms, 0, allowed(2, 250*ms, 200*ms)}, // 2.5 in use
			{0, 3, denied(2, 50*ms, 250*ms)},
			{0, 2, allowed(0, 450*ms, 50*ms)},
			{10 * sec, 6, denied(5, limits.Never, 0)},
			{0, 5, allowed(0, 500*ms, 100*ms)},
			{500*ms - 1*us, 0, allowed(4, 1*us, 400*ms)},
			{1 * us, 0, allowed(5, 0, 500*ms)},
		}}},
	},
	{
		name: "a leaky bucket gives the numbers of a token bucket",
		why: "a leaky bucket polices: the same numbers as a token bucket read as a water level, and " +
			"no delay (DESIGN 5)",
		phases: []phase{{limits.LeakyBucket(limits.PerMinute(4), 2), []step{ // a unit drains in 15s
			{0, 0, allowed(2, 0, 30*sec)},
			{0, 1, allowed(1, 15*sec, 15*sec)},
			{5 * sec, 1, allowed(0, 25*sec, 10*sec)},
			{0, 1, denied(0, 10*sec, 25*sec)},
			{0, 2, denied(0, 25*sec, 25*sec)},
			{10 * sec, 2, denied(1, 15*sec, 15*sec)},
			{0, 1, allowed(0, 30*sec, 15*sec)},
			{1 * hour, 3, denied(2, limits.Never, 0)},
		}}},
	},
	{
		name: "a leaky queue tells each request how long to wait",
		why: "an allowed request waits until the level that it found has drained, so that requests " +
			"start p/q apart; a look waits for nothing (DESIGN 5)",
		phases: []phase{{limits.LeakyQueue(limits.PerSecond(2), 3), []step{ // a unit drains in 500ms
			{0, 1, queued(0, 2, 500*ms, 1*sec)},
			{0, 1, queued(500*ms, 1, 1*sec, 500*ms)},
			{0, 1, queued(1*sec, 0, 1500*ms, 500*ms)},
			{0, 1, denied(0, 500*ms, 1500*ms)},
			{200 * ms, 0, allowed(0, 1300*ms, 300*ms)},
			{0, 1, denied(0, 300*ms, 1300*ms)},
			{300 * ms, 1, queued(1*sec, 0, 1500*ms, 500*ms)},
			{750 * ms, 2, denied(1, 250*ms, 750*ms)},
			{0, 1, queued(750*ms, 0, 1250*ms, 250*ms)},
			{1250 * ms, 3, queued(0, 0, 1500*ms, 500*ms)},
			{1 * day, 2, queued(0, 1, 1*sec, 500*ms)},
			{0, 4, denied(1, limits.Never, 1*sec)},
		}}},
	},
	{
		name: "fractions of a microsecond add up",
		why: "no part of a unit is ever lost or gained by rounding: at 7 per 3ms a unit drains in 428 " +
			"and 4/7 µs, which no float64 can say (DESIGN 5)",
		phases: []phase{{limits.TokenBucket(limits.Per(7, 3*ms), 10), []step{
			{0, 1, allowed(9, 429*us, 3858*us)},
			{0, 9, allowed(0, 4286*us, 429*us)},
			{0, 1, denied(0, 429*us, 4286*us)},
			{428 * us, 1, denied(0, 1*us, 3858*us)},
			{1 * us, 1, allowed(0, 4286*us, 429*us)},   // 9.999 in use
			{429 * us, 1, allowed(0, 4285*us, 428*us)}, // 9.998
			{428 * us, 1, allowed(0, 4286*us, 429*us)}, // 9.998 - 2.996/3 + 1 = 9.999333...
			{428 * us, 2, denied(0, 429*us, 3858*us)},  // 9.000666...
			{0, 1, denied(0, 1*us, 3858*us)},
			{4 * ms, 10, allowed(0, 4286*us, 429*us)},
		}}},
	},
	{
		name: "a leaky queue rounds its delay up",
		why: "Delay is the time until the level found has drained, rounded up to a whole " +
			"microsecond (DESIGN 5)",
		phases: []phase{{limits.LeakyQueue(limits.Per(7, 3*ms), 3), []step{
			{0, 1, queued(0, 2, 429*us, 858*us)},
			{0, 1, queued(429*us, 1, 858*us, 429*us)},
			{1 * us, 1, queued(857*us, 0, 1285*us, 428*us)}, // 857.142... - 1; + 428.571...
			{428 * us, 1, queued(857*us, 0, 1286*us, 429*us)},
		}}},
	},
	{
		name: "a bucket drains a million units each microsecond",
		why: "the fastest legal rate, 10⁹ per 1ms, is exact: many units fit into one microsecond " +
			"(DESIGN 5, legal limits)",
		phases: []phase{{limits.TokenBucket(limits.Per(1_000_000_000, 1*ms), 1_000_000_000), []step{
			{0, 1, allowed(999_999_999, 1*us, 1*ms)},
			{0, 999_999_999, allowed(0, 1*ms, 1*us)},
			{0, 1, denied(0, 1*us, 1*ms)},
			{0, 1_000_000_000, denied(0, 1*ms, 1*ms)},
			{0, 1_000_000_001, denied(0, limits.Never, 1*ms)},
			{0, 1<<63 - 1, denied(0, limits.Never, 1*ms)},
			{1 * us, 0, allowed(1_000_000, 999*us, 1*us)},
			{0, 1_000_001, denied(1_000_000, 1*us, 999*us)},
			{0, 1_000_000, allowed(0, 1*ms, 1*us)},
		}}},
	},
	{
		name: "a bucket drains one unit in 366 days",
		why: "the slowest legal rate is exact to the microsecond; where products overflow, a slow " +
			"rate never denies (DESIGN 5, legal limits)",
		phases: []phase{{limits.LeakyBucket(limits.Per(1, 366*day), 1), []step{
			{0, 1, allowed(0, 366*day, 366*day)},
			{0, 1, denied(0, 366*day, 366*day)},
			{366*day - 1*us, 1, denied(0, 1*us, 1*us)},
			{1 * us, 1, allowed(0, 366*day, 366*day)},
		}}},
	},
	{
		name: "a bucket takes 100 years to drain",
		why: "the longest legal fill, b·p/q of 36,525 days, is exact and overflows nothing " +
			"(DESIGN 5, legal limits)",
		// a unit drains in 365.25 days
		phases: []phase{{limits.TokenBucket(limits.Per(1, 8766*hour), 100), []step{
			{0, 99, allowed(1, 867_834*hour, 8766*hour)},
			{0, 1, allowed(0, 876_600*hour, 8766*hour)},
			{0, 100, denied(0, 876_600*hour, 876_600*hour)},
			{8766*hour - 1*us, 1, denied(0, 1*us, 867_834*hour+1*us)},
			{1 * us, 1, allowed(0, 876_600*hour, 8766*hour)},
			{1 * us, 2, denied(0, 17_532*hour-1*us, 876_600*hour-1*us)},
		}}},
	},
	{
		name: "a large burst drains over 100 years",
		why: "10⁹ units at 1 per 3.15576s overflow nothing and lose no microsecond " +
			"(DESIGN 5, legal limits)",
		phases: []phase{{limits.TokenBucket(limits.Per(1, 3_155_760*us), 1_000_000_000), []step{
			{0, 1_000_000_000, allowed(0, 876_600*hour, 3_155_760*us)},
			{1 * us, 0, allowed(0, 876_600*hour-1*us, 3_155_759*us)},
			{0, 1_000_000_000, denied(0, 876_600*hour-1*us, 876_600*hour-1*us)},
			{3_155_759 * us, 1, allowed(0, 876_600*hour, 3_155_760*us)},
		}}},
	},
	{
		name: "rates with no common factor stay exact",
		why: "a prime number of units per a period of almost a day keeps its fractions (DESIGN 5, " +
			"one exact formulation)",
		phases: []phase{
			{limits.TokenBucket(limits.Per(999_999_937, 86_399_999_999*us), 1_000_000_000), []step{
				{0, 333_333_333, allowed(666_666_667, 28_800_001_786*us, 57_600_003_657*us)},
				{777_777 * us, 0, allowed(666_675_669, 28_799_224_009*us, 57_600_781_430*us)},
				{0, 1, allowed(666_675_668, 28_799_224_095*us, 57_600_781_344*us)},
				{0, 700_000_000, denied(666_675_668, 2_879_222_463*us, 28_799_224_095*us)},
				{2_879_222_462 * us, 700_000_000, denied(699_999_999, 1*us, 25_920_001_633*us)},
				{1 * us, 700_000_000, allowed(0, 86_400_005_442*us, 86*us)},
			}},
		},
	},
	{
		name: "a bucket works in the year 2200",
		why: "instants far in the future lose no precision, as they do in a float64 (DESIGN 5: " +
			"whole microseconds)",
		start: time.Date(2199, time.December, 31, 23, 59, 59, 999_999_000, time.UTC),
		// a unit drains in 1µs
		phases: []phase{{limits.LeakyQueue(limits.PerSecond(1_000_000), 2), []step{
			{0, 2, queued(0, 0, 2*us, 1*us)},
			{0, 1, denied(0, 1*us, 2*us)},
			{1 * us, 1, queued(1*us, 0, 2*us, 1*us)},
			{1 * us, 2, denied(1, 1*us, 1*us)},
			{1 * us, 2, queued(0, 0, 2*us, 1*us)},
		}}},
	},
}
