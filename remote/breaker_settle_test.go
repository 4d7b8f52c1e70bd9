package remote_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// requestCharges are charges of every kind: held, with an end, and plain.
func requestCharges() []backends.Charge {
	return []backends.Charge{
		{Scope: "held", Key: "k", Limit: limits.Concurrent(2), Cost: 2},
		{Scope: "ends", Key: "k", Limit: limits.FixedWindow(limits.PerDay(10)), Cost: 4, Lasts: time.Second},
		{Scope: "plain", Key: "k", Limit: limits.FixedWindow(limits.PerDay(10)), Cost: 4},
	}
}

// remaining returns what is left of requestCharges.
func (w fixture) remaining() (left [3]int64) {
	w.Helper()
	out := make([]limits.Decision, 3)
	if err := w.inner.Memory.Peek(context.Background(), requestCharges(), out); err != nil {
		w.Fatal(err)
	}
	for i := range out {
		left[i] = out[i].Remaining
	}
	return left
}

func TestATakingThatComesTooLateIsEnded(t *testing.T) {
	for name, call := range map[string]func(w fixture) error{
		"past the budget": func(w fixture) error {
			return w.breaker.Take(context.Background(), requestCharges(), make([]limits.Decision, 3))
		},
		"its caller has left": func(w fixture) error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			return w.breaker.Take(ctx, requestCharges(), make([]limits.Decision, 3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, false, remote.BreakerOptions{Budget: 50 * time.Millisecond}, func(w fixture) {
				w.inner.startsFailing(w.inner.stalls(200 * time.Millisecond)) // and then takes
				if err := call(w); !errors.Is(err, remote.ErrBudget) && !errors.Is(err, context.DeadlineExceeded) {
					w.Fatalf("%v, want no decision", err)
				}
				if left := w.remaining(); left != [3]int64{2, 10, 10} {
					w.Fatalf("%v remain before the taking, want 2, 10 and 10", left)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if left := w.remaining(); left != [3]int64{2, 10, 6} {
					w.Errorf("%v remain, want 2, 10 and 6: what nobody ends is ended", left)
				}
			})
		})
	}
}

func TestALateDenialAndALatePeekEndNothing(t *testing.T) {
	withFixture(t, false, remote.BreakerOptions{Budget: 50 * time.Millisecond}, func(w fixture) {
		out := make([]limits.Decision, 3)
		if err := w.breaker.Take(context.Background(), requestCharges(), out); err != nil {
			w.Fatal(err)
		}
		w.inner.startsFailing(w.inner.stalls(200 * time.Millisecond))
		err := w.breaker.Take(context.Background(), requestCharges(), make([]limits.Decision, 3))
		if !errors.Is(err, remote.ErrBudget) {
			w.Fatalf("%v, want %v", err, remote.ErrBudget)
		}
		time.Sleep(time.Second)
		w.inner.startsFailing(w.inner.stalls(200 * time.Millisecond))
		ends := requestCharges()[1:2] // 4 of the 6 that are left
		if err := w.breaker.Peek(context.Background(), ends, out[:1]); !errors.Is(err, remote.ErrBudget) {
			w.Fatalf("%v, want %v", err, remote.ErrBudget)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if left := w.remaining(); left != [3]int64{0, 6, 6} {
			w.Errorf("%v remain, want 0, 6 and 6", left)
		}
	})
}

func TestATakingInTimeIsItsCallersToEnd(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		out := make([]limits.Decision, 3)
		if err := w.breaker.Take(context.Background(), requestCharges(), out); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		if left := w.remaining(); left != [3]int64{0, 6, 6} {
			w.Errorf("%v remain, want 0, 6 and 6", left)
		}
	})
}

func TestAnOpenBreakerSettles(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		charges, out := requestCharges(), make([]limits.Decision, 3)
		if err := w.breaker.Take(context.Background(), charges, out); err != nil {
			w.Fatal(err)
		}
		w.inner.startsFailing(refuses)
		w.opens()
		settled := make([]limits.Settlement, 1)
		ending := backends.Ending{Scope: "held", Key: "k", Limit: charges[0].Limit, Taken: 2, Ticket: out[0].Ticket}
		if err := w.breaker.Settle(context.Background(), []backends.Ending{ending}, settled); err != nil ||
			settled[0].Returned != 2 {
			w.Errorf("%v, %+v, want 2 returned", err, settled[0])
		}
		w.is("open")
		if left := w.remaining(); left[0] != 2 {
			w.Errorf("%d remain, want 2", left[0])
		}
	})
}

// faulty is a backend whose Settle fails.
type faulty struct{ *memory.Memory }

func (faulty) Settle(context.Context, []backends.Ending, []limits.Settlement) error { return errDown }

func TestASettlementThatFailsSaysNothingAboutDecisions(t *testing.T) {
	b := remote.MustNewBreaker(
		faulty{memory.MustNew(memory.Options{})}, remote.BreakerOptions{Logger: silence, Budget: time.Microsecond},
	)
	for range 100 {
		if err := b.Settle(t.Context(), make([]backends.Ending, 1), make([]limits.Settlement, 1)); err != errDown {
			t.Fatalf("%v, want that of the backend", err)
		}
	}
	if state(b) != "closed" {
		t.Error("the breaker is open")
	}
}

func TestABreakerSupportsAndSettlesWhatItsBackendDoes(t *testing.T) {
	if b := remote.MustNewStack(memory.MustNew(memory.Options{}), remote.StackOptions{}); !backends.CanSettle(b) ||
		!backends.Supports(b, limits.Concurrent(1)) {
		t.Error("a memory in a stack does not settle, or has no concurrency limits")
	}
	b := remote.MustNewBreaker(new(dead), remote.BreakerOptions{})
	if backends.CanSettle(b) || backends.Supports(b, limits.Concurrent(1)) {
		t.Error("a breaker settles, or has concurrency limits, though its backend does not")
	}
	if err := b.Settle(t.Context(), nil, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, want %v", err, errors.ErrUnsupported)
	}
}
