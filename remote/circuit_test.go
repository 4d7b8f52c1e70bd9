package remote_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

func TestADeadBackendIsNotAsked(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		for _, fault := range []func(context.Context) error{refuses, w.inner.hangs(w.T)} {
			w.inner.startsFailing(fault)
			w.opens()
			start := time.Now()
			w.asked(0, func() {
				for range 10_000 {
					w.gets(remote.ErrOpen)
				}
			})
			if took := time.Since(start); took != 0 {
				w.Errorf("10,000 decisions took %v", took)
			}
			w.inner.recovers()
			time.Sleep(time.Minute)
			w.gets(nil)
			w.is("closed")
		}
	})
}

func TestItOpensAfterFailuresInARowThatLast(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(refuses)
		for range 1000 { // a reconnection, say, while 1000 callers ask
			w.gets(errDown)
		}
		w.is("closed")
		time.Sleep(200*time.Millisecond - 1)
		w.gets(errDown)
		w.is("closed")
		time.Sleep(time.Nanosecond)
		w.gets(errDown)
		w.is("open")
	})
	inBothModes(t, remote.BreakerOptions{Budget: time.Minute}, func(w fixture) {
		w.inner.startsFailing(refuses)
		for range 4 {
			w.gets(errDown)
		}
		time.Sleep(time.Hour) // and they are forgotten
		for range 4 {
			w.gets(errDown)
			time.Sleep(time.Minute)
		}
		w.is("closed")
		w.gets(errDown)
		w.is("open")
	})
}

func TestFewerThanFiveDecisionsInTenSecondsNeverOpenIt(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(refuses)
		for range 100 {
			time.Sleep(2600 * time.Millisecond)
			w.gets(errDown)
		}
		w.is("closed")
		time.Sleep(10 * time.Second)
		for range 5 {
			w.is("closed")
			time.Sleep(2200 * time.Millisecond)
			w.gets(errDown)
		}
		w.is("open")
	})
}

func TestASuccessEndsTheRow(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		for range 4 {
			w.inner.startsFailing(refuses)
			for range 4 {
				time.Sleep(time.Second)
				w.gets(errDown)
			}
			w.inner.recovers()
			w.gets(nil)
			time.Sleep(time.Minute)
		}
		w.is("closed")
		w.inner.startsFailing(refuses)
		for range 10 { // a new row, which has not lasted
			w.gets(errDown)
		}
		w.is("closed")
	})
}

// A server that runs one command at a time delays all calls while one command is
// slow. Hundreds of calls then fail together.
func TestOneSlowCommandDoesNotOpenIt(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
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
		w.logged.expect(w.T)
		stalled(time.Second)
		w.logged.expect(w.T, "open", "closed")
	})
}

func TestItOpensWhenHalfOfTheDecisionsFailForAWhile(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
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
		w.is("closed")
		time.Sleep(time.Minute)
		every(2, 10*time.Millisecond, 100) // half, but only just for 1s
		w.is("closed")
		every(2, 10*time.Millisecond, 1)
		w.is("open")
		w.inner.recovers()
		time.Sleep(time.Minute)
		w.gets(nil)
		w.is("closed")
		every(2, 1200*time.Millisecond, 100) // half, but fewer than ten in ten seconds
		w.is("closed")
		time.Sleep(time.Minute)
		w.inner.recovers()
		for range 1000 { // well for ten seconds
			w.gets(nil)
			time.Sleep(10 * time.Millisecond)
		}
		every(2, 10*time.Millisecond, 900) // half, for nine
		w.is("closed")
		every(2, 10*time.Millisecond, 101) // for ten: what was before is forgotten
		w.is("open")
	})
}

// Twenty callers at once on a server that was idle, and one slow command.
func TestOneSlowCommandAfterAQuietTimeDoesNotOpenIt(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.gets(nil)
		w.inner.startsFailing(w.inner.stalls(200 * time.Millisecond))
		w.crowd(20, func(i int) {
			for range 4 {
				time.Sleep(time.Duration(i%3) * time.Millisecond)
				w.take(w.Context())
			}
		})
		w.is("closed")
	})
}

func TestCancelledCallersNeverOpenIt(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		hang := w.inner.hangs(w.T)
		for i := range 800 {
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
		w.is("closed")
		w.logged.expect(w.T)
	})
}

// A backend that watches the caller's deadline may fail before the context itself
// notices that the deadline has passed.
func TestABackendQuickerThanTheCallersDeadlineIsNotBlamed(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		for range 100 {
			w.inner.startsFailing(func(ctx context.Context) error { return errDown })
			if err := w.take(lateContext{w.Context()}); err != errDown {
				w.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		w.is("closed")
	})
}

// lateContext is past its deadline but has not ended yet.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-1), true }

func TestACancelledCallerIsNoSuccessEither(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
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
		w.is("closed")
		w.inner.startsFailing(refuses)
		w.gets(errDown) // the fifth in a row
		w.is("open")
	})
}

func TestWrongChargesNeverOpenIt(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		other := limits.SlidingWindow(limits.PerMinute(3))
		for range 100 {
			for what, charges := range map[string][]backends.Charge{
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
		w.is("closed")
		two := []backends.Charge{
			{Scope: "s", Key: "k", Limit: day, Cost: 1}, {Scope: "other", Key: "k", Limit: other, Cost: 1},
		}
		w.inner.startsFailing(refuses)
		for range 5 { // nothing wrong with these
			w.breaker.Take(w.Context(), two, make([]limits.Decision, 2))
			time.Sleep(time.Second)
		}
		w.is("open")
	})
}

