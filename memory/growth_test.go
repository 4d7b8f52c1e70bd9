package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// A store grows in the middle of takings, groups, logs, resets and peeks. A map
// says what it must have.
func TestAStoreHasEveryKeyAtEverySizeItGrowsThrough(t *testing.T) {
	choices := []limits.Limit{
		limits.TokenBucket(limits.PerDay(20), 20), limits.FixedWindow(limits.PerDay(20)),
		limits.SlidingWindow(limits.PerDay(20)), limits.SlidingLog(limits.PerDay(20)),
	}
	for _, maxKeys := range []int{1, 9, 30, 1000, 8192, 20_000, 200_000} {
		if raceEnabled && maxKeys > 8192 { // some ten times as slow
			continue
		}
		random := rand.New(rand.NewPCG(uint64(maxKeys), 1))
		now := time.Date(2026, time.January, 1, 1, 0, 0, 0, time.UTC)
		m := memory.MustNew(memory.Options{MaxKeys: maxKeys, Clock: func() time.Time { return now }})
		used := map[int]int64{}
		charge := func(key int) backends.Charge {
			scope := key % len(choices)
			return backends.Charge{Scope: fmt.Sprint(scope), Key: fmt.Sprint(key), Limit: choices[scope], Cost: 1}
		}
		check := func(key int) {
			t.Helper()
			out := make([]limits.Decision, 1)
			ch := charge(key)
			ch.Cost = 0
			if err := m.Peek(t.Context(), []backends.Charge{ch}, out); err != nil || out[0].Remaining != 20-used[key] {
				t.Fatalf("MaxKeys %d, %d live: key %d of %v: %+v, %v, want %d used", maxKeys, len(used), key, ch.Limit, out[0], err,
					used[key])
			}
		}
		next := 0
		key := func() int { // a new one, or one that may be known
			if next == 0 || len(used) < maxKeys && random.IntN(3) > 0 {
				next++
				return next
			}
			return 1 + random.IntN(next)
		}
		whole := 1 // how many keys there are when all are looked at next
		for range 100 + 3*maxKeys {
			now = now.Add(time.Millisecond)
			switch random.IntN(10) {
			case 0:
				k := key()
				if err := m.Reset(t.Context(), charge(k).Scope, charge(k).Key); err != nil {
					t.Fatal(err)
				}
				delete(used, k)
			case 1:
				check(key())
			default:
				var charges []backends.Charge
				var keys []int
				fits := true
				for range 1 + random.IntN(3)*random.IntN(2) {
					k := key()
					if slices.Contains(keys, k) || used[k] == 0 && len(used)+len(keys) >= maxKeys {
						continue
					}
					charges, keys = append(charges, charge(k)), append(keys, k)
					fits = fits && used[k] < 20
				}
				out := make([]limits.Decision, len(charges))
				if err := m.Take(t.Context(), charges, out); err != nil {
					t.Fatal(err)
				}
				all := true
				for i := range out {
					all = all && out[i].Allowed
				}
				if all != fits {
					t.Fatalf("MaxKeys %d, %d live: keys %v allowed: %v, want %v", maxKeys, len(used), keys, all, fits)
				}
				if fits {
					for _, k := range keys {
						used[k]++
					}
				}
			}
			if len(used) >= whole {
				whole += whole/2 + 1
				if raceEnabled {
					whole *= 2
				}
				for k := range used {
					check(k)
				}
				count(t, m, len(used))
			}
		}
		for k := 1; k <= next; k++ {
			check(k)
		}
		count(t, m, len(used))
		if len(used) < maxKeys*9/10 {
			t.Errorf("MaxKeys %d: %d live keys only", maxKeys, len(used))
		}
	}
}

