package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

func count(t *testing.T, m *memory.Memory, want int) {
	t.Helper()
	if got, err := m.Count(t.Context()); got != want || err != nil {
		t.Fatalf("%d live keys, %v, want %d", got, err, want)
	}
}

func TestTheClockIsTheWallClock(t *testing.T) {
	m := memory.MustNew(memory.Options{})
	before := time.Now()
	d := asking.Take(t, m,
		backends.Charge{Scope: "s", Key: "k", Limit: limits.SlidingWindow(limits.PerMinute(1)), Cost: 1})
	after := time.Now()
	const tolerance = 5 * time.Millisecond // two clocks, read apart
	if at := time.UnixMicro(d.At); at.Before(before.Add(-tolerance)) || at.After(after.Add(tolerance)) {
		t.Errorf("decided at %v, asked between %v and %v", at, before, after)
	}
}

func TestTheClockFollowsABubble(t *testing.T) {
	outside := memory.MustNew(memory.Options{})
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []*memory.Memory{outside, memory.MustNew(memory.Options{})} {
			limit := limits.TokenBucket(limits.PerSecond(1), 1)
			d := asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1})
			if d.At != time.Now().UnixMicro() {
				t.Errorf("decided at %v, the bubble's clock says %v", time.UnixMicro(d.At), time.Now())
			}
			time.Sleep(time.Second - time.Microsecond)
			asking.Denied(t, m, "k", limit, 1)
			time.Sleep(time.Microsecond)
			asking.Allowed(t, m, "k", limit, 1)
		}
	})
}

// Callers that are late for a window are told an instant of the one that they are
// counted in, so that counting by At finds no window with too many.
func TestNoWindowSeesMoreThanItsUnitsByTheInstantsOfItsDecisions(t *testing.T) {
	for _, limit := range []limits.Limit{limits.FixedWindow(limits.Per(20, 8*time.Millisecond)),
		limits.SlidingWindow(limits.Per(20, 8*time.Millisecond))} {
		const windows = 40
		var clock atomic.Int64
		clock.Store(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		start := clock.Load()
		m := memory.MustNew(memory.Options{Clock: func() time.Time {
			now := clock.Load()
			runtime.Gosched()
			return time.UnixMicro(now)
		}})
		var admitted [windows + 1]atomic.Int64
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				out := make([]limits.Decision, 1)
				for range 160 * windows / 64 {
					if err := m.Take(t.Context(), []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}, out); err != nil {
						t.Error(err)
					}
					if out[0].Allowed {
						admitted[(out[0].At-start)/8000].Add(1)
					}
					clock.Add(50)
				}
			})
		}
		callers.Wait()
		for w := range admitted {
			if n := admitted[w].Load(); n > 20 {
				t.Errorf("%v: %d in window %d", limit, n, w)
			}
		}
	}
}

// The same for anchored windows, each of which begins with its first decision.
func TestNoAnchoredWindowAdmitsMoreByItsOwnInstants(t *testing.T) {
	const windows, period = 40, 8000
	limit := limits.AnchoredWindow(limits.Per(20, period*time.Microsecond))
	var clock atomic.Int64
	clock.Store(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	m := memory.MustNew(memory.Options{Clock: func() time.Time {
		now := clock.Load()
		runtime.Gosched()
		return time.UnixMicro(now)
	}})
	var callers sync.WaitGroup
	var admitted [64][]int64
	for i := range admitted {
		callers.Go(func() {
			out := make([]limits.Decision, 1)
			for range 160 * windows / len(admitted) {
				if err := m.Take(t.Context(), []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 1}}, out); err != nil {
					t.Error(err)
				}
				if out[0].Allowed {
					admitted[i] = append(admitted[i], out[0].At)
				}
				clock.Add(50)
			}
		})
	}
	callers.Wait()
	instants := slices.Concat(admitted[:]...)
	slices.Sort(instants)
	opened, units, seen := int64(0), 0, 0
	for _, at := range instants {
		if at-opened >= period {
			opened, units = at, 0
			seen++
		}
		if units++; units == 21 {
			t.Errorf("more than 20 in the window from %d on", opened)
		}
	}
	if seen < windows/2 {
		t.Errorf("%d windows: the test shows little", seen)
	}
}

