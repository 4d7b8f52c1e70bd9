package memory

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// These tests are of states that are rare, and that a change of the code easily forgets.

// at returns a store whose clock says *now, a midnight at first.
func at(now *time.Time, options Options) *Memory {
	*now = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	options.Clock = func() time.Time { return *now }
	return MustNew(options)
}

func peek(t *testing.T, m *Memory, charges ...backends.Charge) []limits.Decision {
	t.Helper()
	out := make([]limits.Decision, len(charges))
	if err := m.Peek(t.Context(), charges, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A key owes 2,000,000,000 units, and its bucket then holds one.
func TestABucketThatOwesFarMoreThanItHoldsTellsSo(t *testing.T) {
	const most = 1_000_000_000
	for _, test := range []struct {
		rate        limits.Rate
		retry, left time.Duration // until a unit fits: of all that is owed, and of the last unit
	}{
		{limits.PerSecond(1), 2 * most * time.Second, time.Second},
		{limits.Per(most, 366*24*time.Hour), 2 * 366 * 24 * time.Hour, 31_623 * time.Microsecond},
		{limits.Per(most, time.Millisecond), 2 * time.Millisecond, time.Microsecond},
	} {
		var now time.Time
		m := at(&now, Options{})
		large, small := limits.TokenBucket(test.rate, most), limits.TokenBucket(test.rate, 1)
		d := asking.Lasting(t, m, "k", large, most)
		if s := asking.Settle(t, m, asking.EndingOf(d, "k", large, most, 2*most)); s.Charged != most {
			t.Fatalf("%+v", s)
		}
		charge := backends.Charge{Scope: "s", Key: "k", Limit: small, Cost: 1}
		want := limits.Decision{RetryAfter: test.retry, ResetAfter: test.retry, EffectiveWindow: test.retry,
			At: now.UnixMicro()}
		for name, got := range map[string]limits.Decision{"peeked": peek(t, m, charge)[0],
			"taken": asking.Take(t, m, charge)} {
			if got != want {
				t.Errorf("%v: %s: %+v\nwant %+v", small, name, got, want)
			}
		}
		now = now.Add(test.retry)
		if got := asking.Take(t, m, charge); !got.Allowed || got.EffectiveWindow != test.left {
			t.Errorf("%v: when all has drained: %+v", small, got)
		}
	}
}

// What fits in a group that is denied is not taken: its decision tells what there is without it.
func TestADeniedGroupTellsWhatIsLeftWithoutIt(t *testing.T) {
	full := limits.FixedWindow(limits.PerDay(1))
	rate := limits.Per(10, 10*time.Second)
	for _, limit := range []limits.Limit{
		limits.TokenBucket(rate, 10), limits.LeakyBucket(rate, 10), limits.LeakyQueue(rate, 10), limits.FixedWindow(rate),
		limits.SlidingWindow(rate), limits.SlidingLog(rate), limits.AnchoredWindow(rate), limits.Concurrent(10),
		limits.Ban(rate, time.Minute), limits.Calendar(10, limits.Day),
	} {
		var now time.Time
		m := at(&now, Options{})
		asking.Take(t, m, backends.Charge{Scope: "full", Key: "k", Limit: full, Cost: 1})
		fits := backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 4, Lasts: time.Second}
		asking.Take(t, m, fits)
		look := fits
		look.Cost = 0
		want := asking.Take(t, m, look)
		shadow := fits
		shadow.Shadow = true
		out := make([]limits.Decision, 3)
		if err := m.Take(t.Context(), []backends.Charge{fits, shadow, {Scope: "full", Key: "k", Limit: full, Cost: 1}},
			out); err != nil {
			t.Fatal(err)
		}
		if out[2].Allowed || out[0] != want || out[0].Ticket != 0 || out[0].Delay != 0 || out[0].Remaining != 6 {
			t.Errorf("%v: %+v\nwant %+v", limit, out[0], want)
		}
		if out[1] != want { // it would not fit if the first had been taken
			t.Errorf("%v: the shadow: %+v\nwant %+v", limit, out[1], want)
		}
	}
}

// A key that was displaced inherits units, which count until one instant. Then it fits, and is
// fresh.
func TestWhatABanInheritsEndsAtOneInstant(t *testing.T) {
	var now time.Time
	m := at(&now, Options{MaxKeys: 1})
	ban := limits.Ban(limits.PerMinute(10), time.Hour)
	for i := range 20 {
		asking.Allowed(t, m, fmt.Sprint(i), ban, 9)
	}
	asking.Allowed(t, m, "k", ban, 5) // with the 9 of others they deny it, and do not ban it
	for _, key := range []string{"k", "new"} {
		now = now.Add(time.Second)
		d := peek(t, m, backends.Charge{Scope: "s", Key: key, Limit: ban, Cost: 1})[0]
		if d.Allowed != (key == "new") || d.Allowed && d.EffectiveWindow != d.ResetAfter ||
			!d.Allowed && d.RetryAfter != d.ResetAfter {
			t.Errorf("%s: %+v", key, d)
		}
		if d.ResetAfter <= 0 || d.ResetAfter >= time.Minute {
			t.Errorf("%s is fresh after %v, want less than the period", key, d.ResetAfter)
		}
	}
}

// A log without units keeps the place of its key for a period. A key that is not found would start
// from what the store remembers of others.
func TestALogThatWasReturnedProtectsItsKeyForAPeriod(t *testing.T) {
	var now time.Time
	m := at(&now, Options{MaxKeys: 1}) // eight places
	log, day := limits.SlidingLog(limits.PerHour(10)), limits.FixedWindow(limits.PerDay(10))
	ann := asking.Lasting(t, m, "ann", log, 10)
	for i := range 12 { // those who have used least are displaced
		asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: log, Cost: 8})
	}
	now = now.Add(30 * time.Minute)
	if s := asking.Settle(t, m, asking.EndingOf(ann, "ann", log, 10, 0)); s.Returned != 10 {
		t.Fatalf("%+v", s)
	}
	// The key may have been displaced, so this is remembered of all keys, for longer than a period.
	asking.Settle(t, m, backends.Ending{Scope: "s", Key: "late", Limit: day, Taken: 1, Final: 9})
	remaining := func() int64 {
		return peek(t, m, backends.Charge{Scope: "s", Key: "ann", Limit: log})[0].Remaining
	}
	now = now.Add(time.Hour - time.Microsecond)
	for i := range 7 { // in the places of those who are fresh
		asking.Take(t, m, backends.Charge{Scope: "other", Key: fmt.Sprint(i), Limit: day, Cost: 1})
	}
	if got := remaining(); got != 10 {
		t.Errorf("%d remain, want 10", got)
	}
	now = now.Add(time.Microsecond)
	asking.Take(t, m, backends.Charge{Scope: "other", Key: "7", Limit: day, Cost: 1})
	if got := remaining(); got != 0 {
		t.Errorf("%d remain after a period, want 0: the place is another key's", got)
	}
}

