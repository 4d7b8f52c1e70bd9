package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/limits"
)

func TestADeadBackendIsNotAsked(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		for _, fault := range []func(context.Context) error{refuses, w.inner.hangs(w.T)} {
			w.inner.startsFailing(fault)
			w.opens()
			start := time.Now()
			w.asked(0, func() {
				for range 10_000 {
					w.gets(breaker.ErrOpen)
				}
			})
			if took := time.Since(start); took != 0 {
				w.Errorf("10,000 decisions took %v", took)
			}
			w.inner.recovers()
			time.Sleep(time.Minute)
			for range 3 {
				w.gets(nil)
			}
			w.is(breaker.Closed)
		}
	})
}

func TestItOpensAfterFailuresInARowThatLast(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		w.inner.startsFailing(refuses)
		for range 1000 { // a reconnection, say, while 1000 callers ask
			w.gets(errDown)
		}
		w.is(breaker.Closed)
		time.Sleep(200*time.Millisecond - 1)
		w.gets(errDown)
		w.is(breaker.Closed)
		time.Sleep(time.Nanosecond)
		w.gets(errDown)
		w.is(breaker.Open)
	})
	inBothModes(t, breaker.Options{Failures: 3, Budget: time.Second}, func(w fixture) {
		w.inner.startsFailing(refuses)
		w.gets(errDown)
		time.Sleep(time.Hour)
		w.gets(errDown)
		w.is(breaker.Closed)
		w.gets(errDown)
		w.is(breaker.Open)
	})
}

func TestASuccessEndsTheRow(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		for range 4 { // below the 20 that are a window
			w.inner.startsFailing(refuses)
			for range 4 {
				time.Sleep(time.Second)
				w.gets(errDown)
			}
			w.inner.recovers()
			w.gets(nil)
			time.Sleep(time.Minute)
		}
		w.is(breaker.Closed)
		w.inner.startsFailing(refuses)
		for range 10 { // a new row, which has not lasted
			w.gets(errDown)
		}
		w.is(breaker.Closed)
	})
}

// A server that runs one command at a time delays all calls while one command is
// slow. Hundreds of calls then fail together.
func TestOneSlowCommandDoesNotOpenIt(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		stalled := func(d time.Duration) (failed int64) {
			var failures atomic.Int64
			end := time.Now().Add(2 * time.Second)
			w.inner.startsFailing(w.inner.stalls(d))
			w.crowd(200, func(i int) {
				time.Sleep(time.Duration(i) * 10 * time.Microsecond)
				for time.Now().Before(end) {
					if w.take(w.Context()) != nil {
						failures.Add(1)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
			return failures.Load()
		}
		if failed := stalled(240 * time.Millisecond); failed < 200 {
			w.Fatalf("%d calls failed, want those of all 200 callers", failed)
		}
		w.reports.expect(w.T)
		stalled(time.Second)
		w.reports.expect(w.T, breaker.Open, breaker.Closed)
	})
}

func TestItOpensWhenHalfOfTheDecisionsFailForAWhile(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		every := func(n int, pause time.Duration, times int) {
			for i := range times {
				w.inner.recovers()
				if i%n == 0 {
					w.inner.startsFailing(refuses)
				}
				w.take(w.Context())
				time.Sleep(pause)
			}
		}
		every(3, 10*time.Millisecond, 3000) // a third, for 30s
		w.is(breaker.Closed)
		time.Sleep(time.Minute)
		every(2, 10*time.Millisecond, 100) // half, but only just for 1s
		w.is(breaker.Closed)
		every(2, 10*time.Millisecond, 1)
		w.is(breaker.Open)
		w.inner.recovers()
		time.Sleep(time.Minute)
		for range 3 {
			w.gets(nil)
		}
		w.is(breaker.Closed)
		every(2, time.Second, 100) // half of them, but fewer than 20 in ten seconds
		w.is(breaker.Closed)
		time.Sleep(time.Minute)
		every(2, 100*time.Millisecond, 18)
		every(2, 100*time.Millisecond, 1)
		w.is(breaker.Closed)
		every(2, 0, 1) // the twentieth, the first among them
		w.is(breaker.Open)
	})
}

