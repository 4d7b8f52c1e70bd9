package remote_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/remote"
)

// output is what a logger has written.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// take returns what was written since the last call, once all goroutines are idle.
func (o *output) take() string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.text.String()
	o.text.Reset()
	return text
}

// logger returns a logger without times, and its output.
func logger() (*slog.Logger, *output) {
	var b output
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: noTime})), &b
}

const (
	follows  = ` effect="each process now decides by itself; rules that fail closed answer 503"` + "\n"
	degraded = `level=WARN msg="weir: backend degraded" error=down` + follows
	atStart  = `level=WARN msg="weir: backend fails from the start" error=down` + follows
)

func TestEveryChangeIsLoggedOnceForManyCallers(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		log, lines := logger()
		w.breaker = remote.MustNewBreaker(w.inner, remote.BreakerOptions{Logger: log})
		w.inner.startsFailing(refuses)
		start := time.Now()
		many := func(until time.Duration) {
			w.crowd(32, func(int) {
				for time.Since(start) < until {
					w.take(w.Context())
					time.Sleep(10 * time.Millisecond)
				}
			})
			synctest.Wait()
		}
		many(3300 * time.Millisecond)
		open := w.breaker.Status()
		if open.State != "open" || open.Since != start.Add(200*time.Millisecond) || open.Opened != 1 {
			t.Errorf("%s since %v, opened %d times: want open since 200ms after %v, once",
				open.State, open.Since, open.Opened, start)
		}
		w.inner.recovers()
		many(6 * time.Second)
		closed := w.breaker.Status()
		if late := closed.Since.Sub(start); closed.State != "closed" || late < 3300*time.Millisecond ||
			late > 4400*time.Millisecond || closed.Opened != 1 {
			t.Errorf("%s since %v, opened %d times: want closed within 1.1s after 3.3s, opened once",
				closed.State, closed.Since, closed.Opened)
		}
		want := degraded +
			"level=INFO msg=\"weir: backend recovered\" after=" + closed.Since.Sub(open.Since).String() + "\n"
		if got := lines.take(); got != want {
			t.Errorf("logged\n%s\nwant\n%s", got, want)
		}
	})
}

// opensAndCloses has the backend fail and recover.
func (w *fixture) opensAndCloses() {
	w.Helper()
	w.inner.startsFailing(refuses)
	w.opens()
	w.inner.recovers()
	time.Sleep(time.Minute)
	w.gets(nil)
	w.is("closed")
}

// slow is a handler that is slow at first.
type slow struct {
	*states
	lines atomic.Int64
	until chan struct{}
}

func (h *slow) Handle(ctx context.Context, r slog.Record) error {
	if h.lines.Add(1) == 1 {
		<-h.until
	}
	return h.states.Handle(ctx, r)
}

func TestASlowLogDelaysNoDecisionAndKeepsTheOrder(t *testing.T) {
	withFixture(t, true, remote.BreakerOptions{}, func(w fixture) {
		log := &slow{states: w.logged, until: make(chan struct{})}
		w.breaker = remote.MustNewBreaker(w.inner, remote.BreakerOptions{Logger: slog.New(log)})
		start := time.Now()
		for range 3 {
			w.opensAndCloses()
		}
		if took := time.Since(start); took > 4*time.Minute {
			w.Errorf("took %v", took)
		}
		w.logged.expect(w.T)
		close(log.until)
		w.logged.expect(w.T, "open", "closed", "open", "closed", "open", "closed")
	})
}

// bomb is a handler that panics.
type bomb struct{ *states }

func (b bomb) Handle(ctx context.Context, r slog.Record) error {
	b.states.Handle(ctx, r)
	panic("boom")
}

func TestAPanicInALogHarmsNobody(t *testing.T) {
	withFixture(t, true, remote.BreakerOptions{}, func(w fixture) {
		w.breaker = remote.MustNewBreaker(w.inner, remote.BreakerOptions{Logger: slog.New(bomb{w.logged})})
		w.opensAndCloses()
		w.logged.expect(w.T, "open", "closed")
	})
}

func TestWithoutALoggerTheDefaultLogs(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	withFixture(t, true, remote.BreakerOptions{}, func(w fixture) {
		w.breaker = remote.MustNewBreaker(w.inner, remote.BreakerOptions{})
		log, lines := logger()
		slog.SetDefault(log) // after New: the default at that time logs
		w.inner.startsFailing(refuses)
		w.opens()
		synctest.Wait()
		if got := lines.take(); got != degraded {
			t.Errorf("logged %q", got)
		}
	})
}

// A program without much to do never opens its breaker, so nothing else would say that its backend is not there.
func TestABackendThatIsNotThereFromTheStartIsSaidOnce(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		log, lines := logger()
		w.breaker = remote.MustNewBreaker(w.inner, remote.BreakerOptions{Logger: log})
		logs := func(want string) {
			w.Helper()
			if got := lines.take(); got != want {
				w.Errorf("logged\n%s\nwant\n%s", got, want)
			}
		}
		w.inner.startsFailing(refuses)
		start := time.Now()
		w.gets(errDown)
		time.Sleep(time.Second - 1)
		logs("") // it may still connect
		time.Sleep(time.Nanosecond)
		logs(atStart)
		for range 10 {
			time.Sleep(time.Minute)
			w.gets(errDown)
		}
		logs("")
		w.inner.recovers()
		w.gets(nil)
		logs("level=INFO msg=\"weir: backend recovered\" after=" + time.Since(start).String() + "\n")
		w.inner.startsFailing(refuses)
		w.gets(errDown)
		time.Sleep(time.Hour)
		logs("") // it has been there
	})
}

func TestABackendThatConnectsSlowlyIsNotSaidToFail(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		log, lines := logger()
		w.breaker = remote.MustNewBreaker(w.inner, remote.BreakerOptions{Logger: log})
		w.inner.startsFailing(refuses)
		w.gets(errDown)
		time.Sleep(300 * time.Millisecond)
		w.inner.recovers()
		w.gets(nil)
		time.Sleep(time.Hour)
		if got := lines.take(); got != "" {
			w.Errorf("logged %s", got)
		}
	})
}

func TestABreakerThatOpensAtTheStartSaysSoOnly(t *testing.T) {
	inBothModes(t, remote.BreakerOptions{}, func(w fixture) {
		log, lines := logger()
		w.breaker = remote.MustNewBreaker(w.inner, remote.BreakerOptions{Logger: log})
		w.inner.startsFailing(refuses)
		w.opens()
		time.Sleep(time.Minute)
		w.inner.recovers()
		w.gets(nil)
		time.Sleep(time.Hour)
		got, want := lines.take(), degraded+"level=INFO msg=\"weir: backend recovered\" after="
		if !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 2 {
			w.Errorf("logged\n%s", got)
		}
	})
}