// The largest log owes as much as it may. Units are added to it in every way.
func TestTheLargestLogKeepsItsNumbers(t *testing.T) {
	synctest.Test(t, addToTheLargestLog)
}

func addToTheLargestLog(t *testing.T) {
	m := MustNew(Options{}) // with a Clock, a Bound asks Take
	log := limits.SlidingLog(limits.Per(10_000, 366*24*time.Hour))
	bound, err := m.Bind("s", log)
	if err != nil {
		t.Fatal(err)
	}
	charge := func(n int64) backends.Charge { return backends.Charge{Scope: "s", Key: "k", Limit: log, Cost: n} }
	ways := map[string]func(n int64) limits.Decision{
		"Take": func(n int64) limits.Decision { return asking.Take(t, m, charge(n)) },
		"Bound.Take": func(n int64) limits.Decision {
			d, err := bound.Take("k", n)
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		"a group": func(n int64) limits.Decision {
			out := make([]limits.Decision, 2)
			err := m.Take(t.Context(), []backends.Charge{{Scope: "t", Key: "k", Limit: log, Cost: 1}, charge(n)}, out)
			if err != nil {
				t.Fatal(err)
			}
			return out[1]
		},
		"a lasting charge": func(n int64) limits.Decision { return asking.Lasting(t, m, "k", log, n) },
	}
	used := int64(0)
	for range 5 {
		for way, take := range ways {
			if used += 500; used > 10_000 {
				t.Fatal("the ways are too many")
			}
			if d := take(500); !d.Allowed || d.Remaining != 10_000-used {
				t.Fatalf("%s, of %d in use: %+v", way, used, d)
			}
			time.Sleep(2 * time.Microsecond) // in the bubble
		}
	}
	s := asking.Settle(t, m, backends.Ending{Scope: "s", Key: "k", Limit: log, Taken: 0, Final: 65_535})
	if s.Charged != 10_000 || s.Forgiven != 55_535 {
		t.Fatalf("%+v", s)
	}
	for way, take := range ways {
		if d := take(1); d.Allowed || d.Remaining != 0 {
			t.Errorf("%s, of 20,000 in use: %+v", way, d)
		}
	}
	hash := m.limits.keys.Key(m.limits.hashScope("s", algorithm.Rates), "k")
	if got := m.shardOf(hash).table.find(hash).log().Sum(); got != 20_000 {
		t.Errorf("%d units are stored", got)
	}
	m.check(t, 1<<20)
}

// One log uses up all nodes. Its takings are merged while another one is stored, and none is lost.
func TestTakingsThatAreMergedWhileOneIsStoredAreAllCounted(t *testing.T) {
	for _, group := range []bool{false, true} {
		var now time.Time
		m := at(&now, Options{MaxKeys: 1, MaxLogEntries: 1}) // 256 nodes
		log := limits.SlidingLog(limits.PerHour(2000))
		charges := []backends.Charge{{Scope: "s", Key: "k", Limit: log, Cost: 2}, {Scope: "t", Key: "k", Limit: log, Cost: 1}}
		if !group {
			charges = charges[:1]
		}
		out := make([]limits.Decision, len(charges))
		short := 0
		for i := range int64(1000) {
			now = now.Add(time.Duration(1+i%7) * time.Millisecond)
			if err := m.Take(t.Context(), charges, out); err != nil {
				t.Fatal(err)
			}
			if out[0].Remaining != 2000-2*(i+1) {
				t.Fatalf("group %v: %d remain after %d takings of 2", group, out[0].Remaining, i+1)
			}
			if m.check(t, 256) {
				short++
			}
		}
		if short == 0 {
			t.Errorf("group %v: there was a node for each taking: this test shows nothing", group)
		}
	}
}