// Bursts of 100 and 10 at 100 a second, in turn under one key, once admitted
// 91,000 in ten seconds.
func TestBurstsInTurnAdmitWhatTheLargerDoes(t *testing.T) {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	large, small := limits.TokenBucket(limits.PerSecond(100), 100), limits.TokenBucket(limits.PerSecond(100), 10)
	admitted := int64(0)
	for range 1000 {
		for _, limit := range []limits.Limit{large, small} {
			n := asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 0}).Remaining
			asking.Allowed(t, m, "k", limit, n)
			admitted += n
		}
		now = now.Add(10 * time.Millisecond)
	}
	if want := int64(100 + 999); admitted != want {
		t.Errorf("%d were admitted in ten seconds, want %d", admitted, want)
	}
}

func TestAStateThatIsFreshIsFreeSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{MaxKeys: 8})
		limit := limits.FixedWindow(limits.PerSecond(2))
		for round := range 50 {
			for i := range 8 {
				d := asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(round, "/", i), Limit: limit, Cost: 1})
				if !d.Allowed || d.Remaining != 1 {
					t.Fatalf("round %d, key %d: %+v, want a fresh key", round, i, d)
				}
			}
			count(t, m, 8)
			time.Sleep(time.Second)
			count(t, m, 0)
		}
	})
}

func TestUpToMaxKeysNothingIsDisplaced(t *testing.T) {
	for _, maxKeys := range []int{1, 2, 7, 8, 9, 16, 100, 1000, 8191, 8192, 20_000, 100_000, 200_000} {
		if raceEnabled && maxKeys > 100_000 { // some ten times as slow
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			m := memory.MustNew(memory.Options{MaxKeys: maxKeys})
			limit := limits.SlidingWindow(limits.PerHour(2))
			for pass := range int64(2) {
				for i := range maxKeys {
					if d := asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: limit, Cost: 1}); !d.Allowed ||
						d.Remaining != 1-pass {
						t.Fatalf("MaxKeys %d, pass %d, key %d: %+v", maxKeys, pass, i, d)
					}
				}
			}
			count(t, m, maxKeys)
		})
	}
}

func TestAFloodNeverBuysAFreshBudget(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerHour(5), 5),
		limits.LeakyQueue(limits.PerHour(5), 5),
		limits.FixedWindow(limits.PerHour(5)),
		limits.SlidingWindow(limits.PerHour(5)),
		limits.SlidingLog(limits.PerHour(5)),
		limits.AnchoredWindow(limits.PerHour(5)),
	} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory.MustNew(memory.Options{MaxKeys: 64})
				for i := range 20 {
					asking.Allowed(t, m, fmt.Sprint("spent", i), limit, 5)
				}
				for i := range 20_000 {
					asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint("flood", i), Limit: limit, Cost: 1})
					if i%100 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
				for i := range 20 {
					asking.Denied(t, m, fmt.Sprint("spent", i), limit, 1)
				}
				time.Sleep(2 * time.Hour)
				for i := range 20 {
					asking.Allowed(t, m, fmt.Sprint("spent", i), limit, 5)
				}
			})
		})
	}
}

func TestAFloodInOneScopeLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{MaxKeys: 8})
		limit := limits.SlidingWindow(limits.PerHour(3))
		for i := range 1000 {
			asking.Take(t, m, backends.Charge{Scope: "flooded", Key: fmt.Sprint(i), Limit: limit, Cost: 3})
		}
		if d := asking.Take(t, m, backends.Charge{Scope: "flooded", Key: "new", Limit: limit, Cost: 1}); d.Allowed {
			t.Errorf("in the flooded scope: %+v, want an early denial", d)
		}
		if d := asking.Take(t, m, backends.Charge{Scope: "calm", Key: "new", Limit: limit, Cost: 1}); !d.Allowed ||
			d.Remaining != 2 {
			t.Errorf("in a scope of its own: %+v, want a fresh key", d)
		}
	})
}

