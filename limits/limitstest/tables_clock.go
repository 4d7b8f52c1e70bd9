package limitstest

import (
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// clockTables step the clock back, and forward again, while the key is live.
var clockTables = []table{
	{
		name: "a bucket stops its clock at the last taking",
		why: "while the clock is behind the last taking nothing drains, and every wait is longer by " +
			"what is left of the step; an EffectiveWindow over which to spread units is no wait (DESIGN " +
			"5, a clock that steps back)",
		phases: []phase{{limits.TokenBucket(limits.PerSecond(10), 5), []step{
			{0, 3, allowed(2, 300*ms, 200*ms)},
			{-1 * sec, 0, allowed(2, 1300*ms, 200*ms)},
			{0, 3, denied(2, 1100*ms, 1300*ms)},
			{0, 6, denied(2, limits.Never, 1300*ms)},
			{0, 2, allowed(0, 1500*ms, 1100*ms)},
			{0, 1, denied(0, 1100*ms, 1500*ms)},
			{500 * ms, 1, denied(0, 600*ms, 1*sec)},
			{600*ms - 1*us, 1, denied(0, 1*us, 400*ms+1*us)},
			{1 * us, 1, allowed(0, 500*ms, 100*ms)},
		}}},
	},
	{
		name: "a denial does not move the instant at which the clock stops",
		why: "only a taking sets the instant at which the clock stops: denials and looks leave it " +
			"where it was (DESIGN 5)",
		phases: []phase{{limits.LeakyBucket(limits.PerSecond(10), 5), []step{
			{0, 5, allowed(0, 500*ms, 100*ms)},
			{150 * ms, 3, denied(1, 150*ms, 350*ms)},
			{0, 0, allowed(1, 350*ms, 100*ms)},
			{-150 * ms, 1, denied(0, 100*ms, 500*ms)},
			{-10 * ms, 1, denied(0, 110*ms, 510*ms)},
			{110 * ms, 1, allowed(0, 500*ms, 100*ms)},
		}}},
	},
	{
		name: "a leaky queue adds the step to its delay",
		why: "a delay is a wait like any other: it counts from the instant at which the " +
			"clock stopped (DESIGN 5)",
		phases: []phase{{limits.LeakyQueue(limits.PerSecond(2), 3), []step{
			{0, 1, queued(0, 2, 500*ms, 1*sec)},
			{-400 * ms, 1, queued(900*ms, 1, 1400*ms, 500*ms)},
			{100 * ms, 1, queued(1300*ms, 0, 1800*ms, 800*ms)},
			{0, 1, denied(0, 800*ms, 1800*ms)},
			{800 * ms, 1, queued(1*sec, 0, 1500*ms, 500*ms)},
		}}},
	},
	{
		name: "a fixed window stops its clock at the start of the window",
		why: "within the window a step back only lengthens the rest of it; before the window its " +
			"clock stops at its start, and its count is not given away (DESIGN 5)",
		start: newYear.Add(70 * sec),
		phases: []phase{{limits.FixedWindow(limits.PerMinute(3)), []step{
			{0, 2, allowed(1, 50*sec, 50*sec)},
			{-5 * sec, 0, allowed(1, 55*sec, 55*sec)},
			{-10 * sec, 0, allowed(1, 65*sec, 65*sec)}, // the window starts in 5s
			{0, 1, allowed(0, 65*sec, 65*sec)},
			{0, 1, denied(0, 65*sec, 65*sec)},
			{-55 * sec, 1, denied(0, 120*sec, 120*sec)}, // a whole minute before the window
			{120*sec - 1*us, 1, denied(0, 1*us, 1*us)},
			{1 * us, 1, allowed(2, 60*sec, 60*sec)},
		}}},
	},
	{
		name: "a sliding window stops its clock at the start of the window",
		why: "within the window the clock may go back and the previous count weighs more again; " +
			"before the window its clock stops at its start (DESIGN 5)",
		start: newYear.Add(30 * sec),
		phases: []phase{{limits.SlidingWindow(limits.PerMinute(10)), []step{
			{0, 10, allowed(0, 90*sec, 30*sec+1*us)},
			{45 * sec, 2, allowed(1, 105*sec, 6*sec)},        // 7 + 2
			{-5 * sec, 0, allowed(0, 110*sec, 2*sec+1*us)},   // 8 + 2
			{-20 * sec, 0, allowed(0, 130*sec, 22*sec+1*us)}, // 10s before the window: 10 + 2, until 7 + 2
			{0, 1, denied(0, 22*sec+1*us, 130*sec)},
			{22 * sec, 1, denied(0, 1*us, 108*sec)},
			{1 * us, 1, allowed(0, 108*sec-1*us, 6*sec)},
		}}},
	},
	{
		name: "a sliding log stops its clock at the last taking",
		why: "while the clock is behind the last taking, takings are recorded at its instant, and " +
			"waits count from there (DESIGN 5)",
		phases: []phase{{limits.SlidingLog(limits.Per(3, 10*sec)), []step{
			{0, 1, allowed(2, 10*sec, 6_666_667*us)},
			{4 * sec, 1, allowed(1, 10*sec, 3_333_334*us)},
			{-6 * sec, 0, allowed(1, 16*sec, 3_333_334*us)},
			{0, 2, denied(1, 12*sec, 16*sec)},
			{0, 1, allowed(0, 16*sec, 12*sec)},
			{12*sec - 1*us, 1, denied(0, 1*us, 4*sec+1*us)},
			{1 * us, 1, allowed(0, 10*sec, 4*sec)},
			{4 * sec, 2, allowed(0, 10*sec, 6*sec)},
		}}},
	},
	{
		name: "a bucket that finds its clock more than a second back starts again from its last level",
		why: "an hour's step locks no key out for an hour, and credits no time: the level is that of " +
			"the last taking, and drains from the first call that finds it, denied or not (DESIGN 5, a " +
			"clock that steps back)",
		phases: []phase{{limits.TokenBucket(limits.PerSecond(10), 5), []step{
			{0, 5, allowed(0, 500*ms, 100*ms)},
			{-1 * sec, 1, denied(0, 1100*ms, 1500*ms)}, // stopped
			{-1 * us, 1, denied(0, 100*ms, 500*ms)},    // not any more
			{100*ms - 1*us, 1, denied(0, 1*us, 400*ms+1*us)},
			{1 * us, 1, allowed(0, 500*ms, 100*ms)},
			// a look that takes nothing starts it again, too
			{-20 * 366 * day, 0, allowed(0, 500*ms, 100*ms)},
			{100 * ms, 1, allowed(0, 500*ms, 100*ms)},
		}}},
	},
	{
		name: "a window that finds its clock far back counts its units as taken now",
		why: "behind the start of its window by more than its period, or a second if that is more, a " +
			"window counts its units in the window of now (DESIGN 5, a clock that steps back)",
		start: newYear.Add(70 * sec),
		phases: []phase{
			{limits.FixedWindow(limits.PerMinute(3)), []step{
				{0, 3, allowed(0, 50*sec, 50*sec)},
				{-1*hour - 20*sec, 1, denied(0, 10*sec, 10*sec)}, // 50s into a minute of the hour before
				{10*sec - 1*us, 1, denied(0, 1*us, 1*us)},
				{1 * us, 1, allowed(2, 60*sec, 60*sec)},
			}},
			{limits.SlidingWindow(limits.PerMinute(10)), []step{
				{90 * sec, 8, allowed(2, 90*sec, 12*sec)}, // 30s into a minute
				{60 * sec, 6, allowed(0, 90*sec, 1*us)},   // 8·30/60 + 6
				// 10 of the 14: as many as it ever allowed at once
				{-1 * day, 0, allowed(0, 90*sec, 30*sec+1*us)},
				{0, 1, denied(0, 30*sec+1*us, 90*sec)},
				{30*sec + 1*us, 1, allowed(0, 120*sec-1*us, 6*sec)},
			}},
		},
	},
	{
		name: "a log that finds its clock far back counts its units as taken now",
		why: "behind its last taking by more than its period a log remembers one taking, made now, " +
			"which leaves after a period (DESIGN 5, a clock that steps back)",
		phases: []phase{
			{limits.SlidingLog(limits.Per(3, 10*sec)), []step{
				{0, 1, allowed(2, 10*sec, 6_666_667*us)},
				{4 * sec, 2, allowed(0, 10*sec, 6*sec)},
				{-10*sec - 1*us, 1, denied(0, 10*sec, 10*sec)},
				{10*sec - 1*us, 1, denied(0, 1*us, 1*us)},
				{1 * us, 2, allowed(1, 10*sec, 3_333_334*us)},
			}},
			{limits.SlidingLog(limits.Per(5, 10*sec)), []step{
				{1 * sec, 1, allowed(2, 10*sec, 4*sec)},
				{-1 * hour, 3, denied(2, 10*sec, 10*sec)}, // rebased under the new limit
				{1 * sec, 2, allowed(0, 10*sec, 9*sec)},
			}},
			{limits.SlidingLog(limits.PerSecond(5)), []step{ // a second is stopped, as its period is one
				{20 * sec, 5, allowed(0, 1*sec, 1*sec)},
				{-1 * sec, 1, denied(0, 2*sec, 2*sec)},
				{-1 * us, 1, denied(0, 1*sec, 1*sec)},
			}},
		},
	},
	{
		name: "a limit changes while the clock is far back",
		why: "the state is rebased under the limit that wrote it, and then found by " +
			"the other (DESIGN 5)",
		phases: []phase{
			{limits.TokenBucket(limits.PerSecond(10), 50), []step{{0, 40, allowed(10, 4*sec, 1*sec)}}},
			{limits.TokenBucket(limits.PerSecond(10), 5), []step{{-1 * hour, 1, denied(0, 3600*ms, 4*sec)}}},
			// 30 are left
			{limits.FixedWindow(limits.PerMinute(60)), []step{{1 * sec, 0, allowed(30, 59*sec, 59*sec)}}},
			{limits.TokenBucket(limits.PerSecond(10), 50), []step{{0, 20, allowed(0, 5*sec, 100*ms)}}},
		},
	},
	{
		name: "a calendar changes while the clock is far back",
		why: "with another maximum it is rebased in its period; another limit does not know its " +
			"periods, and what was taken in them counts as taken now under that (DESIGN 5)",
		start: newYear.Add(36 * hour),
		phases: []phase{
			{limits.Calendar(5, limits.Day), []step{{0, 4, allowed(1, 12*hour, 12*hour)}}},
			{limits.Calendar(10, limits.Day), []step{{-10*day + hour, 0, allowed(6, 11*hour, 11*hour)}}},
			{limits.FixedWindow(limits.PerHour(3)), []step{
				{-10*day - 30*mins, 1, denied(0, 30*mins, 30*mins)},
				{30 * mins, 3, allowed(0, 1*hour, 1*hour)},
			}},
			{limits.Calendar(5, limits.Day), []step{
				{0, 2, denied(1, 11*hour, 11*hour)}, // four of that day
				{0, 1, allowed(0, 11*hour, 11*hour)},
			}},
			{limits.Ban(limits.PerHour(3), 1*mins), []step{{-10 * day, 1, allowed(2, 1*hour, 1*hour)}}},
		},
	},
}

// timeCases are about a backend whose time stands still when its clock goes back.
var timeCases = []testCase{{
	name: "time goes on from the latest instant when the clock steps back",
	why: "for as long as the clock is behind, every decision is at the latest instant that " +
		"the backend has seen: nothing is admitted twice, and no wait is longer (DESIGN 5, a " +
		"clock that steps back)",
	keepsTime: true,
	run: func(t testing.TB, h Harness) {
		for _, l := range h.limits.rates(limits.PerMinute(10)) {
			w := h.world(t)
			c := backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 10}
			w.take(c)
			c.Cost = 1
			before := w.take(c)[0]
			for _, back := range []time.Duration{1 * us, 30 * sec, 24 * hour} {
				w.clock.advance(-back)
				if d := w.take(c)[0]; d != before {
					t.Error(about(l, "%s back: %s, want %s as before", wait(back), showDecision(d),
						showDecision(before)))
				}
				w.clock.advance(back)
			}
			if before.Allowed || !isRate(l) {
				continue
			}
			w.clock.advance(before.RetryAfter - 1*us)
			if w.take(c)[0].Allowed {
				t.Error(about(l, "allowed 1µs too early after the clock has stepped back and ahead again"))
			}
			w.clock.advance(1 * us)
			if !w.take(c)[0].Allowed {
				t.Error(about(l, "denied after its wait once the clock has stepped back and ahead again"))
			}
		}
	},
}}
