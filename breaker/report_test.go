package breaker_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
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

func TestEveryChangeIsReportedOnceToManyCallers(t *testing.T) {
	log, lines := logger()
	inBothModes(t, breaker.Options{Logger: log}, func(w fixture) {
		lines.Reset()
		w.inner.startsFailing(refuses)
		wellAfter := time.AfterFunc(3300*time.Millisecond, w.inner.recovers)
		defer wellAfter.Stop()
		start := time.Now()
		w.crowd(32, func(i int) {
			for time.Since(start) < 6*time.Second {
				w.take(w.Context())
				time.Sleep(10 * time.Millisecond)
			}
		})
		w.reports.expect(w.T, breaker.Open, breaker.Closed)
		opened, closed := w.reports.all[0], w.reports.all[1]
		if opened.Err != errDown || opened.At != start.Add(200*time.Millisecond) || opened.After != 200*time.Millisecond {
			t.Errorf("opened: %+v", opened)
		}
		if closed.Err != nil || closed.After != closed.At.Sub(opened.At) || closed.After < 3100*time.Millisecond || closed.After > 4500*time.Millisecond {
			t.Errorf("closed: %+v", closed)
		}
		if state, since, n := w.breaker.Status(); state != "closed" || since != closed.At || n != 1 {
			t.Errorf("status: %s since %v, opened %d times: want closed since %v, once", state, since, n, closed.At)
		}
		want := "level=WARN msg=\"weir: backend degraded\" error=down\n" +
			"level=INFO msg=\"weir: backend recovered\" after=" + closed.After.String() + "\n"
		if got := lines.String(); got != want {
			t.Errorf("logged\n%s\nwant\n%s", got, want)
		}
	})
}

// opensAndCloses has the backend fail and recover.
func (w *fixture) opensAndCloses() {
	w.inner.startsFailing(refuses)
	w.opens()
	w.inner.recovers()
	time.Sleep(time.Minute)
	for range 3 {
		w.gets(nil)
	}
}

func TestASlowHookDelaysNoDecisionAndMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fixture{T: t, inner: &inner{Memory: memory.New(memory.Options{}), honours: true}, reports: &changes{}}
		told := make(chan struct{})
		w.breaker = breaker.New(w.inner, breaker.Options{Logger: silence, OnChange: func(c breaker.Change) {
			<-told
			if c.State != w.breaker.State() {
				w.breaker.Take(context.Background(), charge("k"), make([]limits.Decision, 1)) // it may use the breaker
			}
			w.reports.add(c)
		}})
		var want []breaker.State
		for range 3 {
			w.opensAndCloses()
			w.is(breaker.Closed)
			want = append(want, breaker.Open, breaker.Closed)
		}
		w.reports.expect(t)
		close(told)
		w.reports.expect(t, want...)
		for i := 1; i < len(want); i++ {
			if !w.reports.all[i-1].At.Before(w.reports.all[i].At) {
				t.Errorf("report %d is older than the one before", i)
			}
		}
	})
}

// bomb is a handler that panics.
type bomb struct{ slog.Handler }

func (bomb) Handle(context.Context, slog.Record) error { panic("boom") }

func TestAPanicInAHookOrALogHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logger()
		for _, log := range []*slog.Logger{log, slog.New(bomb{log.Handler()})} {
			w := fixture{T: t, inner: &inner{Memory: memory.New(memory.Options{}), honours: true}}
			told := 0
			w.breaker = breaker.New(w.inner, breaker.Options{Logger: log, OnChange: func(breaker.Change) { told++; panic("hook") }})
			w.opensAndCloses()
			synctest.Wait()
			if told != 2 {
				t.Errorf("the hook was told %d times, want 2", told)
			}
		}
		if n := strings.Count(lines.String(), "level=ERROR"); n != 2 || !strings.Contains(lines.String(), "panic=hook") {
			t.Errorf("logged\n%s", lines)
		}
	})
}

func TestAHookThatEndsItsGoroutineIsToldOfLaterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fixture{T: t, inner: &inner{Memory: memory.New(memory.Options{}), honours: true}, reports: &changes{}}
		w.breaker = breaker.New(w.inner, breaker.Options{Logger: silence, OnChange: func(c breaker.Change) {
			w.reports.add(c)
			runtime.Goexit() // as t.FailNow does
		}})
		w.opensAndCloses()
		w.reports.expect(t, breaker.Open, breaker.Closed)
	})
}

func TestWithoutALoggerTheDefaultLogs(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		w := fixture{T: t, inner: &inner{Memory: memory.New(memory.Options{})}}
		w.breaker = breaker.New(w.inner, breaker.Options{})
		log, lines := logger()
		slog.SetDefault(log) // after New: reports go to the default at that time
		w.inner.startsFailing(refuses)
		w.opens()
		synctest.Wait()
		if got := lines.String(); got != "level=WARN msg=\"weir: backend degraded\" error=down\n" {
			t.Errorf("logged %q", got)
		}
	})
}

func TestStatesHaveNames(t *testing.T) {
	for s, want := range map[breaker.State]string{breaker.Closed: "closed", breaker.Open: "open", 7: "State(7)"} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}