// With fewer log entries than takings, old takings are remembered for longer
// than they should be. They are never forgotten.
func TestASlidingLogOutOfSpaceDeniesEarlyAndNeverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{MaxKeys: 100, MaxLogEntries: 256})
		limit := limits.SlidingLog(limits.PerMinute(100))
		random := testrun.Random(t)
		takings := map[string][]time.Time{}
		early := 0
		for range 20_000 {
			key := fmt.Sprint(random.IntN(10))
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
			for len(takings[key]) > 0 && time.Since(takings[key][0]) >= time.Minute {
				takings[key] = takings[key][1:]
			}
			d := asking.Take(t, m, backends.Charge{Scope: "s", Key: key, Limit: limit, Cost: 1})
			switch {
			case d.Allowed && len(takings[key]) >= 100:
				t.Fatalf("allowed one more than %d in a minute", len(takings[key]))
			case d.Allowed:
				takings[key] = append(takings[key], time.Now())
			case len(takings[key]) < 100:
				early++
			}
		}
		if early == 0 {
			t.Error("the space never ran out: this test shows nothing")
		}
	})
}

func TestLogEntriesAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{MaxKeys: 100, MaxLogEntries: 256})
		limit := limits.SlidingLog(limits.PerSecond(5))
		for round := range 1000 {
			key := fmt.Sprint(round)
			for range 5 {
				asking.Allowed(t, m, key, limit, 1)
				time.Sleep(time.Millisecond)
			}
			asking.Denied(t, m, key, limit, 1)
			if round%2 == 0 {
				m.Reset(t.Context(), "s", key)
				asking.Allowed(t, m, key, limit, 5)
			} else {
				// the log becomes a window
				asking.Take(t, m, backends.Charge{Scope: "s", Key: key, Limit: limits.FixedWindow(limits.PerSecond(1000)), Cost: 1})
			}
			time.Sleep(time.Second)
		}
	})
}

// Keys of one group may displace each other while the group is stored.
func TestAGroupOfLogsMayDisplaceItsOwnKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{MaxKeys: 1, MaxLogEntries: 512})
		limit := limits.SlidingLog(limits.PerMinute(50))
		random := testrun.Random(t)
		takings := map[string][]time.Time{}
		for range 5_000 {
			time.Sleep(time.Duration(random.IntN(8000)*random.IntN(2)) * time.Millisecond) // or at the same instant
			charges := make([]backends.Charge, 9)
			for i, key := range random.Perm(10)[:len(charges)] {
				charges[i] = backends.Charge{Scope: "s", Key: fmt.Sprint(key), Limit: limit, Cost: 1, Shadow: true}
			}
			out := make([]limits.Decision, len(charges))
			if err := m.Take(t.Context(), charges, out); err != nil {
				t.Fatal(err)
			}
			for i, d := range out {
				key := charges[i].Key
				for len(takings[key]) > 0 && time.Since(takings[key][0]) >= time.Minute {
					takings[key] = takings[key][1:]
				}
				if d.Allowed {
					takings[key] = append(takings[key], time.Now())
				}
				if n := len(takings[key]); n > 50 {
					t.Fatalf("%d of key %s in a minute", n, key)
				}
			}
		}
	})
}

func TestPeekTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{})
		limit := limits.TokenBucket(limits.PerMinute(2), 2)
		charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: 2}, {Scope: "s", Key: "other", Limit: limit,
			Cost: 3}}
		for n := 1; n <= 2; n++ {
			out := make([]limits.Decision, n)
			for range 3 {
				if err := backends.Peek(t.Context(), m, charges[:n], out); err != nil {
					t.Fatal(err)
				}
				if d := out[0]; !d.Allowed || d.Remaining != 2 || d.ResetAfter != 0 {
					t.Fatalf("peek at %d: %+v", n, d)
				}
			}
			if n == 2 && (out[1].Allowed || out[1].RetryAfter != limits.Never) {
				t.Errorf("peek at a cost above the maximum: %+v", out[1])
			}
		}
		count(t, m, 0)
		asking.Allowed(t, m, "k", limit, 2)
		out := make([]limits.Decision, 1)
		backends.Peek(t.Context(), m, charges[:1], out)
		if d := out[0]; d.Allowed || d.RetryAfter != time.Minute {
			t.Errorf("peek at a spent key: %+v", d)
		}
	})
}

