package remote_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// inner is a memory backend that has a fault for a while. Without a fault it answers at
// once.
type inner struct {
	*memory.Memory
	honours bool // honours deadlines

	fault  atomic.Pointer[func(context.Context) error]
	asked  atomic.Int64
	within atomic.Int64 // calls under way
	most   atomic.Int64 // calls under way at once, at most
}

func (b *inner) HonoursDeadline() bool { return b.honours }

func (b *inner) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if err := b.fails(ctx); err != nil {
		return err
	}
	return b.Memory.Take(ctx, charges, out)
}

func (b *inner) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if err := b.fails(ctx); err != nil {
		return err
	}
	return b.Memory.Peek(ctx, charges, out)
}

func (b *inner) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.Memory.Settle(ctx, endings, out)
}

// fails returns once the fault, if there is one, has let the call pass or has failed it.
func (b *inner) fails(ctx context.Context) error {
	b.asked.Add(1)
	n := b.within.Add(1)
	defer b.within.Add(-1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	if fault := b.fault.Load(); fault != nil {
		return (*fault)(ctx)
	}
	return nil
}

func (b *inner) startsFailing(fault func(context.Context) error) { b.fault.Store(&fault) }
func (b *inner) recovers()                                       { b.fault.Store(nil) }

var errDown = errors.New("down")

func refuses(context.Context) error { return errDown }

func panics(context.Context) error { panic("boom") }

// hangs returns a fault that lasts until the context ends or, if the backend does not
// honour deadlines, until the end of the test.
func (b *inner) hangs(t *testing.T) func(context.Context) error {
	if b.honours {
		return func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(context.Context) error {
		<-end
		return errDown
	}
}

// stalls returns a fault that ends by itself after d and then answers all waiting
// calls.
func (b *inner) stalls(d time.Duration) func(context.Context) error {
	end := time.Now().Add(d)
	return func(ctx context.Context) error {
		if !time.Now().Before(end) {
			// No timer: a select on a timer that is due has crashed the race detector in a bubble
			// (Go 1.26.8; compare golang/go#78156).
			return nil
		}
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		var done <-chan struct{}
		if b.honours {
			done = ctx.Done()
		}
		select {
		case <-timer.C:
			return nil
		case <-done:
			return ctx.Err()
		}
	}
}

// states has the states that a breaker logs.
type states struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (s *states) Enabled(context.Context, slog.Level) bool { return true }

func (s *states) Handle(_ context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := map[string]string{"weir: backend degraded": "open", "weir: backend recovered": "closed"}[r.Message]
	if !ok {
		state = r.Message
	}
	s.all = append(s.all, state)
	return nil
}

// expect waits until all is logged and compares it.
func (s *states) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.all, want) {
		t.Fatalf("logged %v, want %v", s.all, want)
	}
}

func state(b interface{ Status() backends.BreakerStatus }) string { return b.Status().State }

// fixture is a breaker that wraps an inner backend, in virtual time.
type fixture struct {
	*testing.T
	inner   *inner
	breaker *remote.Breaker
	logged  *states
}

// inBothModes runs test for a backend that honours deadlines and for one that
// does not.
func inBothModes(t *testing.T, options remote.BreakerOptions, test func(w fixture)) {
	t.Helper()
	for _, honours := range []bool{true, false} {
		name := "on its own goroutine"
		if honours {
			name = "on the caller's goroutine"
		}
		t.Run(name, func(t *testing.T) { withFixture(t, honours, options, test) })
	}
}

func withFixture(t *testing.T, honours bool, options remote.BreakerOptions, test func(w fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := fixture{T: t, inner: &inner{Memory: memory.MustNew(memory.Options{}), honours: honours}, logged: &states{}}
		options.Logger = slog.New(w.logged)
		w.breaker = remote.MustNewBreaker(w.inner, options)
		test(w)
	})
}

var day = limits.FixedWindow(limits.PerDay(1_000_000))

func charge(key string) []backends.Charge {
	return []backends.Charge{{Scope: "s", Key: key, Limit: day, Cost: 1}}
}

func (w fixture) take(ctx context.Context) error {
	return w.breaker.Take(ctx, charge("secret-key"), make([]limits.Decision, 1))
}

// gets calls Take once and compares the error.
func (w fixture) gets(want error) {
	w.Helper()
	if err := w.take(context.Background()); !errors.Is(err, want) || (want == nil) != (err == nil) {
		w.Fatalf("%v, want %v", err, want)
	}
}

// asked runs f and compares the number of calls of the inner backend.
func (w fixture) asked(want int64, f func()) {
	w.Helper()
	before := w.inner.asked.Load()
	f()
	if got := w.inner.asked.Load() - before; got != want {
		w.Fatalf("the backend was asked %d times, want %d", got, want)
	}
}

// is checks whether the breaker is open.
func (w fixture) is(want string) {
	w.Helper()
	if got := state(w.breaker); got != want {
		w.Fatalf("the breaker is %v, want %v", got, want)
	}
}

// opens calls a failing backend until the breaker opens.
func (w fixture) opens() {
	w.Helper()
	for range 20 {
		if state(w.breaker) == "open" {
			return
		}
		if w.take(context.Background()) == nil {
			w.Fatal("the backend does not fail")
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.Fatal("the breaker did not open")
}

// crowd has n callers call take at once, and waits for all of them.
func (w fixture) crowd(n int, take func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { take(i) })
	}
	group.Wait()
}
