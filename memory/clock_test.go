package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
)

// A test cannot set the wall clock. All that a clock knows of its steps is how
// far it is from the monotonic clock, so these tests change what was noted of
// that: a note that is an hour behind is a wall clock that stepped an hour ahead.
func (c *clock) step(d time.Duration) { c.offset.Add(int64(-d)) }

func TestAStepOfTheWallClockIsFollowedAtTheNextLook(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, 3 * time.Millisecond, -3 * time.Millisecond, 20 * 365 * 24 * time.Hour, -20 * 365 * 24 * time.Hour} {
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
				if got, want := c.now(), time.Now().UnixMicro(); got != want {
					t.Errorf("step %v: not followed: %d µs off", step, got-want)
				}
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
		seen       [2]int64
		want       int64
		wantLooked int
	}{
		{"no step", [2]int64{0, 0}, 0, 1},
		{"a step", [2]int64{hour, hour}, hour, 2},
		{"stopped in the first look", [2]int64{hour, 0}, 0, 2},
		{"stopped in both", [2]int64{hour, 2 * hour}, 0, 2},
		{"a step, and the clocks read a little apart", [2]int64{hour, hour + 1000}, hour + 1000, 2},
	} {
		var c clock
		looked := 0
		c.resync(func() (elapsed, offset int64) {
			looked++
			return 7, tt.seen[looked-1]
		})
		if got := c.offset.Load(); got != tt.want || looked != tt.wantLooked || c.syncedAt.Load() != 7 {
			t.Errorf("%s: %d ns after %d looks, synced at %d; want %d after %d, at 7", tt.name, got, looked, c.syncedAt.Load(), tt.want, tt.wantLooked)
		}
	}
}

func TestAWallClockThatIsSetBackIsHeldForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		out := make([]limits.Decision, 1)
		take := func() limits.Decision {
			t.Helper()
			if err := m.Take(t.Context(), []limits.Charge{{Key: "k", Limit: limits.TokenBucket(limits.PerMinute(1), 1), Cost: 1}}, out); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		m.clock.step(-time.Second) // a second fast, and about to be set right
		if d := take(); !d.Allowed || d.At != time.Now().Add(time.Second).UnixMicro() {
			t.Fatalf("a second fast: %+v", d)
		}
		time.Sleep(resyncEvery)
		if d := take(); d.Allowed || d.At != time.Now().UnixMicro() || d.RetryAfter != time.Minute+time.Second-resyncEvery {
			t.Errorf("set right: %+v, want a denial for the second and the minute", d)
		}
		m.clock.step(time.Hour) // what it notes now is an hour ago
		time.Sleep(resyncEvery)
		if d := take(); d.Allowed || d.RetryAfter > time.Minute+time.Second {
			t.Errorf("an hour back: %+v, want a denial for a minute", d)
		}
	})
}
