package limitstest

import (
	"context"
	"errors"
	"maps"
	"math/big"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// TestWhatABackendIsFreeToDoPasses runs the suite on correct backends that
// differ in everything the contract leaves open.
func TestWhatABackendIsFreeToDoPasses(t *testing.T) {
	type opener func(now func() time.Time) backends.Backend
	for name, open := range map[string]opener{
		"keeping state for ever": func(now func() time.Time) backends.Backend { return NewExact(now) },
		"dropping state once fresh": func(now func() time.Time) backends.Backend {
			return &forgetful{exact: NewExact(now)}
		},
		"refusing when time is up, and no extras": func(now func() time.Time) backends.Backend {
			return bare{punctual{NewExact(now)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Run(t, Harness{
				Open:      func(_ testing.TB, now func() time.Time) backends.Backend { return open(now) },
				OpenSmall: func(_ testing.TB, now func() time.Time, _ int) backends.Backend { return open(now) },
				Decisions: testrun.Sized(100, 1000),
			})
		})
	}
}

// forgetful reads the clock before it has the lock, so that calls arrive late,
// forgets whatever is fresh whenever it is called, and cannot count. A call that
// finds that something was forgotten after it looked at the clock looks once more.
type forgetful struct {
	exact    *Exact
	forgotAt int64
}

func (f *forgetful) Take(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
	now := f.lock()
	if now < f.forgotAt {
		f.exact.mu.Unlock()
		now = f.lock()
	}
	defer f.exact.mu.Unlock()
	before := len(f.exact.ledger)
	for _, c := range charges {
		if a := (accountOf(c)); f.exact.ledger[a].isFresh(now) {
			delete(f.exact.ledger, a)
		}
	}
	if len(f.exact.ledger) < 32 { // looking at all of many takes too long
		f.exact.ledger.dropFresh(now)
	}
	if len(f.exact.ledger) < before {
		f.forgotAt = max(f.forgotAt, now)
	}
	changes, err := f.exact.ledger.take(now, charges, out)
	maps.Copy(f.exact.ledger, changes)
	return err
}

// lock looks at the clock, and then locks.
func (f *forgetful) lock() (now int64) {
	now = f.exact.now().UnixMicro()
	runtime.Gosched()
	f.exact.mu.Lock()
	return now
}

func (f *forgetful) Supports(limit limits.Limit) bool { return f.exact.Supports(limit) }

func (f *forgetful) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return f.exact.Peek(ctx, charges, out)
}

func (f *forgetful) Reset(ctx context.Context, scope, key string) error {
	return f.exact.Reset(ctx, scope, key)
}

// punctual does nothing for a context that has ended.
type punctual struct{ *Exact }

func (p punctual) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.Exact.Take(ctx, charges, out)
}

// bare is a wrapper that has every method and supports one.
type bare struct{ backends.Backend }

func (b bare) Unwrap() backends.Backend { return b.Backend }

func (bare) Peek(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.ErrUnsupported
}
func (bare) Reset(context.Context, string, string) error { return errors.ErrUnsupported }
func (bare) Count(context.Context) (int, error)          { return 0, errors.ErrUnsupported }

// TestWaitsAreTheLeastByDefinition compares the closed forms of the model with
// the definition: d is the least wait if n units fit at x+d, and not before.
func TestWaitsAreTheLeastByDefinition(t *testing.T) {
	random := testrun.Random(t)
	for range 2000 {
		l := randomLimit(random)
		if !isRate(l) {
			continue
		}
		x := newYear.UnixMicro() + random.Int64N(day.Microseconds())
		u := fresh(l, x)
		for range 1 + random.IntN(4) {
			if n := upTo(random, l.Burst()); u.inUse(x)+n <= l.Burst() {
				u = u.plus(x, n)
			}
			x += upTo(random, micros(l))
		}
		n := upTo(random, l.Burst())
		fits := func(x int64) bool { return u.inUse(x)+n <= l.Burst() }
		if !fits(x) {
			if d := u.wait(x, n); d <= 0 || fits(x+d-1) || !fits(x+d) {
				t.Errorf("%s with %+v: %d units wait %d", showLimit(l), u, n, d)
			}
		}
		freshAt := u.freshAt()
		if u.inUse(max(x, freshAt)) != 0 {
			t.Errorf("%s with %+v is said to be fresh at %d, and has units in use", showLimit(l), u, freshAt)
		}
		if isBucket(l) && freshAt > u.at && u.levelAt(freshAt-1).Sign() == 0 {
			t.Errorf("%s with %+v is fresh before %d", showLimit(l), u, freshAt)
		}
	}
}

func TestRationalsRoundTheRightWay(t *testing.T) {
	for _, test := range []struct{ a, b, down, up int64 }{
		{7, 2, 3, 4}, {6, 2, 3, 3}, {-7, 2, -4, -3}, {-6, 2, -3, -3}, {0, 5, 0, 0}, {1, 1_000_000_000, 0, 1},
	} {
		r := big.NewRat(test.a, test.b)
		if floor(r) != test.down || ceil(r) != test.up {
			t.Errorf("%v: floor %d, ceil %d, want %d and %d", r, floor(r), ceil(r), test.down, test.up)
		}
	}
}
