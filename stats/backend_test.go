package stats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
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
