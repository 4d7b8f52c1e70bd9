package stats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/stats"
)

func TestATimedBackendKeepsTheContract(t *testing.T) {
	limitstest.Run(t, limitstest.Harness{
		Open: func(_ testing.TB, now func() time.Time) backends.Backend {
			return stats.New(quietly()).Backend("memory", memory.MustNew(memory.Options{Clock: now}))
		},
	})
}

// far is a backend that takes a time for each call and fails if err is set.
type far struct {
	*memory.Memory
	takes time.Duration
	err   error
}

func (f *far) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	time.Sleep(f.takes)
	if f.err != nil {
		return f.err
	}
	return f.Memory.Take(ctx, charges, out)
}

func (f *far) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	time.Sleep(f.takes)
	return f.Memory.Settle(ctx, endings, out)
}

func (f *far) HonoursDeadline() bool { return true }

func TestCallsOfABackendAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		f := &far{Memory: memory.MustNew(memory.Options{}), takes: 3 * time.Millisecond}
		b := counts.Backend("redis", f)
		charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(5)), Cost: 1}}
		out := make([]limits.Decision, 1)
		take := func() { b.Take(t.Context(), charges, out) }
		take()
		f.takes = 250 * time.Microsecond // a bound belongs to its own bucket
		take()
		f.takes = time.Hour
		take()
		f.takes = time.Second
		for _, f.err = range []error{
			context.Canceled, fmt.Errorf("x: %w", context.DeadlineExceeded), os.ErrDeadlineExceeded,
			errors.ErrUnsupported, errors.New("away"), fmt.Errorf("read tcp 192.0.2.1: %w", errors.New("reset")),
		} {
			take()
		}
		ending := backends.Ending{
			Scope: "s", Key: "k", Limit: charges[0].Limit, Taken: 1, Ticket: out[0].Ticket, Lasts: time.Minute,
		}
		if err := b.Settle(t.Context(), []backends.Ending{ending}, make([]limits.Settlement, 1)); err != nil {
			t.Error(err)
		}
		if err := b.Reset(t.Context(), "s", "k"); err != nil {
			t.Error(err)
		}
		shot := counts.Snapshot().Backends[0]
		took := shot.Operations[0]
		if got := took.Succeeded; got.Count() != 3 || got.Counts[0] != 1 || got.Counts[4] != 1 ||
			got.Counts[len(got.Bounds)] != 1 || got.Sum != time.Hour+3250*time.Microsecond {
			t.Errorf("succeeded: %+v", got)
		}
		if got, want := took.Errors, (stats.Errors{Timeout: 2, Canceled: 1, Unsupported: 1, Other: 2}); got != want ||
			took.Failed.Count() != 6 {
			t.Errorf("errors: %+v: want %+v", got, want)
		}
		for i, want := range []int64{3, 0, 1, 1, 0} {
			if op := shot.Operations[i]; op.Succeeded.Count() != want {
				t.Errorf("%s: %d calls succeeded: want %d", op.Name, op.Succeeded.Count(), want)
			}
		}
	})
}

// plain is a backend that can do nothing but take.
type plain struct{ m *memory.Memory }

func (p plain) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return p.m.Take(ctx, charges, out)
}

func TestATimedBackendCanDoWhatTheOtherCan(t *testing.T) {
	counts := stats.New(quietly())
	m := memory.MustNew(memory.Options{})
	full, bare := counts.Backend("a", &far{Memory: m}), counts.Backend("b", plain{m})
	if !backends.CanSettle(full) || backends.CanSettle(bare) {
		t.Error("settling is not that of the inner backend")
	}
	if ban := limits.Ban(limits.PerHour(3), time.Hour); !backends.Supports(full, ban) || backends.Supports(bare, ban) {
		t.Error("support is not that of the inner backend")
	}
	if !full.HonoursDeadline() || bare.HonoursDeadline() {
		t.Error("deadlines are not those of the inner backend")
	}
	for verb, err := range map[string]error{
		"peek":   bare.Peek(t.Context(), nil, nil),
		"settle": bare.Settle(t.Context(), nil, nil),
		"reset":  bare.Reset(t.Context(), "s", "k"),
		"count":  second(bare.Count(t.Context())),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v: want unsupported", verb, err)
		}
	}
	if n, err := full.Count(t.Context()); n != 0 || err != nil {
		t.Errorf("count: %d, %v", n, err)
	}
}

func second(_ int, err error) error { return err }

func TestAPanicOfABackendIsCountedAndGoesOn(t *testing.T) {
	counts := stats.New(quietly())
	b := counts.Backend("redis", plain{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		b.Take(t.Context(), make([]backends.Charge, 1), make([]limits.Decision, 1))
	}()
	if got := counts.Snapshot().Backends[0].Operations[0].Errors.Other; got != 1 {
		t.Errorf("%d errors: want 1", got)
	}
}

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
