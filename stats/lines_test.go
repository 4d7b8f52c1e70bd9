package stats_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

// logged returns a logger and what it has written, without times.
func logged() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var text bytes.Buffer
	handler := slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(p)
	}), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return slog.New(handler), func() string {
		mu.Lock()
		defer mu.Unlock()
		defer text.Reset()
		return text.String()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestALoggerThatEndsItsGoroutineStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines atomic.Int64
		logger := slog.New(slog.NewTextHandler(writer(func([]byte) (int, error) {
			lines.Add(1)
			runtime.Goexit()
			return 0, nil
		}), nil))
		for range 2 {
			l, _ := denying(stats.Options{Logger: logger})
			for range 3 {
				l.Decide(t.Context(), request{key: "ann", cost: tooMuch})
			}
		}
		synctest.Wait()
		if n := lines.Load(); n != 6 {
			t.Errorf("%d lines: want 6", n)
		}
		time.Sleep(time.Hour) // the denials are over
	})
}

func TestTheLogSaysWhenDenialsBeginAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		l, _ := denying(stats.Options{Logger: logger})
		for range 100 {
			l.Decide(t.Context(), request{key: "ann", cost: tooMuch})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		during := text()
		if !strings.HasPrefix(during, `level=WARN msg="weir: a rule denies" limiter=api rule=per-client`+"\n") {
			t.Errorf("the first line: %s", during)
		}
		lines := strings.Count(during, "\n")
		if lines < 12 || lines > 1+20 {
			t.Errorf("%d lines in 100 s: want 1, and 10 a minute at most", lines)
		}
		suppressed := 0
		for line := range strings.Lines(during) {
			n := 0
			if _, after, ok := strings.Cut(line, "suppressed="); ok {
				fmt.Sscan(after, &n)
			}
			suppressed += n
		}
		if strings.Contains(during, "ann") {
			t.Errorf("a key in the log: %s", during)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		last := ""
		if last = text(); strings.Count(last, "\n") != 1 ||
			!strings.Contains(last,
				`level=INFO msg="weir: a rule denies no more" limiter=api rule=per-client denied=100 after=1m39s`) {
			t.Errorf("the last line: %s", last)
		}
		if _, after, ok := strings.Cut(last, "suppressed="); ok {
			n := 0
			fmt.Sscan(after, &n)
			suppressed += n
		}
		if lines+suppressed != 100 {
			t.Errorf("%d lines and %d suppressed: want 100 together", lines, suppressed)
		}
		l.Decide(t.Context(), request{key: "ann", cost: tooMuch})
		synctest.Wait()
		if again := text(); !strings.HasPrefix(again, `level=WARN msg="weir: a rule denies"`) {
			t.Errorf("denials that begin again: %q", again)
		}
	})
}

func TestTheLogShowsKeysAsTheOperatorSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		l, _ := denying(stats.Options{Logger: logger, Key: func(rule, key string) string {
			if key == "nobody" {
				return ""
			}
			return rule + ":" + key[:1] + "…"
		}})
		l.Decide(t.Context(), request{key: "ann", cost: 1})
		l.Decide(t.Context(), request{key: "ann", cost: 1})
		l.Decide(t.Context(), request{key: "nobody", cost: tooMuch})
		synctest.Wait()
		want := `level=WARN msg="weir: a rule denies" limiter=api rule=per-client retry_after=1h0m0s key=per-client:a…
level=INFO msg="weir: denied" limiter=api rule=per-client
`
		if got := text(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestEachRuleHasLinesOfItsOwnAndShadowsHaveNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		limit := limits.TokenBucket(limits.PerHour(1), 1)
		l, _ := denying(stats.Options{Logger: logger},
			core.Rule[request]{Name: "a", Limit: limit, Key: byKey},
			core.Rule[request]{
				Name: "b", Limit: limit, Cost: costOf, Key: func(request) (string, error) { return "all", nil },
			},
			core.Rule[request]{Name: "c", Limit: limit, Key: byKey, Mode: core.Shadow, Cost: costOf},
		)
		l.Decide(t.Context(), request{key: "ann", cost: 0})
		l.Decide(t.Context(), request{key: "ann", cost: 0})
		l.Decide(t.Context(), request{key: "bob", cost: tooMuch})
		synctest.Wait()
		if got := text(); strings.Count(got, "WARN") != 2 || !strings.Contains(got, "rule=a") ||
			!strings.Contains(got, "rule=b") {
			t.Errorf("lines:\n%s", got)
		}
	})
}

// stuck is a handler that does not return, or panics.
type stuck struct {
	slog.Handler
	wait <-chan struct{}
}

func (s stuck) Handle(context.Context, slog.Record) error {
	<-s.wait
	panic("no disk")
}

func TestALoggerThatHangsOrPanicsHoldsUpNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := make(chan struct{})
		l, counts := denying(stats.Options{Logger: slog.New(stuck{slog.DiscardHandler, wait})})
		for range 50 {
			l.Decide(t.Context(), request{key: "ann", cost: tooMuch})
		}
		if n := only(counts).Requests.Denied; n != 50 {
			t.Errorf("%d denied: want 50", n)
		}
		close(wait)
		synctest.Wait()
	})
}
