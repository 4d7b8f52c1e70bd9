package limitstest

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// anchoredTables are about the window that starts with a key's first request.
var anchoredTables = []table{
	{
		name: "an anchored window opens with the first taking and closes a period later",
		why: "it opens when its key is first charged; takings, denials and looks within it do not " +
			"move it; its waits and its EffectiveWindow all end with it (DESIGN 5, the table of algorithms)",
		start: newYear.Add(20*sec + 7*us),
		phases: []phase{{limits.AnchoredWindow(limits.PerMinute(3)), []step{
			{0, 0, allowed(3, 0, 60*sec)},              // a look opens none
			{0, 4, denied(3, limits.Never, 0)},         // nor does a denial
			{11 * sec, 1, allowed(2, 60*sec, 60*sec)},  // opens
			{15 * sec, 1, allowed(1, 45*sec, 45*sec)},  // a minute of the clock has turned
			{15 * sec, 2, denied(1, 30*sec, 30*sec)},   //
			{15 * sec, 0, allowed(1, 15*sec, 15*sec)},  //
			{0, 1, allowed(0, 15*sec, 15*sec)},         // the third, 45s after the first
			{15*sec - 1*us, 1, denied(0, 1*us, 1*us)},  //
			{1 * us, 0, allowed(3, 0, 60*sec)},         // closed, and none is open
			{7 * sec, 3, allowed(0, 60*sec, 60*sec)},   // the next one opens, with all there is
			{59 * sec, 1, denied(0, 1*sec, 1*sec)},     //
			{1 * sec, 1, allowed(2, 60*sec, 60*sec)},   // at once where that closes
			{200 * sec, 2, allowed(1, 60*sec, 60*sec)}, // after a rest
			{0, 4, denied(1, limits.Never, 60*sec)},    //
		}}},
	},
	{
		name: "an anchored window can be timed for two budgets",
		why: "all but one unit at its end and the units of the next right after it: what the " +
			"definition allows, and no more (DESIGN 5)",
		phases: []phase{{limits.AnchoredWindow(limits.PerHour(60)), []step{
			{0, 1, allowed(59, 1*hour, 1*hour)},
			{1*hour - 1*us, 59, allowed(0, 1*us, 1*us)},
			{1 * us, 60, allowed(0, 1*hour, 1*hour)},
			{1*hour - 1*us, 1, denied(0, 1*us, 1*us)},
		}}},
	},
	{
		name: "anchored windows work within a millisecond, over 366 days and in the year 2200",
		why: "the shortest and the longest period, and instants far in the future, lose no precision " +
			"(DESIGN 5, legal limits)",
		start: time.Date(2199, time.December, 31, 23, 59, 59, 999_999_000, time.UTC),
		phases: []phase{
			{limits.AnchoredWindow(limits.Per(1_000_000_000, 1*ms)), []step{
				{0, 1_000_000_000, allowed(0, 1*ms, 1*ms)},
				{999 * us, 1, denied(0, 1*us, 1*us)},
				{1 * us, 1, allowed(999_999_999, 1*ms, 1*ms)},
			}},
			{limits.AnchoredWindow(limits.Per(1_000_000_000, 366*day)), []step{
				{1 * ms, 999_999_999, allowed(1, 366*day, 366*day)},
				{366*day - 1*us, 2, denied(1, 1*us, 1*us)},
				{1 * us, 2, allowed(999_999_998, 366*day, 366*day)},
			}},
		},
	},
	{
		name: "an anchored window stops its clock at its start",
		why: "within the window a step back only lengthens the rest of it; before the window its " +
			"clock stops at its start, and its count is not given away; the next window has a clock of " +
			"its own (DESIGN 5, a clock that steps back)",
		start: newYear.Add(70 * sec),
		phases: []phase{{limits.AnchoredWindow(limits.PerMinute(3)), []step{
			{0, 1, allowed(2, 60*sec, 60*sec)},
			{10 * sec, 1, allowed(1, 50*sec, 50*sec)},
			{-5 * sec, 0, allowed(1, 55*sec, 55*sec)},
			{-10 * sec, 1, allowed(0, 65*sec, 65*sec)},  // 5s before it
			{-55 * sec, 1, denied(0, 120*sec, 120*sec)}, // a whole minute before it
			{120*sec - 1*us, 1, denied(0, 1*us, 1*us)},
			{1 * us, 1, allowed(2, 60*sec, 60*sec)},
		}}},
	},
	{
		name: "an anchored window that finds its clock far back counts its units as taken now",
		why: "behind its start by more than its period, or a second if that is more, a window opens " +
			"anew with its units, by a denial too (DESIGN 5, a clock that steps back)",
		phases: []phase{
			{limits.AnchoredWindow(limits.PerMinute(3)), []step{
				{0, 2, allowed(1, 60*sec, 60*sec)},
				{30 * sec, 1, allowed(0, 30*sec, 30*sec)},
				{-90*sec - 1*us, 1, denied(0, 60*sec, 60*sec)},
				{60*sec - 1*us, 1, denied(0, 1*us, 1*us)},
				{1 * us, 1, allowed(2, 60*sec, 60*sec)},
			}},
			{limits.AnchoredWindow(limits.Per(5, 100*ms)), []step{ // the clock stops for a second
				{60 * sec, 4, allowed(1, 100*ms, 100*ms)},
				{-1 * sec, 1, allowed(0, 1100*ms, 1100*ms)},
				{-1 * us, 0, allowed(0, 100*ms, 100*ms)},
			}},
		},
	},
	{
		name: "an anchored window of the same period keeps its start and its count",
		why: "more units and fewer leave the window open as it is; what is above the new maximum " +
			"leaves Remaining 0, never less (DESIGN 5, changing a limit)",
		phases: []phase{
			{limits.AnchoredWindow(limits.PerMinute(3)), []step{{0, 2, allowed(1, 60*sec, 60*sec)}}},
			{limits.AnchoredWindow(limits.PerMinute(5)), []step{{20 * sec, 3, allowed(0, 40*sec, 40*sec)}}},
			{limits.AnchoredWindow(limits.PerMinute(2)), []step{
				{10 * sec, 0, allowed(0, 30*sec, 30*sec)},
				{0, 1, denied(0, 30*sec, 30*sec)},
				{0, 3, denied(0, limits.Never, 30*sec)},
			}},
			{limits.AnchoredWindow(limits.PerMinute(6)), []step{{0, 0, allowed(1, 30*sec, 30*sec)}}},
			{limits.AnchoredWindow(limits.PerMinute(2)), []step{{30 * sec, 1, allowed(1, 60*sec, 60*sec)}}},
		},
	},
	{
		name: "an anchored window of another period counts the units in use as taken now",
		why: "units of the minute open the hour's window when it is first charged, and the hour's the " +
			"minute's, at most the new maximum; each keeps its start until something is taken (DESIGN " +
			"5, changing a limit)",
		phases: []phase{
			{limits.AnchoredWindow(limits.PerMinute(3)), []step{{0, 2, allowed(1, 60*sec, 60*sec)}}},
			{limits.AnchoredWindow(limits.PerHour(10)), []step{
				{20 * sec, 0, allowed(8, 1*hour, 1*hour)},
				{10 * sec, 9, denied(8, 3590*sec, 3590*sec)},
			}},
			{limits.AnchoredWindow(limits.PerMinute(3)), []step{{10 * sec, 2, denied(1, 40*sec, 40*sec)}}},
			{limits.AnchoredWindow(limits.PerHour(10)),
				[]step{{10 * sec, 5, allowed(3, 3570*sec, 3570*sec)}}},
			{limits.AnchoredWindow(limits.PerMinute(3)), []step{
				{30 * sec, 0, allowed(0, 60*sec, 60*sec)},
				{30 * sec, 1, denied(0, 30*sec, 30*sec)},
				{30 * sec, 1, allowed(2, 60*sec, 60*sec)},
			}},
		},
	},
	{
		name: "a fixed window becomes an anchored one and a fixed one again",
		why: "what is in use under either is taken now under the other, even where their periods are " +
			"equal (DESIGN 5, changing a limit)",
		start: newYear.Add(20 * sec),
		phases: []phase{
			{limits.FixedWindow(limits.PerMinute(10)), []step{{0, 4, allowed(6, 40*sec, 40*sec)}}},
			{limits.AnchoredWindow(limits.PerMinute(10)), []step{
				{10 * sec, 0, allowed(6, 60*sec, 60*sec)},
				{0, 1, allowed(5, 60*sec, 60*sec)},
			}},
			{limits.FixedWindow(limits.PerMinute(10)), []step{
				{45 * sec, 0, allowed(5, 45*sec, 45*sec)}, // 15s into a minute
				{0, 6, denied(5, 45*sec, 45*sec)},
				{0, 5, allowed(0, 45*sec, 45*sec)},
			}},
		},
	},
}
