package stats_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/stats"
)

// A program that makes a new limiter for a new configuration watches that one instead.
func TestCountersOfALimiterThatIsReplacedDoNotFall(t *testing.T) {
	counts := stats.New(quietly())
	api := counts.Limiter("api")
	preflight := func(n int) *nethttp.Limiter {
		limit := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{
				{Name: "all", Limit: limits.FixedWindow(limits.PerDay(1)),
					Key: func(*http.Request) (string, error) { return "k", nil }},
			},
			SkipPreflight: true,
		})
		api.ObserveLimiter(limit)
		for range n {
			r := httptest.NewRequest("OPTIONS", "/", nil)
			r.Header.Set("Origin", "https://example.com")
			r.Header.Set("Access-Control-Request-Method", "POST")
			limit.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
		}
		return limit
	}
	preflight(5)
	preflight(3)
	api.ObserveLimiter(preflight(2)) // which is watched already
	if shot := only(counts); shot.Preflights != 10 {
		t.Errorf("%d preflights: want 10", shot.Preflights)
	}
}

func TestWhatPassesALimiterWithoutADecisionIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		api := counts.Limiter("api")
		limit := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name: "queue", Limit: limits.LeakyQueue(limits.PerSecond(1), 10),
				Key: func(*http.Request) (string, error) { return "k", nil },
			}},
			SkipPreflight: true, MaxWaiting: 2,
			Observer: api,
		})
		api.ObserveLimiter(limit)
		handler := limit.Handler(http.NotFoundHandler())
		serve := func(ctx context.Context, method string) int {
			r := httptest.NewRequest(method, "/", nil).WithContext(ctx)
			r.Header.Set("Origin", "https://example.com")
			r.Header.Set("Access-Control-Request-Method", "POST")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		ended, end := context.WithCancel(t.Context())
		end()
		serve(t.Context(), "OPTIONS")
		serve(ended, "GET")
		serve(t.Context(), "GET")
		leaving, leave := context.WithCancel(t.Context())
		go serve(leaving, "GET")
		go serve(t.Context(), "GET")
		synctest.Wait()
		if code := serve(t.Context(), "GET"); code != 503 {
			t.Errorf("a request without room: %d: want 503", code)
		}
		if shot := only(counts); shot.Waiting != 2 {
			t.Errorf("%d wait: want 2", shot.Waiting)
		}
		leave()
		synctest.Wait()
		time.Sleep(time.Minute)
		shot := only(counts)
		if shot.Preflights != 1 || shot.QueueFull != 1 || shot.QueueLeft != 1 || shot.Waiting != 0 {
			t.Errorf("%d preflights, %d without room, %d left, %d wait: want 1, 1, 1, 0", shot.Preflights,
				shot.QueueFull, shot.QueueLeft, shot.Waiting)
		}
		if want := (stats.Requests{Allowed: 4, Abandoned: 1}); shot.Requests != want {
			t.Errorf("%+v: want %+v", shot.Requests, want)
		}
		if delay := shot.Rules[0].Delay; delay.Count() != 3 || delay.Sum != 6*time.Second {
			t.Errorf("delays: %d, %v: want 3, of 1, 2 and 3 s", delay.Count(), delay.Sum)
		}
	})
}
