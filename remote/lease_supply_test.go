package remote_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// What was taken is held, spent, returned or void.
func TestLeasesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := limits.SlidingWindow(limits.PerSecond(1000))
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // a window begins
		inner := newLeaseBackend()
		cache := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
		expect := func(step string, want backends.LeaseCounts) {
			t.Helper()
			synctest.Wait()
			if got := cache.Counts(); got != want {
				t.Errorf("%s:\ngot  %+v\nwant %+v", step, got, want)
			}
		}
		expect("at first", backends.LeaseCounts{})
		ch := busy(t, cache, limit)
		expect("a block", backends.LeaseCounts{Keys: 1, Held: 16, BlocksTaken: 1, UnitsTaken: 16})
		for range 5 {
			takeOf(t, cache, ch)
		}
		expect("5 spent", backends.LeaseCounts{Keys: 1, Held: 11, BlocksTaken: 1, UnitsTaken: 16})
		time.Sleep(50 * time.Millisecond)
		expect("the lease is over", backends.LeaseCounts{BlocksTaken: 1, UnitsTaken: 16, UnitsReturned: 11})

		busy(t, cache, limit) // known as busy: its first charge asks for a block, the others spend 7
		want := backends.LeaseCounts{Keys: 1, Held: 18, BlocksTaken: 2, UnitsTaken: 41, UnitsReturned: 11}
		expect("another block", want)
		if err := cache.Reset(t.Context(), "s", "k"); err != nil {
			t.Fatal(err)
		}
		want.Keys, want.Held, want.UnitsVoid = 0, 0, 18
		expect("after a reset", want)

		time.Sleep(time.Second)
		for range 7 {
			takeOf(t, cache, ch)
		}
		inner.noBlocks = true
		takeOf(t, cache, ch)
		want.BlocksFailed++
		expect("a block that nobody answers", want)
	})
}

// Units of a window that has ended are void, and so are all of a backend that cannot end
// what it has taken.
func TestUnitsThatCannotReturnAreVoid(t *testing.T) {
	for name, b := range map[string]func(*memory.Memory) backends.Backend{
		"of a window":                func(m *memory.Memory) backends.Backend { return m },
		"of a backend that ends not": func(m *memory.Memory) backends.Backend { return struct{ backends.Backend }{m} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second - 20*time.Millisecond)))
				cache := remote.MustNewLeaseCache(b(memory.MustNew(memory.Options{})), remote.LeaseOptions{})
				busy(t, cache, limits.FixedWindow(limits.PerSecond(1000)))
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				if got, want := cache.Counts(), (backends.LeaseCounts{BlocksTaken: 1, UnitsTaken: 16, UnitsVoid: 16}); got != want {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
			})
		})
	}
}

// Counters are about the whole life of a cache in which units went every way.
func TestAllUnitsOfLeasesAreAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := remote.MustNewLeaseCache(newLeaseBackend(), remote.LeaseOptions{})
		spent := int64(0)
		other := backends.Charge{Scope: "other", Key: "k", Limit: limits.AnchoredWindow(limits.PerHour(100)), Cost: 1}
		for i := range 2000 {
			rate := limits.PerSecond(1000)
			limit := []limits.Limit{leased, limits.SlidingWindow(rate), limits.FixedWindow(rate)}[i%3]
			charges := []backends.Charge{{Scope: "s", Key: fmt.Sprint(i % 3), Limit: limit, Cost: 1 + int64(i%2)}}
			if i%5 == 0 {
				charges = append(charges, other)
			}
			out := make([]limits.Decision, len(charges))
			if err := cache.Take(t.Context(), charges, out); err != nil {
				t.Fatal(err)
			}
			if out[0].Source == limits.SourceLease && out[len(out)-1].Allowed {
				spent += charges[0].Cost
			}
			time.Sleep(time.Duration(i%7/3) * time.Millisecond)
			synctest.Wait()
			if n := cache.Counts(); n.UnitsTaken-n.UnitsReturned-n.UnitsVoid-n.Held < spent {
				t.Fatalf("charge %d: %d spent, more than %+v says", i, spent, n)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := cache.Counts(); n.Held != 0 || n.Keys != 0 || n.UnitsTaken != spent+n.UnitsReturned+n.UnitsVoid ||
			n.UnitsReturned == 0 || n.UnitsVoid == 0 || spent == 0 {
			t.Errorf("%d spent of %+v", spent, n)
		}
	})
}
