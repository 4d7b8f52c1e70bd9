package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// step makes the wall clock seem to step by d. A test cannot set it, so these tests change what was
// noted of it: a store that is an hour ahead is one whose wall clock has stepped back by an hour.
func (c *clock) step(d time.Duration) {
	c.offset.Add(int64(-d))
	c.wall -= int64(d)
}

func TestAStepAheadOfTheWallClockIsFollowedAtTheNextLook(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, 3 * time.Millisecond, 20 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var c clock
			c.start(nil)
			for range 3 {
				time.Sleep(resyncEvery)
				if got, want := c.now(), time.Now().UnixMicro(); got != want {
					t.Fatalf("before the step: %d µs off", got-want)
				}
				c.step(step)
				time.Sleep(resyncEvery - time.Microsecond)
				if got, want := c.now(), time.Now().Add(-step).UnixMicro(); got != want {
					t.Errorf("step %v: looked at the wall clock too early: %d µs off", step, got-want)
				}
				time.Sleep(time.Microsecond)
				if got, want := c.now(), time.Now().UnixMicro(); got != want || c.at(got) != want {
					t.Errorf("step %v: not followed: %d µs off", step, got-want)
				}
			}
		})
	}
}

func TestAfterAStepBackTheClockGoesOn(t *testing.T) {
	for _, step := range []time.Duration{3 * time.Millisecond, time.Hour, 20 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var c clock
			c.start(nil)
			time.Sleep(resyncEvery)
			c.step(-step)
			for range 30 {
				time.Sleep(resyncEvery / 3)
				if got, want := c.now(), time.Now().Add(step).UnixMicro(); got != want {
					t.Fatalf("step back of %v: %d µs off", step, got-want)
				}
			}
			if got, want := c.at(c.now()), time.Now().UnixMicro(); got != want {
				t.Errorf("step back of %v: the wall clock is taken for %d µs off", step, got-want)
			}
			c.step(2 * step)
			time.Sleep(resyncEvery)
			if got, want := c.now(), time.Now().UnixMicro(); got != want || c.at(got) != want {
				t.Errorf("after a step of twice %v ahead: %d µs off", step, got-want)
			}
		})
	}
}

func TestALittleBetweenTwoClocksIsNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, off := range []time.Duration{stepTolerance, -stepTolerance} {
			var c clock
			c.start(nil)
			c.step(off)
			time.Sleep(resyncEvery)
			if got, want := c.now(), time.Now().Add(-off).UnixMicro(); got != want {
				t.Errorf("%v: followed, to %d µs off", off, got-want)
			}
		}
	})
}

// A thread that is stopped between reading one clock and the other sees a step
// where there is none.
func TestAStepIsBelievedOnlyIfItIsSeenTwice(t *testing.T) {
	const hour = int64(time.Hour)
	for _, tt := range []struct {
		name       string
		seen       [2]int64 // how far the wall clock is ahead of the monotonic one
		want       int64
		wantBehind time.Duration
		wantLooked int
	}{
		{"no step", [2]int64{0, 0}, 0, 0, 1},
		{"a step", [2]int64{hour, hour}, hour, 0, 2},
		{"stopped in the first look", [2]int64{hour, 0}, 0, 0, 2},
		{"stopped in both", [2]int64{hour, 2 * hour}, 0, 0, 2},
		{"a step, and the clocks read a little apart", [2]int64{hour, hour + 1000}, hour, 0, 2},
		{"a step back", [2]int64{-hour, -hour}, 0, time.Hour, 2},
		{"stopped before the second look", [2]int64{-hour, 0}, 0, 0, 2},
	} {
		var c clock
		looked := 0
		c.resync(func() (elapsed, wall int64) {
			looked++
			return 7, 7 + tt.seen[looked-1]
		})
		if got := c.offset.Load(); got != tt.want || looked != tt.wantLooked || c.syncedAt.Load() != 7 ||
			c.behind.Load() != tt.wantBehind.Microseconds() {
			t.Errorf("%s: %d ns after %d looks, synced at %d, behind by %d µs; want %d after %d, at 7, behind by %v",
				tt.name, got, looked, c.syncedAt.Load(), c.behind.Load(), tt.want, tt.wantLooked, tt.wantBehind)
		}
	}
}

