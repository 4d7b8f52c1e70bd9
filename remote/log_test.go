package remote_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/remote"
)

// logger returns a logger without times, and its output.
func logger() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: noTime})), &b
}

func TestEveryChangeIsLoggedOnceForManyCallers(t *testing.T) {
	inBothModes(t, remote.Options{}, func(w fixture) {
		log, lines := logger()
		w.breaker = remote.NewBreaker(w.inner, remote.Options{Logger: log})
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
		state, opened, n := w.breaker.Status()
		if state != "open" || opened != start.Add(200*time.Millisecond) || n != 1 {
			t.Errorf("%s since %v, opened %d times: want open since 200ms after %v, once", state, opened, n, start)
		}
		w.inner.recovers()
		many(6 * time.Second)
		state, since, n := w.breaker.Status()
		if state != "closed" || since.Sub(start) < 3300*time.Millisecond || since.Sub(start) > 4400*time.Millisecond || n != 1 {
			t.Errorf("%s since %v, opened %d times: want closed within 1.1s after 3.3s, opened once", state, since, n)
		}
		want := "level=WARN msg=\"weir: backend degraded\" error=down\n" +
			"level=INFO msg=\"weir: backend recovered\" after=" + since.Sub(opened).String() + "\n"
		if got := lines.String(); got != want {
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
	withFixture(t, true, remote.Options{}, func(w fixture) {
		log := &slow{states: w.logged, until: make(chan struct{})}
		w.breaker = remote.NewBreaker(w.inner, remote.Options{Logger: slog.New(log)})
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
	withFixture(t, true, remote.Options{}, func(w fixture) {
		w.breaker = remote.NewBreaker(w.inner, remote.Options{Logger: slog.New(bomb{w.logged})})
		w.opensAndCloses()
		w.logged.expect(w.T, "open", "closed")
	})
}

func TestWithoutALoggerTheDefaultLogs(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	withFixture(t, true, remote.Options{}, func(w fixture) {
		w.breaker = remote.NewBreaker(w.inner, remote.Options{})
		log, lines := logger()
		slog.SetDefault(log) // after New: the default at that time logs
		w.inner.startsFailing(refuses)
		w.opens()
		synctest.Wait()
		if got := lines.String(); got != "level=WARN msg=\"weir: backend degraded\" error=down\n" {
			t.Errorf("logged %q", got)
		}
	})
}
