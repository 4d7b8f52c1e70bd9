package limitstest

import "github.com/weir-go/weir/limits"

// changeTables charge live keys under another limit (DESIGN 5, "Changing a limit under live
// state"). State that carries over stays as it is. Otherwise the units in use count as taken when
// the key is first charged under the new limit, denied or not. Limits that follow before the next
// taking also start from that instant.
var changeTables = []table{
	{
		name: "a smaller burst leaves the level as it is",
		why: "a bucket whose burst shrinks under the same rate keeps its level, and what is above the " +
			"new maximum drains before anything fits: a change gives no units away, and binds keys that " +
			"are live already (DESIGN 5, changing a limit)",
		phases: []phase{
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{0, 5, allowed(0, 500*ms, 100*ms)}}},
			{limits.TokenBucket(limits.PerSecond(10), 3), []step{
				{0, 0, allowed(0, 500*ms, 300*ms)},
				{0, 1, denied(0, 300*ms, 500*ms)},
				{300*ms - 1*us, 1, denied(0, 1*us, 200*ms+1*us)},
				{1 * us, 1, allowed(0, 300*ms, 100*ms)},
			}},
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{0, 0, allowed(2, 300*ms, 200*ms)}}},
		},
	},
	{
		name: "a larger burst leaves the level as it is",
		why: "a bucket whose burst grows under the same rate has the difference to give (DESIGN " +
			"5, changing a limit)",
		phases: []phase{
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{0, 5, allowed(0, 500*ms, 100*ms)}}},
			{limits.TokenBucket(limits.PerSecond(10), 20), []step{
				{50 * ms, 0, allowed(15, 450*ms, 1500*ms)},
				{0, 15, allowed(0, 1950*ms, 50*ms)},
			}},
		},
	},
	{
		name: "an equal rate written otherwise carries the level over",
		why: "60 per minute is 1 per second: the level carries over with its fraction (DESIGN " +
			"5, changing a limit)",
		phases: []phase{
			{limits.TokenBucket(limits.PerMinute(60), 10), []step{{0, 4, allowed(6, 4*sec, 6*sec)}}},
			{limits.TokenBucket(limits.PerSecond(1), 10), []step{
				{500 * ms, 0, allowed(6, 3500*ms, 6*sec)},
				{0, 7, denied(6, 500*ms, 3500*ms)},
				{0, 6, allowed(0, 9500*ms, 500*ms)},
			}},
		},
	},
	{
		name: "another rate counts the units in use as taken now",
		why: "units in use under the old rate, rounded up, count as taken when the new one first " +
			"looks, and so they do under either until something is taken (DESIGN 5, changing a limit)",
		phases: []phase{
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{
				{0, 4, allowed(1, 400*ms, 100*ms)},
				{150 * ms, 0, allowed(2, 250*ms, 200*ms)}, // 2.5 in use
			}},
			{limits.TokenBucket(limits.PerSecond(1), 5), []step{
				{0, 0, allowed(2, 3*sec, 2*sec)},
				{0, 3, denied(2, 1*sec, 3*sec)},
			}},
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{
				{0, 0, allowed(2, 300*ms, 200*ms)},
				{100 * ms, 0, allowed(3, 200*ms, 300*ms)},
			}},
			{limits.TokenBucket(limits.PerSecond(1), 5), []step{
				{0, 0, allowed(2, 2900*ms, 2*sec)}, // three were taken 100ms ago
				{0, 1, allowed(1, 3900*ms, 1*sec)},
			}},
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{0, 0, allowed(1, 400*ms, 100*ms)}}},
		},
	},
	{
		name: "another algorithm of the same rate counts the units in use as taken now",
		why: "a leaky bucket is another algorithm than a token bucket, so that half a unit in use " +
			"counts as one (DESIGN 5, changing a limit)",
		phases: []phase{
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{0, 4, allowed(1, 400*ms, 100*ms)}}},
			{limits.LeakyBucket(limits.PerSecond(10), 5), []step{{150 * ms, 0, allowed(2, 300*ms, 200*ms)}}},
			{limits.LeakyQueue(limits.PerSecond(10), 5), []step{{0, 1, queued(300*ms, 1, 400*ms, 100*ms)}}},
		},
	},
	{
		name: "a fixed window of the same period keeps its count",
		why: "the count carries over to more units and to fewer; what is above the new maximum " +
			"leaves Remaining 0, never less (DESIGN 5, changing a limit)",
		start: newYear.Add(20 * sec),
		phases: []phase{
			{limits.FixedWindow(limits.PerMinute(3)), []step{{0, 2, allowed(1, 40*sec, 40*sec)}}},
			{limits.FixedWindow(limits.PerMinute(5)), []step{{0, 3, allowed(0, 40*sec, 40*sec)}}},
			{limits.FixedWindow(limits.PerMinute(2)), []step{
				{0, 0, allowed(0, 40*sec, 40*sec)},
				{0, 1, denied(0, 40*sec, 40*sec)},
				{0, 3, denied(0, limits.Never, 40*sec)},
			}},
			{limits.FixedWindow(limits.PerMinute(6)), []step{{0, 0, allowed(1, 40*sec, 40*sec)}}},
			{limits.FixedWindow(limits.PerMinute(2)), []step{{40 * sec, 1, allowed(1, 60*sec, 60*sec)}}},
		},
	},
	{
		name: "a fixed window of another period counts the units in use in its current window",
		why: "units of the minute count in the hour, and the hour's in the minute, at most the new " +
			"maximum; what a smaller limit could not count, the larger one finds again (DESIGN " +
			"5, changing a limit)",
		start: newYear.Add(20 * sec),
		phases: []phase{
			{limits.FixedWindow(limits.PerMinute(3)), []step{{0, 2, allowed(1, 40*sec, 40*sec)}}},
			{limits.FixedWindow(limits.PerHour(10)), []step{
				{0, 0, allowed(8, 3580*sec, 3580*sec)},
				{0, 5, allowed(3, 3580*sec, 3580*sec)},
			}},
			{limits.FixedWindow(limits.PerMinute(3)), []step{
				{0, 0, allowed(0, 40*sec, 40*sec)},
				{0, 1, denied(0, 40*sec, 40*sec)},
				{40 * sec, 2, allowed(1, 60*sec, 60*sec)},
			}},
			{limits.FixedWindow(limits.PerHour(10)), []step{
				{0, 4, denied(3, 3540*sec, 3540*sec)}, // 7 count in the hour
				{0, 3, allowed(0, 3540*sec, 3540*sec)},
			}},
		},
	},
	{
		name: "a fixed window becomes a sliding one and a fixed one again",
		why: "what is in use counts in the current window, the weight of the previous one included " +
			"(DESIGN 5, changing a limit)",
		start: newYear.Add(20 * sec),
		phases: []phase{
			{limits.FixedWindow(limits.PerMinute(10)), []step{{0, 4, allowed(6, 40*sec, 40*sec)}}},
			{limits.SlidingWindow(limits.PerMinute(10)), []step{
				{0, 0, allowed(6, 100*sec, 36*sec)},
				{0, 1, allowed(5, 100*sec, 30*sec)},
				{70 * sec, 0, allowed(8, 30*sec, 48*sec)}, // 5·30/60 is 2.5
			}},
			{limits.FixedWindow(limits.PerMinute(10)), []step{
				{0, 0, allowed(8, 30*sec, 30*sec)},
				{0, 7, allowed(1, 30*sec, 30*sec)},
			}},
		},
	},
	{
		name: "a sliding window of the same period keeps both counts",
		why: "counts above the new maximum carry over and weigh what they weigh (DESIGN " +
			"5, changing a limit)",
		phases: []phase{
			{limits.SlidingWindow(limits.PerMinute(10)), []step{{0, 10, allowed(0, 120*sec, 60*sec+1*us)}}},
			{limits.SlidingWindow(limits.PerMinute(4)), []step{
				{90 * sec, 0, allowed(0, 30*sec, 6*sec+1*us)}, // 5; until 3
				{0, 4, denied(0, 24*sec+1*us, 30*sec)},        // until 0
				{24 * sec, 4, denied(3, 1*us, 6*sec)},
				{1 * us, 4, allowed(0, 66*sec-1*us, 6*sec)},
			}},
		},
	},
	{
		name: "a sliding log of the same period keeps its takings",
		why: "takings carry over to a smaller and a larger log; to another period they are one taking " +
			"made now (DESIGN 5, changing a limit)",
		phases: []phase{
			{limits.SlidingLog(limits.Per(3, 10*sec)), []step{
				{0, 1, allowed(2, 10*sec, 6_666_667*us)},
				{2 * sec, 2, allowed(0, 10*sec, 8*sec)},
			}},
			{limits.SlidingLog(limits.Per(2, 10*sec)), []step{
				{0, 0, allowed(0, 10*sec, 10*sec)},
				{0, 1, denied(0, 10*sec, 10*sec)},
			}},
			{limits.SlidingLog(limits.Per(5, 10*sec)), []step{{0, 0, allowed(2, 10*sec, 4*sec)}}},
			{limits.SlidingLog(limits.Per(3, 20*sec)), []step{
				{0, 1, denied(0, 20*sec, 20*sec)},
				{20*sec - 1*us, 1, denied(0, 1*us, 1*us)},
				{1 * us, 1, allowed(2, 20*sec, 13_333_334*us)},
			}},
		},
	},
	{
		name: "a bucket becomes a log and a bucket again",
		why: "units in use become one taking, and takings become a level, as of now (DESIGN " +
			"5, changing a limit)",
		phases: []phase{
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{0, 4, allowed(1, 400*ms, 100*ms)}}},
			{limits.SlidingLog(limits.PerSecond(5)), []step{
				{150 * ms, 0, allowed(2, 1*sec, 400*ms)},
				{0, 2, allowed(0, 1*sec, 1*sec)},
			}},
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{500 * ms, 0, allowed(0, 500*ms, 100*ms)}}},
		},
	},
	{
		name: "units in use count up to the new maximum",
		why: "a limit with a smaller maximum starts full, not overfull: after a change no key waits " +
			"longer than the new limit asks, even if the old one was used up; a larger one that comes " +
			"back finds what was above (DESIGN 5, changing a limit)",
		phases: []phase{
			{limits.FixedWindow(limits.PerMinute(10)), []step{{0, 10, allowed(0, 60*sec, 60*sec)}}},
			{limits.TokenBucket(limits.PerSecond(1), 3), []step{
				{0, 0, allowed(0, 3*sec, 1*sec)},
				{0, 1, denied(0, 1*sec, 3*sec)},
			}},
			{limits.SlidingLog(limits.PerSecond(3)), []step{
				{0, 3, denied(0, 1*sec, 1*sec)},
				{1 * sec, 3, allowed(0, 1*sec, 1*sec)},
			}},
			{limits.FixedWindow(limits.PerMinute(10)), []step{{0, 1, denied(0, 59*sec, 59*sec)}}},
		},
	},
	{
		name: "a limit changes while the clock is stopped",
		why: "units in use count as taken at the instant at which the clock stopped, and waits are " +
			"longer by the step (DESIGN 5, a clock that steps back)",
		phases: []phase{
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{0, 3, allowed(2, 300*ms, 200*ms)}}},
			{limits.SlidingLog(limits.PerSecond(5)), []step{
				{-1 * sec, 0, allowed(2, 2*sec, 400*ms)},
				{0, 3, denied(2, 2*sec, 2*sec)},
				{0, 1, allowed(1, 2*sec, 200*ms)},
				{1 * sec, 0, allowed(1, 1*sec, 200*ms)},
			}},
		},
	},
	{
		name: "fresh state does not care about a changed limit",
		why: "a key that has become fresh under its old limit is fresh under the new one (DESIGN 5: " +
			"absent state equals fresh state)",
		phases: []phase{
			{limits.TokenBucket(limits.PerSecond(1), 5), []step{{0, 5, allowed(0, 5*sec, 1*sec)}}},
			{limits.FixedWindow(limits.PerMinute(5)), []step{{5 * sec, 5, allowed(0, 55*sec, 55*sec)}}},
			{limits.SlidingLog(limits.PerMinute(5)), []step{{55 * sec, 5, allowed(0, 60*sec, 60*sec)}}},
		},
	},
}
