package limitstest

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// logTables are about the sliding log: a taking counts while now < its instant + p.
var logTables = []table{
	{
		name: "a sliding log counts every taking for one period",
		why: "a taking leaves one period after it was made, whole, and a denial waits until enough of " +
			"the oldest have left (DESIGN 5, the table of algorithms)",
		phases: []phase{{limits.SlidingLog(limits.Per(3, 10*sec)), []step{
			{0, 0, allowed(3, 0, 10*sec)},
			{0, 1, allowed(2, 10*sec, 6_666_667*us)},
			{2 * sec, 2, allowed(0, 10*sec, 8*sec)},
			{0, 1, denied(0, 8*sec, 10*sec)},
			{0, 2, denied(0, 10*sec, 10*sec)},
			{0, 3, denied(0, 10*sec, 10*sec)},
			{8*sec - 1*us, 1, denied(0, 1*us, 2*sec+1*us)},
			{1 * us, 1, allowed(0, 10*sec, 2*sec)},
			{1 * sec, 4, denied(0, limits.Never, 9*sec)},
			{1 * sec, 0, allowed(2, 8*sec, 6_666_667*us)},
			{8*sec - 1*us, 0, allowed(2, 1*us, 6_666_667*us)},
			{1 * us, 0, allowed(3, 0, 10*sec)},
		}}},
	},
	{
		name: "a sliding log of ten thousand units works within a millisecond",
		why:  "the largest and shortest legal log is exact (DESIGN 5, legal limits)",
		phases: []phase{{limits.SlidingLog(limits.Per(10_000, 1*ms)), []step{
			{0, 9_999, allowed(1, 1*ms, 1*us)},
			{400 * us, 1, allowed(0, 1*ms, 600*us)},
			{0, 10_000, denied(0, 1*ms, 1*ms)},
			{0, 9_999, denied(0, 600*us, 1*ms)},
			{600 * us, 0, allowed(9_999, 400*us, 1*ms)},
			{0, 10_000, denied(9_999, 400*us, 400*us)},
			{0, 10_001, denied(9_999, limits.Never, 400*us)},
			{400 * us, 10_000, allowed(0, 1*ms, 1*ms)},
		}}},
	},
	{
		name: "a sliding log works over 366 days and in the year 2200",
		why: "the longest legal log is exact, and far instants lose no precision " +
			"(DESIGN 5, legal limits)",
		start: time.Date(2199, time.January, 1, 0, 0, 0, 1_000, time.UTC),
		phases: []phase{{limits.SlidingLog(limits.Per(2, 366*day)), []step{
			{0, 1, allowed(1, 366*day, 183*day)},
			{1 * us, 1, allowed(0, 366*day, 366*day-1*us)},
			{366*day - 2*us, 1, denied(0, 1*us, 2*us)},
			{1 * us, 1, allowed(0, 366*day, 1*us)},
			{1 * us, 2, denied(1, 366*day-1*us, 366*day-1*us)},
		}}},
	},
}
