package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
)

var silence = slog.New(slog.DiscardHandler)

func TestABreakerKeepsTheContractOfABackend(t *testing.T) {
	for _, honours := range []bool{true, false} {
		t.Run(fmt.Sprintf("honours deadlines %t", honours), func(t *testing.T) {
			t.Parallel()
			options := remote.BreakerOptions{Budget: time.Hour, Logger: silence}
			limitstest.Run(t, limitstest.Harness{
				Open: func(t testing.TB, now func() time.Time) backends.Backend {
					m := memory.MustNew(memory.Options{Clock: now})
					return remote.MustNewBreaker(&inner{Memory: m, honours: honours}, options)
				},
				OpenSmall: func(t testing.TB, now func() time.Time, maxKeys int) backends.Backend {
					m := memory.MustNew(memory.Options{Clock: now, MaxKeys: maxKeys})
					return remote.MustNewBreaker(&inner{Memory: m, honours: honours}, options)
				},
				Decisions: 5000,
			})
		})
	}
}

func TestADecisionTakesTheBudgetAtMost(t *testing.T) {
	for _, budget := range []time.Duration{0, 7 * time.Millisecond} {
		inBothModes(t, remote.BreakerOptions{Budget: budget}, func(w fixture) {
			w.inner.startsFailing(w.inner.hangs(w.T))
			start, want := time.Now(), budget
			if budget == 0 {
				want = 50 * time.Millisecond
			}
			w.gets(remote.ErrBudget)
			if took := time.Since(start); took != want {
				w.Errorf("took %v, want %v", took, want)
			}
		})
	}
}

func TestAnAnswerWithinTheBudgetIsPassedOn(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(w.inner.stalls(49 * time.Millisecond))
		out := []limits.Decision{{Remaining: -1, Source: limits.SourceOpen}}
		if err := w.breaker.Take(w.Context(), charge("k"), out); err != nil {
			w.Fatal(err)
		}
		if d := out[0]; !d.Allowed || d.Remaining != 999_999 || d.Source != limits.SourcePrimary {
			w.Errorf("%+v", d)
		}
	})
}

func TestTheContextCarriesTheEarlierDeadline(t *testing.T) {
	withFixture(t, true, remote.BreakerOptions{}, func(w fixture) {
		for _, own := range []time.Duration{0, 10 * time.Millisecond, time.Hour} {
			ctx, want := context.Background(), time.Now().Add(50*time.Millisecond)
			if own > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, own)
				defer cancel()
			}
			if own == 10*time.Millisecond {
				want = time.Now().Add(own)
			}
			w.inner.startsFailing(func(ctx context.Context) error {
				if got, ok := ctx.Deadline(); !ok || !got.Equal(want) {
					w.Errorf("own deadline in %v: the backend has until %v, want %v", own, got, want)
				}
				return nil
			})
			if err := w.take(ctx); err != nil {
				w.Fatal(err)
			}
		}
	})
}

func TestAnEndedContextIsRefusedUnasked(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		w.asked(0, func() {
			if err := w.take(ctx); err != context.Canceled {
				w.Errorf("error %v", err)
			}
		})
	})
}

func TestErrorsOfTheBackendArePassedOn(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(refuses)
		w.gets(errDown)
	})
}

func TestAPanicIsAnError(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(panics)
		err := w.take(w.Context())
		if err == nil || !strings.Contains(err.Error(), "weir: backend *remote_test.inner: panic: boom") {
			w.Fatalf("error %v", err)
		}
		w.opens()
		w.logged.expect(w.T, "open")
	})
}

func TestABackendThatEndsItsGoroutineHasFailed(t *testing.T) {
	withFixture(t, false, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(func(context.Context) error { runtime.Goexit(); return nil })
		if err := w.take(w.Context()); err == nil || !strings.Contains(err.Error(), "Goexit") {
			w.Fatalf("error %v", err)
		}
		w.inner.recovers()
		w.gets(nil)
	})
}

// The circuit lets one probe through and then waits for its result.
func TestProbesThatEndTheirCallersAreNotWaitedFor(t *testing.T) {
	withFixture(t, true, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(refuses)
		w.opens()
		w.inner.startsFailing(func(context.Context) error { runtime.Goexit(); return nil })
		for range 3 {
			time.Sleep(time.Minute)
			exited := true
			w.asked(1, func() {
				w.crowd(1, func(int) {
					defer func() {
						if v := recover(); v != nil {
							w.Errorf("panic: %v", v)
						}
					}()
					w.take(w.Context())
					exited = false
				})
			})
			if !exited {
				w.Error("the caller was not ended")
			}
		}
		w.inner.recovers()
		time.Sleep(time.Minute)
		w.gets(nil)
		w.is("closed")
	})
}