func TestResetMakesAKeyFresh(t *testing.T) {
	m := memory.MustNew(memory.Options{})
	limit := limits.SlidingLog(limits.PerDay(2))
	for range 3 {
		asking.Allowed(t, m, "k", limit, 1)
		asking.Allowed(t, m, "k", limit, 1)
		asking.Denied(t, m, "k", limit, 1)
		if err := backends.Reset(t.Context(), m, "s", "k"); err != nil {
			t.Fatal(err)
		}
		count(t, m, 0)
	}
	if err := m.Reset(t.Context(), "never", "seen"); err != nil {
		t.Error(err)
	}
}

func TestLimitsThatChangeForEverNeverUseUpTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{MaxKeys: 1000})
		for i := range int64(200_000) { // three times what has a place at once
			d := asking.Take(t, m,
				backends.Charge{Scope: "s", Key: fmt.Sprint(i % 500), Limit: limits.TokenBucket(limits.PerSecond(1000+i), 1000+i),
					Cost: 1})
			if !d.Allowed {
				t.Fatalf("limit %d: %+v", i, d)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
}

func TestMoreLiveLimitsThanTheStoreCanTellApartIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{MaxKeys: 100_000})
		out := make([]limits.Decision, 1)
		taken := 0
		for i := range int64(70_000) {
			err := m.Take(t.Context(),
				[]backends.Charge{{Scope: "s", Key: fmt.Sprint(i), Limit: limits.FixedWindow(limits.PerDay(1 + i)), Cost: 1}}, out)
			if err == nil {
				taken++
			} else if !strings.Contains(err.Error(), "65535") {
				t.Fatal(err)
			}
		}
		if taken != 65_535 {
			t.Errorf("%d limits had live state, want 65,535", taken)
		}
		time.Sleep(24 * time.Hour)
		asking.Allowed(t, m, "k", limits.FixedWindow(limits.PerDay(1_000_000)), 1)
	})
}

// While some goroutines bring up more limits than the store can tell apart at
// once, so that the ids of old ones are given to new ones, others are counted
// under limits that stay: exactly, also where their own limit lost its id.
func TestIDsOfOldLimitsAreUsedAgainWhileOthersDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.MustNew(memory.Options{MaxKeys: 100}) // so that places are used again, too
		const churners, limitsEach = 4, 35_000            // 140,000 in all, and 65,535 ids
		const rounds = limitsEach / 50
		const period = time.Millisecond // then fresh until the next round
		var wg sync.WaitGroup
		for g := range int64(churners) {
			wg.Go(func() {
				out := make([]limits.Decision, 1)
				for i := range int64(limitsEach) {
					n := 1000 + g*limitsEach + i
					limit := limits.TokenBucket(limits.PerSecond(n), n)
					err := m.Take(t.Context(),
						[]backends.Charge{{Scope: "churn", Key: fmt.Sprint(n), Limit: limit, Cost: 1}}, out)
					if err != nil || !out[0].Allowed {
						t.Errorf("limit %d: %+v, %v", n, out[0], err)
						return
					}
					time.Sleep(100 * time.Microsecond)
				}
			})
		}
		window := limits.FixedWindow(limits.Per(7, period))
		keys, err := m.Bind("alone", window)
		if err != nil {
			t.Fatal(err)
		}
		for i, decide := range []func() (limits.Decision, error){
			func() (limits.Decision, error) { return keys.Take("ann", 1) },
			func() (limits.Decision, error) {
				charge := backends.Charge{Scope: "first", Key: "ann", Limit: window, Cost: 1}
				charges, out := []backends.Charge{charge, charge}, make([]limits.Decision, 2)
				charges[1].Scope = "second"
				err := m.Take(t.Context(), charges, out)
				return out[0], err
			},
		} {
			var mu sync.Mutex
			took := map[int64]int{} // by window
			for range 3 {
				wg.Go(func() {
					for range rounds {
						for range 5 { // 15 in each window
							d, err := decide()
							if err != nil {
								t.Error(err)
							}
							if d.Allowed {
								mu.Lock()
								took[d.At-d.At%period.Microseconds()]++
								mu.Unlock()
							}
							time.Sleep(period / 10)
						}
						time.Sleep(period * 9 / 2)
					}
				})
			}
			defer func() {
				if len(took) != rounds {
					t.Errorf("%d: allowed in %d windows, want %d", i, len(took), rounds)
				}
				for window, n := range took {
					if n != 7 {
						t.Errorf("%d: %d allowed in the window of %v, want 7", i, n, time.UnixMicro(window))
					}
				}
			}()
		}
		wg.Wait()
	})
}