func TestCancelledCallersNeverOpenIt(t *testing.T) {
	inBothModes(t, breaker.Options{MaxCalls: 2000}, func(w fixture) {
		hang := w.inner.hangs(w.T)
		for i := range 1000 {
			w.inner.startsFailing(hang)
			ctx, cancel := context.WithCancel(w.Context())
			want := context.Canceled
			if i%2 == 0 {
				ctx, cancel = context.WithTimeout(ctx, 10*time.Millisecond)
				want = context.DeadlineExceeded
			} else {
				time.AfterFunc(10*time.Millisecond, cancel)
			}
			start := time.Now()
			if err := w.take(ctx); !errors.Is(err, want) {
				w.Fatalf("error %v, want %v", err, want)
			}
			if took := time.Since(start); took != 10*time.Millisecond {
				w.Fatalf("took %v, want 10ms", took)
			}
			cancel()
		}
		w.is(breaker.Closed)
		w.reports.expect(w.T)
	})
}

// A backend that watches the caller's deadline may fail before the context itself
// notices that the deadline has passed.
func TestABackendQuickerThanTheCallersDeadlineIsNotBlamed(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		for range 100 {
			w.inner.startsFailing(func(ctx context.Context) error { return errDown })
			if err := w.take(lateContext{w.Context()}); err != errDown {
				w.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		w.is(breaker.Closed)
	})
}

// lateContext is past its deadline but has not ended yet.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-1), true }

func TestACancelledCallerIsNoSuccessEither(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		hang := w.inner.hangs(w.T)
		for range 4 {
			w.inner.startsFailing(refuses)
			w.gets(errDown)
			time.Sleep(time.Second)
			w.inner.startsFailing(hang)
			ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
			w.take(ctx)
			cancel()
		}
		w.is(breaker.Closed)
		w.inner.startsFailing(refuses)
		w.gets(errDown) // the fifth in a row
		w.is(breaker.Open)
	})
}