// panicking is a context that is broken.
type panicking struct{ context.Context }

func (panicking) Deadline() (time.Time, bool) { panic("boom") }

func TestAPanicOutsideTheBackendIsAnErrorToo(t *testing.T) {
	withFixture(t, true, remote.BreakerOptions{}, func(w fixture) {
		if err := w.take(panicking{w.Context()}); err == nil {
			w.Error("no error, though nothing was decided")
		}
		w.gets(nil)
	})
}

func TestGoroutinesAreBounded(t *testing.T) {
	withFixture(t, false, remote.BreakerOptions{}, func(w fixture) {
		before := callsUnderWay()
		w.inner.startsFailing(w.inner.hangs(w.T))
		var busy, overran atomic.Int64
		start := time.Now()
		w.crowd(1500, func(int) {
			switch err := w.take(w.Context()); {
			case errors.Is(err, remote.ErrBusy):
				busy.Add(1)
				if took := time.Since(start); took != 0 {
					w.Errorf("busy after %v, want at once", took)
				}
			case errors.Is(err, remote.ErrBudget):
				overran.Add(1)
			default:
				w.Errorf("error %v", err)
			}
		})
		if overran.Load() != 896 || busy.Load() != 604 { // 128 of 1,024 are set aside for probes
			w.Errorf("%d calls made and %d refused, want 896 and 604", overran.Load(), busy.Load())
		}
		for range 2000 {
			w.take(w.Context())
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if more := callsUnderWay() - before; more != 1024 {
			w.Errorf("%d goroutines are left behind, want 1,024 after so many probes", more)
		}
		if most := w.inner.most.Load(); most != 1024 {
			w.Errorf("%d calls at once, want 1,024", most)
		}
	})
}

// callsUnderWay returns how many goroutines of calls there are.
func callsUnderWay() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("remote.(*pendingCall).work("))
}

func TestAPlaceIsFreeAgainWhenItsCallReturns(t *testing.T) {
	withFixture(t, false, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(w.inner.stalls(90 * time.Millisecond))
		w.crowd(896, func(int) {
			if err := w.take(w.Context()); !errors.Is(err, remote.ErrBudget) {
				w.Errorf("error %v, want %v", err, remote.ErrBudget)
			}
		})
		w.gets(remote.ErrBusy)
		time.Sleep(40 * time.Millisecond)
		synctest.Wait()
		for range 10_000 {
			w.gets(nil)
		}
	})
}

// An abandoned call writes only to memory that is not the caller's. With -race,
// this test fails otherwise.
func TestAnAbandonedCallTouchesNothingOfTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		seen := make(chan string, n)
		inner := func(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
			time.Sleep(time.Second)
			for i := range out {
				seen <- charges[i].Key
				charges[i].Key = "overwritten"
				out[i] = limits.Decision{Allowed: true, Remaining: 7}
			}
			return nil
		}
		b := remote.MustNewBreaker(backendFunc(inner), remote.BreakerOptions{Logger: silence})
		charges, out := charge("k"), make([]limits.Decision, 1)
		for i := range n {
			if i%4 == 0 {
				time.Sleep(time.Minute) // five failures in a row would open it
			}
			charges[0].Key, out[0] = fmt.Sprint(i), limits.Decision{Remaining: 3}
			if err := b.Take(t.Context(), charges, out); !errors.Is(err, remote.ErrBudget) {
				t.Fatal(err)
			}
			charges[0].Key, out[0] = "reused", limits.Decision{Remaining: 4}
		}
		time.Sleep(time.Minute)
		if charges[0].Key != "reused" || out[0] != (limits.Decision{Remaining: 4}) {
			t.Errorf("charge %+v, decision %+v: want both untouched", charges[0], out[0])
		}
		for i := range n {
			if key := <-seen; key != fmt.Sprint(i) {
				t.Errorf("call %d was about key %s", i, key)
			}
		}
	})
}

type backendFunc func(context.Context, []backends.Charge, []limits.Decision) error