// While four goroutines bring new keys and charge them, one key and each other's
// keys, another counts, peeks and resets. No unit is lost, none counted twice.
func TestAStoreThatGrowsUnderItsCallersLosesNothing(t *testing.T) {
	const callers = 4
	keys := 60_000 // of each
	if raceEnabled {
		keys = 20_000
	}
	noon := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{MaxKeys: 3 * callers * keys, Clock: func() time.Time { return noon }})
	limit := limits.FixedWindow(limits.PerDay(1_000_000))
	charge := func(key string) backends.Charge { return backends.Charge{Scope: "s", Key: key, Limit: limit, Cost: 1} }
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			out := make([]limits.Decision, 2)
			take := func(charges ...backends.Charge) {
				if err := m.Take(context.Background(), charges, out[:len(charges)]); err != nil || !out[0].Allowed {
					t.Error(out[0], err)
				}
			}
			for i := range keys {
				take(charge(fmt.Sprint(g, " ", i)))
				take(charge("hot"))
				take(charge(fmt.Sprint((g+1)%callers, " ", i)), charge("hot"))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		out := make([]limits.Decision, 1)
		for i := range 20 {
			if _, err := m.Count(context.Background()); err != nil {
				t.Error(err)
			}
			for j := range 1000 {
				ch := charge(fmt.Sprint("peeked ", i, j))
				if err := m.Peek(context.Background(), []backends.Charge{ch}, out); err != nil || out[0].Remaining != 1_000_000 {
					t.Error(out[0], err)
				}
				if err := m.Take(context.Background(), []backends.Charge{ch}, out); err != nil || out[0].Remaining != 999_999 {
					t.Error(out[0], err)
				}
				if err := m.Reset(context.Background(), "s", ch.Key); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	wg.Wait()
	<-done
	left := func(key string) int64 {
		return asking.Take(t, m, backends.Charge{Scope: "s", Key: key, Limit: limit, Cost: 0}).Remaining
	}
	if got, want := 1_000_000-left("hot"), int64(2*callers*keys); got != want {
		t.Errorf("%d units of the key that all charge are taken, want %d", got, want)
	}
	for g := range callers {
		for i := range keys {
			if got := 1_000_000 - left(fmt.Sprint(g, " ", i)); got != 2 {
				t.Fatalf("key %d of caller %d: %d units, want 2", i, g, got)
			}
		}
	}
	count(t, m, callers*keys+1)
}

func TestWhatIsNotUsedCostsKilobytes(t *testing.T) {
	for name, test := range map[string]struct {
		most uint64
		make func()
	}{
		"a store":                  {32 << 10, func() { memory.MustNew(memory.Options{}) }},
		"a store for few keys":     {8 << 10, func() { memory.MustNew(memory.Options{MaxKeys: 1000}) }},
		"a store for ten millions": {1 << 20, func() { memory.MustNew(memory.Options{MaxKeys: 10_000_000}) }},
	} {
		if bytes := asking.Allocated(test.make); bytes > test.most {
			t.Errorf("%s: %d bytes, want at most %d", name, bytes, test.most)
		}
	}
}

func TestAStoreCostsWhatItsKeysDo(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	limit := limits.SlidingWindow(limits.PerDay(1))
	for _, keys := range []int{0, 100, 1000, 3000, 10_000, 20_000, 30_000, 40_000} { // of 262,144
		before := heap()
		m := memory.MustNew(memory.Options{})
		for i := range keys {
			asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: limit, Cost: 1})
		}
		if used, most := int64(heap())-int64(before), int64(50_000+110*keys); used > most {
			t.Errorf("%d bytes for %d keys, want at most %d", used, keys, most)
		}
		runtime.KeepAlive(m)
	}
}

func TestAStoreThatHasGrownAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{MaxKeys: 1000, Clock: func() time.Time { return now }})
	keys := make([]string, 20_000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	charges := []backends.Charge{{Scope: "s", Limit: limits.SlidingWindow(limits.PerDay(1)), Cost: 1}}
	out := make([]limits.Decision, 1)
	next := 0
	take := func() {
		charges[0].Key = keys[next]
		next++
		if err := m.Take(context.Background(), charges, out); err != nil {
			t.Fatal(err)
		}
	}
	for range 10_000 {
		take()
	}
	if n := testing.AllocsPerRun(5000, take); n != 0 {
		t.Errorf("%v allocations for a new key in a store that is full", n)
	}
}