func TestChargesInAnyOrderNeverDeadlock(t *testing.T) {
	m := memory.MustNew(memory.Options{MaxKeys: 100_000}) // several shards
	limit := limits.FixedWindow(limits.PerDay(1_000_000))
	seed := testrun.Seed(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(g)))
			out := make([]limits.Decision, 6)
			for range 500 {
				charges := make([]backends.Charge, len(out))
				for i := range charges {
					charges[i] = backends.Charge{Scope: "s", Key: fmt.Sprint(random.IntN(12)), Limit: limit, Cost: 1}
				}
				if err := m.Take(context.Background(), charges, out); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for i := range 12 {
		total += 1_000_000 - asking.Take(t, m,
			backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: limit, Cost: 0}).Remaining
	}
	if total != 8*500*6 {
		t.Errorf("%d units taken, want %d", total, 8*500*6)
	}
}

func TestTheStoreStaysWithinItsMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	m := memory.MustNew(memory.Options{MaxKeys: 50_000, MaxLogEntries: 50_000})
	out := make([]limits.Decision, 1)
	for i := range 500_000 {
		limit := limits.SlidingWindow(limits.PerHour(5))
		if i%2 == 0 {
			limit = limits.SlidingLog(limits.PerHour(5))
		}
		for range 2 {
			m.Take(context.Background(), []backends.Charge{{Scope: "s", Key: fmt.Sprint(i), Limit: limit, Cost: 1}}, out)
		}
	}
	const most = 50_000*40 + 50_000*16 + 200_000
	if used := int64(heap()) - int64(before); used > most {
		t.Errorf("%d bytes for 50,000 places and as many log entries, want at most %d", used, most)
	}
	runtime.KeepAlive(m)
}

// As many limits as there are, in one scope and in many: the summary of what was
// displaced stays within 19 KiB a part of the table: 4, and 5 for each of three kinds.
func TestTheSummaryOfDisplacedKeysIsBoundedWhateverTheLimits(t *testing.T) {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{MaxKeys: 40_000, Clock: func() time.Time { return now }})
	for i := range int64(120_000) {
		scope := "s"
		if i%2 == 0 {
			scope = fmt.Sprint(i % 2000)
		}
		limit := limits.FixedWindow(limits.PerDay(1_000_000 + i%3001))
		switch i % 8 {
		case 0:
			limit = limits.Ban(limits.PerDay(10+i%3001), time.Hour)
		case 4:
			limit = limits.Distinct(limits.PerDay(10 + i%500))
		}
		asking.Take(t, m, backends.Charge{Scope: scope, Key: fmt.Sprint(i), Limit: limit, Cost: 1})
	}
	const shards, most = 4, 19 << 10
	if bytes := memory.Summary(m); bytes <= shards*(9<<10) || bytes > shards*most {
		t.Errorf("%d bytes of summaries, want at most %d, and all kinds", bytes, shards*most)
	}
}