// More callers than places are no reason to open. Calls that do not return are.
func TestBusyIsAFailureOnlyWhileMostCallsAreAbandoned(t *testing.T) {
	withFixture(t, false, remote.BreakerOptions{}, func(w fixture) {
		for range 6 {
			w.inner.startsFailing(w.inner.stalls(40 * time.Millisecond))
			w.crowd(3000, func(i int) {
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				if i%4 == 0 {
					time.AfterFunc(time.Millisecond, cancel) // a quarter leaves
				}
				w.take(ctx)
				w.take(w.Context())
			})
		}
		w.is("closed")

		time.Sleep(time.Millisecond) // until the goroutines of all calls have ended
		w.inner.startsFailing(w.inner.hangs(w.T))
		w.crowd(896, func(int) {
			ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
			defer cancel()
			w.take(ctx)
		})
		for range 4 { // nobody waits for an answer any more
			w.gets(remote.ErrBusy)
			time.Sleep(50 * time.Millisecond)
		}
		w.is("closed")
		w.gets(remote.ErrBusy)
		w.is("open")
		w.logged.expect(w.T, "open")
	})
}

func TestOneDecisionAtATimeIsAProbe(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(w.inner.hangs(w.T))
		w.opens()
		for range 5 {
			time.Sleep(time.Second + 1)
			start := time.Now()
			var refused, overran atomic.Int64
			w.asked(1, func() {
				w.crowd(100, func(int) {
					err := w.take(w.Context())
					if err == remote.ErrOpen && time.Since(start) == 0 {
						refused.Add(1)
					}
					if errors.Is(err, remote.ErrBudget) && time.Since(start) == 50*time.Millisecond {
						overran.Add(1)
					}
				})
			})
			if refused.Load() != 99 || overran.Load() != 1 {
				w.Errorf("%d failed at once and %d after the budget, want 99 and 1", refused.Load(), overran.Load())
			}
		}
		w.logged.expect(w.T, "open") // and no more
	})
}

func TestAProbeThatFailsIsRepeatedAfterOpenFor(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{OpenFor: time.Minute}, func(w fixture) {
		w.inner.startsFailing(refuses)
		w.opens()
		time.Sleep(time.Minute - 50*time.Millisecond)
		w.gets(remote.ErrOpen)
		time.Sleep(time.Second)
		w.gets(errDown)
		w.inner.recovers()
		time.Sleep(time.Minute)
		w.gets(remote.ErrOpen)
		time.Sleep(time.Nanosecond)
		w.gets(nil)
		w.is("closed")
		w.logged.expect(w.T, "open", "closed")
	})
}

func TestWhatFailedBeforeTheOutageIsForgottenAfterwards(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
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
		w.is("closed")
		w.logged.expect(w.T, "open", "closed")
	})
}

func TestACancelledProbeIsReplaced(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
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
		w.is("closed")
	})
}

// Calls that hang for ever keep their slots, but the backend may be reachable again
// over new connections.
func TestProbesHavePlacesOfTheirOwn(t *testing.T) {
	withFixture(t, false, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(w.inner.hangs(w.T))
		w.crowd(1500, func(int) { w.take(w.Context()) })
		if n := w.inner.within.Load(); n != 896 {
			w.Fatalf("%d calls hang, want 896", n)
		}
		for range 9 {
			time.Sleep(50 * time.Millisecond)
			w.gets(remote.ErrBusy)
			if state(w.breaker) == "open" {
				break
			}
		}
		w.is("open")
		w.inner.recovers()
		time.Sleep(2 * time.Second)
		w.gets(nil)
		w.is("closed")
	})
}

// A call from before the breaker opened says nothing about the time after.
func TestLateAnswersDoNotCloseIt(t *testing.T) {
	withFixture(t, true, remote.BreakerOptions{Budget: time.Minute}, func(w fixture) {
		late := make(chan error)
		w.inner.startsFailing(func(context.Context) error { time.Sleep(6 * time.Minute); return nil })
		go func() { late <- w.take(context.Background()) }()
		synctest.Wait()
		w.inner.startsFailing(refuses)
		for range 5 {
			w.gets(errDown)
			time.Sleep(time.Minute)
		}
		w.is("open")
		if err := <-late; err != nil {
			w.Errorf("the late answer: %v", err)
		}
		w.is("open")
	})
}

// oneOfSeveral is an error of one server, while the other servers work.
type oneOfSeveral struct{ error }

func (oneOfSeveral) SparesBackend() bool { return true }

func TestAnErrorThatSparesTheBackendIsNotCounted(t *testing.T) {
	spared := oneOfSeveral{errors.New("one of several servers")}
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		w.inner.startsFailing(func(context.Context) error { return fmt.Errorf("wrapped: %w", spared) })
		for range 100 {
			time.Sleep(time.Second)
			w.gets(spared)
		}
		w.is("closed")
		w.inner.startsFailing(refuses)
		w.opens()
		w.inner.startsFailing(func(context.Context) error { return spared })
		time.Sleep(time.Minute)
		for range 10 { // neither closes nor opens it
			w.gets(spared)
		}
		w.inner.recovers()
		w.gets(nil)
		w.is("closed")
	})
}
