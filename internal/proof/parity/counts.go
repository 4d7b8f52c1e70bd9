package parity

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

// testCounts checks that counters count each request, decided or let past.
func testCounts[R any](t *testing.T, a Adapter[R]) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
		site := counts.Limiter("site")
		config, _ := changing(
			daily[R]("per-day", 4),
			core.Rule[R]{Name: "queue", Limit: limits.LeakyQueue(limits.PerSecond(1), 10), Key: daily[R]("", 1).Key},
			core.Rule[R]{Name: "at-once", Limit: limits.Concurrent(9), Key: daily[R]("", 1).Key},
		)
		config.SkipPreflight, config.MaxWaiting = true, 1
		config.Observer = site
		app := a.Serve(t, App[R]{Site: config})
		serve := func(ctx context.Context, method string) int {
			r := httptest.NewRequest(method, "/hello", nil).WithContext(ctx)
			r.Header.Set("Origin", "https://example.com")
			r.Header.Set("Access-Control-Request-Method", "POST")
			w := httptest.NewRecorder()
			app.ServeHTTP(w, r)
			return w.Code
		}
		ended, end := context.WithCancel(t.Context())
		end()
		leaving, leave := context.WithCancel(t.Context())
		serve(t.Context(), "OPTIONS")
		serve(ended, "GET")
		if code := serve(t.Context(), "GET"); code != 200 {
			t.Errorf("the first request: %d", code)
		}
		go serve(leaving, "GET")
		synctest.Wait()
		if code := serve(t.Context(), "GET"); code != 503 {
			t.Errorf("a request without room: %d: want 503", code)
		}
		if now := counts.Snapshot().Limiters[0]; now.Waiting != 1 || now.Held != 1 {
			t.Errorf("%d wait, %d held: want 1, 1", now.Waiting, now.Held)
		}
		leave()
		synctest.Wait()
		time.Sleep(time.Minute)
		serve(t.Context(), "GET")
		serve(t.Context(), "GET")
		got := counts.Snapshot().Limiters[0]
		if want := (stats.Requests{Allowed: 4, Denied: 1, Abandoned: 1}); got.Requests != want {
			t.Errorf("requests: %s", cmp.Diff(want, got.Requests))
		}
		if got.Preflights != 1 || got.QueueFull != 1 || got.QueueLeft != 1 || got.Waiting != 0 ||
			got.Held != 0 {
			t.Errorf("%d preflights, %d without room, %d left, %d wait, %d held: want 1, 1, 1, 0, 0",
				got.Preflights, got.QueueFull, got.QueueLeft, got.Waiting, got.Held)
		}
		if perDay, atOnce := got.Rules[0], got.Rules[2]; perDay.Binding != 1 || perDay.Units != 4 ||
			atOnce.Settlements.Ended != 4 {
			t.Errorf("%d denied, %d units, %d ended: want 1, 4, 4", perDay.Binding, perDay.Units,
				atOnce.Settlements.Ended)
		}
		if len(got.Denials) != 1 || got.Denials[0].Rule != "per-day" {
			t.Errorf("denials: %+v", got.Denials)
		}
	})
}