func (f backendFunc) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return f(ctx, charges, out)
}

// Many answers that arrive at the very end of the budget each reach their caller
// completely or not at all.
func TestAnswersAtTheLastMomentAreNotMixedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := func(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
			time.Sleep(50*time.Millisecond - time.Duration(charges[0].Cost%3))
			for i := range out {
				out[i].Remaining = charges[i].Cost
			}
			return nil
		}
		b := remote.MustNewBreaker(backendFunc(inner), remote.BreakerOptions{Logger: silence})
		w := fixture{T: t}
		var answered atomic.Int64
		for range 20 {
			w.crowd(50, func(i int) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%5 == 0 {
					defer time.AfterFunc(50*time.Millisecond-1, cancel).Stop()
				}
				charges, out := make([]backends.Charge, i%4+1), make([]limits.Decision, i%4+1)
				for j := range charges {
					charges[j] = backends.Charge{Key: fmt.Sprint(j), Limit: day, Cost: int64(i)}
				}
				if err := b.Take(ctx, charges, out); err != nil {
					return
				}
				answered.Add(1)
				for j := range out {
					if out[j].Remaining != int64(i) {
						t.Errorf("caller %d has the answer of %d", i, out[j].Remaining)
					}
				}
			})
			time.Sleep(time.Second)
		}
		if answered.Load() == 0 {
			t.Error("nobody was answered")
		}
	})
}

func TestWhatAnAbandonedCallTookStaysTaken(t *testing.T) {
	withFixture(t, false, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(w.inner.stalls(60 * time.Millisecond))
		w.gets(remote.ErrBudget)
		time.Sleep(time.Second)
		out := make([]limits.Decision, 1)
		if err := w.breaker.Take(w.Context(), charge("secret-key"), out); err != nil || out[0].Remaining != 999_998 {
			w.Errorf("%+v, %v: want what both calls left", out[0], err)
		}
	})
}

func TestDecisionsMustMatchTheCharges(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.asked(0, func() {
			if err := w.breaker.Take(w.Context(), charge("k"), nil); err == nil {
				w.Error("no room for the decision: want an error")
			}
		})
	})
}

func TestNoErrorNamesAKey(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		for _, fault := range []func(context.Context) error{refuses, panics, w.inner.hangs(w.T)} {
			w.inner.startsFailing(fault)
			for range 20 {
				if err := w.take(w.Context()); strings.Contains(err.Error(), "secret") {
					w.Errorf("a key is in %q", err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
}

func TestPeekResetAndCountGoThrough(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.gets(nil)
		ctx, out := w.Context(), make([]limits.Decision, 1)
		if err := backends.Peek(ctx, w.breaker, charge("secret-key"), out); err != nil || out[0].Remaining != 999_999 {
			w.Errorf("peek: %+v, %v", out[0], err)
		}
		if n, err := backends.Count(ctx, w.breaker); n != 1 || err != nil {
			w.Errorf("count: %d, %v", n, err)
		}
		if err := backends.Reset(ctx, w.breaker, "s", "secret-key"); err != nil {
			w.Error(err)
		}
		if err := backends.Peek(ctx, w.breaker, charge("secret-key"), out); err != nil || out[0].Remaining != 1_000_000 {
			w.Errorf("peek after reset: %+v, %v", out[0], err)
		}
		w.inner.startsFailing(refuses)
		w.opens()
		if err := backends.Peek(ctx, w.breaker, charge("k"), out); err != remote.ErrOpen {
			w.Errorf("peek while open: %v", err)
		}
		if err := backends.Reset(ctx, w.breaker, "s", "secret-key"); err != nil {
			w.Errorf("reset while open: %v", err)
		}
	})
}

func TestWhatTheInsideLacksIsUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := backendFunc(func(context.Context, []backends.Charge, []limits.Decision) error { return nil })
		b := remote.MustNewBreaker(inner, remote.BreakerOptions{Logger: silence})
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			err := backends.Peek(t.Context(), b, charge("k"), make([]limits.Decision, 1))
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("peek: %v", err)
			}
			if err := backends.Reset(t.Context(), b, "s", "k"); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("reset: %v", err)
			}
			if _, err := backends.Count(t.Context(), b); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("count: %v", err)
			}
		}
		if state(b) != "closed" {
			t.Error("what is unsupported has opened the breaker")
		}
	})
}