func TestAfterAStepBackUnitsGoOnDraining(t *testing.T) {
	for _, back := range []time.Duration{time.Second, time.Hour, 20 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m := MustNew(Options{})
			out := make([]limits.Decision, 1)
			take := func() limits.Decision {
				t.Helper()
				if err := m.Take(t.Context(),
					[]backends.Charge{{Key: "k", Limit: limits.TokenBucket(limits.PerMinute(1), 1), Cost: 1}}, out); err != nil {
					t.Fatal(err)
				}
				return out[0]
			}
			m.clock.step(-back)
			if d := take(); !d.Allowed {
				t.Fatalf("before: %+v", d)
			}
			time.Sleep(resyncEvery)
			if d := take(); d.Allowed || d.At != time.Now().UnixMicro() || d.RetryAfter != time.Minute-resyncEvery {
				t.Errorf("%v back: %+v, want a denial for the rest of the minute", back, d)
			}
			time.Sleep(time.Minute - resyncEvery)
			if d := take(); !d.Allowed || d.At != time.Now().UnixMicro() {
				t.Errorf("%v back, a minute later: %+v", back, d)
			}
		})
	}
}

// A caller reads the clock, and gets the lock a window later. Meanwhile the state of its key, which
// was fresh by then, has lost its place.
func TestACallerThatReadTheClockTooEarlyGetsNoSecondBudget(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(10), 10), limits.FixedWindow(limits.PerSecond(10)),
		limits.SlidingWindow(limits.PerSecond(10)), limits.SlidingLog(limits.PerSecond(10)),
		limits.AnchoredWindow(limits.PerSecond(10)),
	} {
		for _, charges := range []int{1, 2} { // alone, and as part of a group
			synctest.Test(t, func(t *testing.T) {
				m := MustNew(Options{MaxKeys: 1})
				take := func(scope, key string, cost int64) bool {
					all := []backends.Charge{{Scope: scope, Key: key, Limit: limit, Cost: cost}, {Scope: "group", Key: key,
						Limit: limits.FixedWindow(limits.PerDay(1_000_000)), Cost: 1}}
					out := make([]limits.Decision, charges)
					if err := m.Take(t.Context(), all[:charges], out); err != nil {
						t.Fatal(err)
					}
					return out[0].Allowed
				}
				early := 2500 * time.Millisecond
				if !take("s", "k", 10) {
					t.Fatal("the first taking is denied")
				}
				time.Sleep(early)
				for i := range 20 { // takes all places
					take("others", string(rune('a'+i)), 1)
				}
				m.clock.offset.Add(-int64(early)) // what a late caller has read
				first := take("s", "k", 10)
				m.clock.offset.Add(int64(early))
				if second := take("s", "k", 10); first && second {
					t.Errorf("%v, %d charges: two budgets at one instant", limit, charges)
				}
			})
		}
	}
}

// A group decides at the latest instant of its shards, and whoever comes after it in any of them does
// not decide before that.
func TestAGroupLeavesItsInstantInEachOfItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := MustNew(Options{MaxKeys: 100_000})
		var charges []backends.Charge
		for i := range 20 {
			charges = append(charges,
				backends.Charge{Scope: "s", Key: string(rune('a' + i)), Limit: limits.FixedWindow(limits.PerDay(10)), Cost: 1})
		}
		out := make([]limits.Decision, len(charges))
		time.Sleep(time.Second)
		last := charges[len(charges)-1:]
		if err := m.Take(t.Context(), last, out[:1]); err != nil {
			t.Fatal(err)
		}
		m.clock.offset.Add(-int64(time.Second)) // what a late caller has read
		if err := m.Take(t.Context(), charges, out); err != nil {
			t.Fatal(err)
		}
		for _, c := range charges {
			kind := algorithm.Of(c.Limit.Algorithm()).Kind
			hash := m.limits.keys.Key(m.limits.hashScope(c.Scope, kind), c.Key)
			if sh := m.shardOf(hash); sh.latest != time.Now().UnixMicro() {
				t.Errorf("the shard of %s is %d µs behind the group", c.Key, time.Now().UnixMicro()-sh.latest)
			}
		}
	})
}

// A store that was made outside stands still where a bubble begins and where it ends.
func TestABubbleThatEndsTakesNoYearsWithIt(t *testing.T) {
	m := MustNew(Options{})
	out := make([]limits.Decision, 1)
	take := func(t *testing.T, n int64) bool {
		t.Helper()
		if err := m.Take(t.Context(),
			[]backends.Charge{{Key: "k", Limit: limits.TokenBucket(limits.PerDay(10), 10), Cost: n}}, out); err != nil {
			t.Fatal(err)
		}
		return out[0].Allowed
	}
	if !take(t, 10) {
		t.Fatal("a new key is denied")
	}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			if take(t, 1) {
				t.Errorf("as the bubble begins: %+v", out[0])
			}
			time.Sleep(25 * time.Hour)
			if !take(t, 10) {
				t.Errorf("25 hours later: %+v", out[0])
			}
		})
		if take(t, 1) {
			t.Errorf("after the bubble: %+v", out[0])
		}
	}
}
