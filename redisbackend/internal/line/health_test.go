package line

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A server far away has longer than one nearby until it is down, and so has one
// that has yet to answer: they may be connecting.
func TestAServerHasTheMoreTimeTheFurtherAwayItIs(t *testing.T) {
	for _, tt := range []struct {
		name        string
		answeredIn  time.Duration // 0: it has not answered yet
		still, over time.Duration // silent for
	}{
		{"nearby", time.Millisecond, 100 * time.Millisecond, 101 * time.Millisecond},
		{"far away", 40 * time.Millisecond, 320 * time.Millisecond, 321 * time.Millisecond},
		{"slow beyond measure", time.Minute, time.Second, 1001 * time.Millisecond},
		{"not heard of", 0, 500 * time.Millisecond, 501 * time.Millisecond},
	} {
		h := newHealth("a", quietFor, new(lateness), nil)
		now := time.Now()
		if tt.answeredIn > 0 {
			h.judge(now, now.Add(-tt.answeredIn), true, true, nil)
		}
		h.quietSince = now
		still := h.isDown(now.Add(tt.still), callCount{1, 16})
		over := h.isDown(now.Add(tt.over), callCount{1, 16})
		if still || !over {
			t.Errorf("%s: gone after %v: %v, after %v: %v; want false and true", tt.name,
				tt.still, still, tt.over, over)
		}
	}
}

// A server that answers, but never decides, is logged once, and once more when it
// decides again.
func TestAServerThatRepliesOnlyWithErrorsIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		h := newHealth("198.51.100.1:6379", quietFor, new(lateness), logger)
		judge := func(err error) {
			now := time.Now()
			h.judge(now, now, true, err == nil, err)
			synctest.Wait()
		}
		lines := func() int { return strings.Count(log.String(), "\n") }
		oom := errors.New("OOM command not allowed")
		judge(oom)
		time.Sleep(time.Second)
		judge(nil)
		judge(oom)
		judge(oom)
		judge(oom)
		if lines() != 0 {
			t.Errorf("errors of a moment are logged:\n%s", &log)
		}
		for range 10 {
			time.Sleep(50 * time.Millisecond)
			judge(oom)
		}
		if lines() != 1 || !strings.Contains(log.String(), "weir: Redis server replies only with errors") ||
			!strings.Contains(log.String(), "OOM") {
			t.Errorf("want one line that says what it replies:\n%s", &log)
		}
		judge(nil)
		judge(nil)
		if lines() != 2 || !strings.Contains(log.String(), "weir: Redis server answers again") {
			t.Errorf("want one line more:\n%s", &log)
		}
	})
}
