package breaker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/core"
)

// inner is a memory backend with an illness, for a while. A healthy one is quick.
type inner struct {
	*core.Memory
	prompt bool // honours deadlines

	illness atomic.Pointer[func(context.Context) error]
	asked   atomic.Int64
	within  atomic.Int64 // calls under way
	most    atomic.Int64 // of them at once
}

func (b *inner) HonoursDeadline() bool { return b.prompt }

func (b *inner) Take(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	b.asked.Add(1)
	n := b.within.Add(1)
	defer b.within.Add(-1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	if illness := b.illness.Load(); illness != nil {
		if err := (*illness)(ctx); err != nil {
			return err
		}
	}
	return b.Memory.Take(ctx, charges, out)
}

func (b *inner) fallsIll(illness func(context.Context) error) { b.illness.Store(&illness) }
func (b *inner) isWell()                                      { b.illness.Store(nil) }

var errSick = errors.New("sick")

func refuses(context.Context) error { return errSick }

func panics(context.Context) error { panic("boom") }

// hangs returns an illness that takes until the context ends, or, for one that
// honours no deadlines, until the end of the test.
func (b *inner) hangs(t *testing.T) func(context.Context) error {
	if b.prompt {
		return func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(context.Context) error {
		<-end
		return errSick
	}
}

// stalls returns an illness that ends by itself after d, and answers all that
// were waiting then.
func (b *inner) stalls(d time.Duration) func(context.Context) error {
	end := time.Now().Add(d)
	return func(ctx context.Context) error {
		if !time.Now().Before(end) {
			return nil // without a timer: a select on one that is due has crashed the race detector in a bubble (Go 1.26.8; compare golang/go#78156)
		}
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		var done <-chan struct{}
		if b.prompt {
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

// changes collects reports.
type changes struct {
	mu  sync.Mutex
	all []breaker.Change
}

func (c *changes) add(change breaker.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, change)
}

// expect waits until all reports are made and compares them.
func (c *changes) expect(t *testing.T, want ...breaker.State) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range max(len(want), len(c.all)) {
		if i >= len(want) || i >= len(c.all) || c.all[i].State != want[i] {
			t.Fatalf("reports %+v, want %v", c.all, want)
		}
	}
}

// ward is a breaker around an inner backend, in virtual time.
type ward struct {
	*testing.T
	inner   *inner
	breaker *breaker.Breaker
	reports *changes
}

// inBothModes runs test for a backend that honours deadlines and for one that
// does not.
func inBothModes(t *testing.T, options breaker.Options, test func(w ward)) {
	t.Helper()
	for _, prompt := range []bool{true, false} {
		name := "on its own goroutine"
		if prompt {
			name = "on the caller's goroutine"
		}
		t.Run(name, func(t *testing.T) { inWard(t, prompt, options, test) })
	}
}

func inWard(t *testing.T, prompt bool, options breaker.Options, test func(w ward)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := ward{T: t, inner: &inner{Memory: core.NewMemory(core.MemoryOptions{}), prompt: prompt}, reports: &changes{}}
		options.OnChange = w.reports.add
		if options.Logger == nil {
			options.Logger = silence
		}
		w.breaker = breaker.New(w.inner, options)
		test(w)
	})
}

var day = core.FixedWindow(core.PerDay(1_000_000))

func charge(key string) []core.Charge {
	return []core.Charge{{Scope: "s", Key: key, Limit: day, Cost: 1}}
}

func (w ward) take(ctx context.Context) error {
	return w.breaker.Take(ctx, charge("secret-key"), make([]core.Decision, 1))
}

// gets takes once and compares the error.
func (w ward) gets(want error) {
	w.Helper()
	if err := w.take(context.Background()); !errors.Is(err, want) || (want == nil) != (err == nil) {
		w.Fatalf("%v, want %v", err, want)
	}
}

// askedFor runs f and compares how often the inner backend was asked.
func (w ward) asked(want int64, f func()) {
	w.Helper()
	before := w.inner.asked.Load()
	f()
	if got := w.inner.asked.Load() - before; got != want {
		w.Fatalf("the backend was asked %d times, want %d", got, want)
	}
}

// is checks whether the breaker is open.
func (w ward) is(want breaker.State) {
	w.Helper()
	if got := w.breaker.State(); got != want {
		w.Fatalf("the breaker is %v, want %v", got, want)
	}
}

// opens has an ill backend asked until the breaker opens.
func (w ward) opens() {
	w.Helper()
	for range 20 {
		if w.breaker.State() == breaker.Open {
			return
		}
		if w.take(context.Background()) == nil {
			w.Fatal("the backend is not ill")
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.Fatal("the breaker did not open")
}

// crowd has n callers take at once, and waits for them.
func (w ward) crowd(n int, take func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { take(i) })
	}
	group.Wait()
}
