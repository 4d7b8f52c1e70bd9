package limitstest

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// windowTables are about the fixed and the sliding window. Both count in windows that start at
// whole multiples of the period since the Unix epoch.
var windowTables = []table{
	{
		name: "a fixed window starts at a whole multiple of its period",
		why: "a fixed window counts until it ends and then starts over; its waits and its " +
			"EffectiveWindow all end with it (DESIGN 5, the table of algorithms)",
		start: newYear.Add(20 * sec),
		phases: []phase{{limits.FixedWindow(limits.PerMinute(3)), []step{
			{0, 0, allowed(3, 0, 40*sec)},
			{0, 1, allowed(2, 40*sec, 40*sec)},
			{0, 3, denied(2, 40*sec, 40*sec)},
			{0, 2, allowed(0, 40*sec, 40*sec)},
			{0, 1, denied(0, 40*sec, 40*sec)},
			{0, 0, allowed(0, 40*sec, 40*sec)},
			{40*sec - 1*us, 1, denied(0, 1*us, 1*us)},
			{1 * us, 0, allowed(3, 0, 60*sec)},
			{0, 3, allowed(0, 60*sec, 60*sec)},
			{30 * sec, 4, denied(0, limits.Never, 30*sec)},
			{90 * sec, 1, allowed(2, 60*sec, 60*sec)},
		}}},
	},
	{
		name:  "a day is a UTC day",
		why:   "a fixed window of 24 hours ends at midnight UTC, to the microsecond (DESIGN 5)",
		start: newYear.Add(-1 * us),
		phases: []phase{{limits.FixedWindow(limits.PerDay(1)), []step{
			{0, 1, allowed(0, 1*us, 1*us)},
			{0, 1, denied(0, 1*us, 1*us)},
			{1 * us, 1, allowed(0, 24*hour, 24*hour)},
			{24*hour - 1*us, 1, denied(0, 1*us, 1*us)},
		}}},
	},
	{
		name: "the longest window is aligned with the epoch",
		why: "windows of 366 days start at multiples of 366 days since 1970: the 56th ends 42 days " +
			"into 2026 (DESIGN 5)",
		phases: []phase{{limits.FixedWindow(limits.Per(1_000_000_000, 366*day)), []step{
			{0, 999_999_999, allowed(1, 42*day, 42*day)},
			{0, 2, denied(1, 42*day, 42*day)},
			{42*day - 1*us, 1, allowed(0, 1*us, 1*us)},
			{1 * us, 1_000_000_000, allowed(0, 366*day, 366*day)},
		}}},
	},
	{
		name: "the shortest window lasts a millisecond",
		why: "periods below a second are limits like any other: a time to live that rounds to 0 is " +
			"no limit at all (DESIGN 5, legal limits)",
		start: newYear.Add(999 * us),
		phases: []phase{{limits.FixedWindow(limits.Per(1_000_000_000, 1*ms)), []step{
			{0, 1_000_000_000, allowed(0, 1*us, 1*us)},
			{0, 1, denied(0, 1*us, 1*us)},
			{1 * us, 1, allowed(999_999_999, 1*ms, 1*ms)},
			{1 * us, 1_000_000_000, denied(999_999_999, 999*us, 999*us)},
		}}},
	},
	{
		name: "a sliding window weighs the window before",
		why: "the previous count weighs by how much of its window still overlaps the last period, " +
			"rounded down; waits cross the boundary where they have to (DESIGN 5)",
		phases: []phase{{limits.SlidingWindow(limits.PerMinute(10)), []step{
			{0, 10, allowed(0, 120*sec, 60*sec+1*us)},
			{0, 1, denied(0, 60*sec+1*us, 120*sec)},
			{60 * sec, 1, denied(0, 1*us, 60*sec)},
			{1 * us, 1, allowed(0, 120*sec-1*us, 6*sec)},   // 9 + 1
			{6 * sec, 0, allowed(1, 114*sec-1*us, 6*sec)},  // 8 + 1
			{0, 2, denied(1, 6*sec, 114*sec-1*us)},         // until 7
			{0, 1, allowed(0, 114*sec-1*us, 6*sec)},        // 8 + 2
			{24 * sec, 0, allowed(4, 90*sec-1*us, 24*sec)}, // 4 + 2
			{0, 4, allowed(0, 90*sec-1*us, 6*sec)},         // 4 + 6
			{0, 5, denied(0, 30*sec, 90*sec-1*us)},         // not in this window
			{0, 11, denied(0, limits.Never, 90*sec-1*us)},  // not in any
			// the 6 weigh nothing, and are still there
			{90*sec - 2*us, 0, allowed(10, 1*us, 60*sec)},
			{1 * us, 0, allowed(10, 0, 60*sec)},                    // they have left
			{30 * sec, 3, allowed(7, 90*sec, 42*sec)},              // half into a window
			{45 * sec, 0, allowed(8, 45*sec, 48*sec)},              // 3·45/60 rounds to 2
			{0, 9, denied(8, 5*sec+1*us, 45*sec)},                  // until 1
			{5*sec + 1*us, 9, allowed(0, 100*sec-1*us, 20*sec)},    // 1 + 9
			{20*sec - 1*us, 1, denied(0, 1*us, 80*sec)},            // 3·20/60 is 1
			{1 * us, 1, allowed(0, 80*sec-1*us, 20*sec-1*us+1*us)}, // 0 + 10
		}}},
	},
	{
		name: "a sliding window of 7 per 3ms rounds its weight down",
		why: "weights and waits are exact where they do not come out even (DESIGN 5, the " +
			"sliding window's weight)",
		phases: []phase{{limits.SlidingWindow(limits.Per(7, 3*ms)), []step{
			{0, 7, allowed(0, 6*ms, 3001*us)},
			{4 * ms, 3, allowed(0, 5*ms, 286*us)}, // 7·2000/3000 is 4.67
			{0, 1, denied(0, 286*us, 5*ms)},
			{285 * us, 1, denied(0, 1*us, 4715*us)},
			{1 * us, 1, allowed(0, 4714*us, 429*us)},
			{1 * ms, 0, allowed(2, 3714*us, 858*us)}, // 7·714/3000 is 1.67; 4 more
			{0, 5, denied(2, 1465*us, 3714*us)},
			{0, 7, denied(2, 2965*us, 3714*us)},
			{0, 8, denied(2, limits.Never, 3714*us)},
			{1465 * us, 5, allowed(0, 5249*us, 750*us)},
		}}},
	},
	{
		name: "a sliding window of a thousand million units in 366 days is exact",
		why: "the largest product of count and period does not overflow an int64 " +
			"(DESIGN 5, legal limits)",
		start: time.Unix(55*366*86_400, 0),
		phases: []phase{{limits.SlidingWindow(limits.Per(1_000_000_000, 366*day)), []step{
			{0, 1_000_000_000, allowed(0, 732*day, 366*day+1*us)},
			{549 * day, 500_000_000, allowed(0, 549*day, 1*us)},
			{0, 1, denied(0, 1*us, 549*day)},
			{1 * us, 0, allowed(1, 549*day-1*us, 31_623*us)},
			{0, 2, denied(1, 31_622*us, 549*day-1*us)},
			{31_621 * us, 2, denied(1, 1*us, 549*day-31_622*us)},
			{1 * us, 2, allowed(0, 549*day-31_623*us, 31_622*us)}, // until 499,999,997
		}}},
	},
	{
		name: "a sliding window of one unit waits for it to leave whole",
		why:  "one unit weighs nothing from the first microsecond of the next window on (DESIGN 5)",
		phases: []phase{{limits.SlidingWindow(limits.PerSecond(1)), []step{
			{0, 1, allowed(0, 2*sec, 1*sec+1*us)},
			{1 * sec, 1, denied(0, 1*us, 1*sec)},
			{1 * us, 1, allowed(0, 2*sec-1*us, 1*sec)},
			{999_999 * us, 1, denied(0, 1*us, 1*sec)},
			{1 * sec, 1, allowed(0, 2*sec, 1*sec+1*us)},
		}}},
	},
	{
		name: "windows work in the year 2200",
		why: "instants far in the future lose no precision, as they do in a float64 (DESIGN 5: " +
			"whole microseconds)",
		start: time.Date(2199, time.December, 31, 23, 59, 59, 999_999_000, time.UTC),
		phases: []phase{{limits.SlidingWindow(limits.PerDay(1_000_000)), []step{
			{0, 1_000_000, allowed(0, 24*hour+1*us, 2*us)},
			{1 * us, 1, denied(0, 1*us, 24*hour)},
			{1 * us, 1, allowed(0, 48*hour-1*us, 86_400*us)},
		}}},
	},
}
