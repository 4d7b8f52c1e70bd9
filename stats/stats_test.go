package stats_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/stats"
)

func TestAMemoryShowsWhatItDisplaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		m := memory.MustNew(memory.Options{MaxKeys: 100})
		counts.WatchMemory("local", m)
		l := core.MustNew(core.Config[request]{
			Backend: m,
			Rules:   []core.Rule[request]{{Name: "a", Limit: limits.FixedWindow(limits.PerDay(9)), Key: byKey}},
		})
		decide := func(n int) {
			for i := range n {
				l.Decide(t.Context(), request{key: fmt.Sprint(i)})
			}
		}
		decide(50)
		begun := time.Now()
		if got, want := counts.Snapshot().Memories[0],
			(stats.MemorySnapshot{Name: "local", Keys: 50, CountedAt: begun, MaxKeys: 100}); got != want {
			t.Errorf("%+v: want %+v", got, want)
		}
		decide(1000)
		time.Sleep(9 * time.Second)
		got := counts.Snapshot().Memories[0]
		if got.Keys != 50 || got.Displaced == 0 {
			t.Errorf("%+v: want 50 keys, counted before, and some displaced", got)
		}
		time.Sleep(time.Second)
		if later := counts.Snapshot().Memories[0]; later.Keys+int(later.Displaced) != 1000 ||
			later.Displaced != got.Displaced {
			t.Errorf("%+v: want 1000 keys, displaced ones included", later)
		}
	})
}

// What leases hold is in a snapshot, and which decisions are of them in the counts of rules.
func TestLeasesShowWhatTheyHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		stack := remote.MustNewStack(memory.MustNew(memory.Options{}),
			remote.StackOptions{Lease: time.Second, Logger: discard})
		counts.WatchLeases("redis", stack.Leases)
		counts.WatchLeases("without",
			remote.MustNewStack(memory.MustNew(memory.Options{}), remote.StackOptions{Logger: discard}).Leases)
		api := counts.Limiter("api")
		limiter := core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{
				{Name: "all", Limit: limits.TokenBucket(limits.PerSecond(1000), 1000),
					Key: func(k string) (string, error) { return k, nil }},
			},
			Backend: stack, Observer: api,
		})
		for range 12 {
			limiter.Decide(t.Context(), "k")
			synctest.Wait()
		}
		shot := counts.Snapshot()
		want := []stats.LeaseSnapshot{
			{"redis", backends.LeaseCounts{Keys: 1, Held: 12, BlocksTaken: 1, UnitsTaken: 16}},
			{"without", backends.LeaseCounts{}},
		}
		if !slices.Equal(shot.Leases, want) {
			t.Errorf("got  %+v\nwant %+v", shot.Leases, want)
		}
		leased := shot.Limiters[0].Rules[0].Count(
			func(d stats.DecisionCount) bool { return d.Source == limits.SourceLease })
		if leased != 4 {
			t.Errorf("%d decisions by leases, want 4", leased)
		}
		time.Sleep(time.Second)
	})
}

func TestABreakerShowsItsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		f := &far{Memory: memory.MustNew(memory.Options{}), takes: time.Second}
		stack := remote.MustNewStack(counts.Backend("redis", f), remote.StackOptions{Logger: discard})
		counts.WatchBreaker("redis", stack.Status)
		begun := time.Now()
		if got, want := counts.Snapshot().Breakers[0],
			(stats.BreakerSnapshot{Name: "redis", State: "closed", Since: begun}); got != want {
			t.Errorf("%+v: want %+v", got, want)
		}
		charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(100)), Cost: 1}}
		f.err = errors.New("away")
		for range 8 {
			stack.Take(t.Context(), charges, make([]limits.Decision, 1))
		}
		if got := counts.Snapshot().Breakers[0]; !got.Open || got.State != "open" || got.Opened != 1 ||
			!got.Since.After(begun) {
			t.Errorf("%+v: want open", got)
		}
		f.takes, f.err = 0, nil
		time.Sleep(2 * time.Second)
		stack.Take(t.Context(), charges, make([]limits.Decision, 1))
		if got := counts.Snapshot().Breakers[0]; got.Open || got.Opened != 1 || !got.Since.Equal(time.Now()) {
			t.Errorf("%+v: want closed again", got)
		}
		synctest.Wait()
	})
}

// file is a policy file with a status that a test sets.
type file struct {
	applied, failing time.Time
	err              error
}

func (f *file) Digest() string                        { return "1f3a" }
func (f *file) Applied() time.Time                    { return f.applied }
func (f *file) Failure() (since time.Time, err error) { return f.failing, f.err }
func (f *file) Loads() (applied, failed int64)        { return 2, 7 }

func TestPoliciesAreShownAsTheyAre(t *testing.T) {
	counts := stats.New(quietly())
	f := &file{applied: time.Unix(1000, 0)}
	counts.WatchPolicy("limits.yaml", f)
	want := stats.PolicySnapshot{Name: "limits.yaml", Applied: 2, Failed: 7, Digest: "1f3a", AppliedAt: f.applied}
	if got := counts.Snapshot().Policies[0]; got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
	f.failing, f.err = time.Unix(2000, 0), errors.New("line 3: rules: is empty")
	want.FailingSince, want.Failure = f.failing, "line 3: rules: is empty"
	if got := counts.Snapshot().Policies[0]; got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
}