func TestWrongChargesNeverOpenIt(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		other := limits.SlidingWindow(limits.PerMinute(3))
		for range 100 {
			for what, charges := range map[string][]limits.Charge{
				"negative cost": {{Scope: "s", Key: "k", Limit: day, Cost: -1}},
				"no limit":      {{Scope: "s", Key: "k", Cost: 1}},
				"two limits":    {{Scope: "s", Key: "k", Limit: day, Cost: 1}, {Scope: "s", Key: "k", Limit: other, Cost: 1}},
			} {
				if err := w.breaker.Take(w.Context(), charges, make([]limits.Decision, len(charges))); err == nil {
					w.Fatalf("%s: no error", what)
				}
				if err := w.breaker.Peek(w.Context(), charges, make([]limits.Decision, len(charges))); err == nil {
					w.Fatalf("%s: no error from peek", what)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		w.is(breaker.Closed)
		two := []limits.Charge{{Scope: "s", Key: "k", Limit: day, Cost: 1}, {Scope: "other", Key: "k", Limit: other, Cost: 1}}
		w.inner.startsFailing(refuses)
		for range 5 { // nothing wrong with these
			w.breaker.Take(w.Context(), two, make([]limits.Decision, 2))
			time.Sleep(time.Second)
		}
		w.is(breaker.Open)
	})
}

// More callers than slots are no reason to open. Calls that do not return are.
func TestBusyIsAFailureOnlyWhileCallsOverrun(t *testing.T) {
	withFixture(t, false, breaker.Options{MaxCalls: 1, Failures: 10}, func(w fixture) {
		for range 100 {
			w.inner.startsFailing(w.inner.stalls(40 * time.Millisecond))
			w.crowd(100, func(int) { w.take(w.Context()) })
		}
		w.is(breaker.Closed)
		w.inner.startsFailing(w.inner.stalls(60 * time.Millisecond))
		w.gets(breaker.ErrBudget)
		time.Sleep(20 * time.Millisecond) // and it has returned
		w.inner.startsFailing(w.inner.stalls(40 * time.Millisecond))
		w.crowd(100, func(int) { w.take(w.Context()) })
		time.Sleep(time.Minute)
		for range 8 {
			w.inner.startsFailing(refuses)
			w.gets(errDown) // eight in a row
		}
		time.Sleep(time.Minute)
		ctx, leave := context.WithCancel(w.Context())
		w.inner.startsFailing(w.inner.stalls(40 * time.Millisecond))
		go w.take(ctx)
		synctest.Wait()
		for range 100 {
			w.gets(breaker.ErrBusy)
		}
		leave()
		w.is(breaker.Closed)
		time.Sleep(time.Minute)
		w.inner.recovers()
		w.gets(nil)

		w.inner.startsFailing(w.inner.hangs(w.T))
		w.gets(breaker.ErrBudget)
		for range 8 {
			time.Sleep(25 * time.Millisecond)
			w.gets(breaker.ErrBusy)
		}
		w.is(breaker.Closed)
		w.gets(breaker.ErrBusy) // the tenth, after 200ms
		w.is(breaker.Open)
		w.reports.expect(w.T, breaker.Open)
	})
}

// Calls that hang after their callers have left keep their slots.
func TestDroppedCallsThatHangOverrunToo(t *testing.T) {
	withFixture(t, false, breaker.Options{MaxCalls: 8}, func(w fixture) {
		w.inner.startsFailing(w.inner.hangs(w.T))
		for range 7 {
			ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
			w.take(ctx)
			cancel()
		}
		for range 100 {
			w.gets(breaker.ErrBusy) // so far there are just too many callers
		}
		time.Sleep(50 * time.Millisecond)
		w.is(breaker.Closed)
		for range 5 {
			w.gets(breaker.ErrBusy)
			time.Sleep(50 * time.Millisecond)
		}
		w.is(breaker.Open)
	})
}

func TestProbesAreLimited(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		w.inner.startsFailing(w.inner.hangs(w.T))
		w.opens()
		for range 5 {
			time.Sleep(time.Second + 1)
			start := time.Now()
			var open, overran atomic.Int64
			w.asked(3, func() {
				w.crowd(100, func(int) {
					err := w.take(w.Context())
					if err == breaker.ErrOpen && time.Since(start) == 0 {
						open.Add(1)
					}
					if errors.Is(err, breaker.ErrBudget) && time.Since(start) == 50*time.Millisecond {
						overran.Add(1)
					}
				})
			})
			if open.Load() != 97 || overran.Load() != 3 {
				w.Errorf("%d failed at once and %d after the budget, want 97 and 3", open.Load(), overran.Load())
			}
		}
		w.reports.expect(w.T, breaker.Open) // and no more
	})
}

func TestAllProbesHaveToSucceed(t *testing.T) {
	inBothModes(t, breaker.Options{Probes: 2, OpenFor: time.Minute}, func(w fixture) {
		w.inner.startsFailing(refuses)
		w.opens()
		w.inner.recovers()
		time.Sleep(time.Minute - 50*time.Millisecond)
		w.gets(breaker.ErrOpen)
		time.Sleep(time.Second)
		w.gets(nil)
		w.is(breaker.Open)
		w.inner.startsFailing(refuses)
		w.gets(errDown)
		w.inner.recovers()
		w.gets(breaker.ErrOpen)
		time.Sleep(time.Minute + 1)
		w.gets(nil)
		w.is(breaker.Open)
		w.gets(nil)
		w.is(breaker.Closed)
		w.reports.expect(w.T, breaker.Open, breaker.Closed)
	})
}