func TestChargesTheStoreRefusesTakeNothing(t *testing.T) {
	m := memory.MustNew(memory.Options{})
	limit := limits.SlidingWindow(limits.PerMinute(5))
	good := backends.Charge{Scope: "s", Key: "good", Limit: limit, Cost: 1}
	for name, charges := range map[string][]backends.Charge{
		"negative cost":  {good, {Scope: "s", Key: "k", Limit: limit, Cost: -1}},
		"illegal limit":  {good, {Scope: "s", Key: "k", Limit: limits.SlidingWindow(limits.PerMinute(0)), Cost: 1}},
		"zero limit":     {good, {Scope: "s", Key: "k", Cost: 1}},
		"two limits":     {good, {Scope: "s", Key: "good", Limit: limits.SlidingWindow(limits.PerMinute(6)), Cost: 1}},
		"alone negative": {{Scope: "s", Key: "k", Limit: limit, Cost: -1}},
	} {
		err := m.Take(t.Context(), charges, make([]limits.Decision, len(charges)))
		if err == nil || !strings.HasPrefix(err.Error(), "memory: ") {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
	if err := m.Take(t.Context(), []backends.Charge{good}, nil); err == nil {
		t.Error("no room for the decision: want an error")
	}
	if err := m.Take(t.Context(), nil, nil); err != nil {
		t.Errorf("no charges: %v", err)
	}
	count(t, m, 0)
}

// Otherwise the few that have used much would be forgotten first, and their
// floors would deny everybody else.
func TestAFloodDisplacesThoseWhoHaveUsedLeast(t *testing.T) {
	const maxKeys = 1 << 14
	noon := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerHour(10), 10),
		limits.FixedWindow(limits.PerDay(10)),
		limits.SlidingWindow(limits.PerDay(10)),
		limits.SlidingLog(limits.PerDay(10)),
		limits.AnchoredWindow(limits.PerDay(10)),
	} {
		m := memory.MustNew(memory.Options{MaxKeys: maxKeys, Clock: func() time.Time { return noon }})
		take := func(key int, cost int64) bool {
			out := make([]limits.Decision, 1)
			charge := backends.Charge{Scope: "flood", Key: fmt.Sprint(key), Limit: limit, Cost: cost}
			if err := m.Take(t.Context(), []backends.Charge{charge}, out); err != nil {
				t.Fatal(err)
			}
			return out[0].Allowed
		}
		const spenders = 100
		for key := range spenders {
			take(key, 10)
		}
		denied := 0
		for key := spenders; key < 3*maxKeys; key++ {
			if !take(key, 1) {
				denied++
			}
		}
		if denied > maxKeys/10 {
			t.Errorf("%v: %d of %d first requests were denied, want few", limit, denied, 3*maxKeys)
		}
		for key := range spenders {
			if take(key, 1) {
				t.Errorf("%v: a key that had spent everything was allowed again", limit)
			}
		}
	}
}

func TestALimiterThatFailsLeavesADenial(t *testing.T) {
	keys, err := memory.MustNew(memory.Options{}).Bind("s", limits.FixedWindow(limits.PerMinute(1)))
	if err != nil {
		t.Fatal(err)
	}
	d := limits.Decision{Allowed: true}
	if err := keys.TakeInto(&d, "k", -1); err == nil || d != (limits.Decision{}) {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestDisplacedKeysAreCounted(t *testing.T) {
	m := memory.MustNew(memory.Options{MaxKeys: 64})
	out := make([]limits.Decision, 1)
	for i := range 500 {
		charge := backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: limits.FixedWindow(limits.PerMinute(9)), Cost: 1}
		if err := m.Take(t.Context(), []backends.Charge{charge}, out); err != nil {
			t.Fatal(err)
		}
	}
	live, _ := m.Count(t.Context())
	if int(m.Displaced())+live != 500 || live < 64 || m.MaxKeys() != 64 {
		t.Errorf("%d displaced, %d live of %d: want 500 in all", m.Displaced(), live, m.MaxKeys())
	}
	if n := memory.MustNew(memory.Options{}).MaxKeys(); n != 262_144 {
		t.Errorf("MaxKeys is %d unless set", n)
	}
}