func TestWhatFailedBeforeTheOutageIsForgottenAfterwards(t *testing.T) {
	inBothModes(t, breaker.Options{}, func(w fixture) {
		w.inner.startsFailing(refuses)
		w.opens()
		w.inner.recovers()
		time.Sleep(1100 * time.Millisecond)
		for range 30 {
			w.gets(nil)
		}
		w.inner.startsFailing(refuses)
		for range 20 {
			w.gets(errDown)
		}
		w.is(breaker.Closed)
		w.reports.expect(w.T, breaker.Open, breaker.Closed)
	})
}

func TestACancelledProbeIsReplaced(t *testing.T) {
	inBothModes(t, breaker.Options{Probes: 1}, func(w fixture) {
		hang := w.inner.hangs(w.T)
		w.inner.startsFailing(hang)
		w.opens()
		time.Sleep(time.Minute)
		for range 10 {
			ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
			if err := w.take(ctx); !errors.Is(err, context.DeadlineExceeded) {
				w.Fatalf("error %v, want a probe that its caller gave up", err)
			}
			cancel()
		}
		w.inner.recovers()
		w.gets(nil)
		w.is(breaker.Closed)
	})
}

// Calls that hang for ever keep their slots, but the backend may be reachable again
// over new connections.
func TestProbesHavePlacesOfTheirOwn(t *testing.T) {
	withFixture(t, false, breaker.Options{MaxCalls: 8, Probes: 1}, func(w fixture) {
		w.inner.startsFailing(w.inner.hangs(w.T))
		w.crowd(100, func(int) { w.take(w.Context()) })
		if n := w.inner.within.Load(); n != 7 {
			w.Fatalf("%d calls hang, want 7", n)
		}
		for range 9 {
			time.Sleep(50 * time.Millisecond)
			w.gets(breaker.ErrBusy)
			if w.breaker.State() == breaker.Open {
				break
			}
		}
		w.is(breaker.Open)
		w.inner.recovers()
		time.Sleep(2 * time.Second)
		w.gets(nil)
		w.is(breaker.Closed)
	})
}

// A call from before the breaker opened says nothing about the time after.
func TestLateAnswersDoNotCloseIt(t *testing.T) {
	withFixture(t, true, breaker.Options{Budget: time.Minute}, func(w fixture) {
		late := make(chan error)
		w.inner.startsFailing(func(context.Context) error { time.Sleep(6 * time.Minute); return nil })
		go func() { late <- w.take(context.Background()) }()
		synctest.Wait()
		w.inner.startsFailing(refuses)
		for range 5 {
			w.gets(errDown)
			time.Sleep(time.Minute)
		}
		w.is(breaker.Open)
		if err := <-late; err != nil {
			w.Errorf("the late answer: %v", err)
		}
		w.is(breaker.Open)
	})
}

// oneOfSeveral is an error of one server, while the other servers work.
type oneOfSeveral struct{ error }

func (oneOfSeveral) SparesBackend() bool { return true }

func TestAnErrorThatSparesTheBackendIsNotCounted(t *testing.T) {
	spared := oneOfSeveral{errors.New("one of several servers")}
	inBothModes(t, breaker.Options{}, func(w fixture) {
		w.inner.startsFailing(func(context.Context) error { return fmt.Errorf("wrapped: %w", spared) })
		for range 100 {
			time.Sleep(time.Second)
			w.gets(spared)
		}
		w.is(breaker.Closed)
		w.inner.startsFailing(refuses)
		w.opens()
		w.inner.startsFailing(func(context.Context) error { return spared })
		time.Sleep(time.Minute)
		for range 10 { // neither closes nor opens it
			w.gets(spared)
		}
		w.inner.recovers()
		for range 3 {
			w.gets(nil)
		}
		w.is(breaker.Closed)
	})
}
