package shed_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shed"
)

// As docs/shedding.md says: http.TimeoutHandler returns before its handler does.
func TestARequestBehindATimeoutIsInFlightWhileItsHandlerRuns(t *testing.T) {
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Second) // and does not look at its context
	})
	obedient := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(10 * time.Second):
		case <-r.Context().Done():
			http.Error(w, "it takes too long", http.StatusGatewayTimeout)
		}
	})
	timeout := func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Second, "") }
	within := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
	for _, tt := range []struct {
		name    string
		handler func(*shed.Shedder[request]) http.Handler
		status  int
		held    bool // the handler runs, and so its place is taken
	}{
		{"a timeout inside frees the place too early", func(s *shed.Shedder[request]) http.Handler { return shed.Handler(s, timeout(work)) }, 503, false},
		{"a timeout outside does not", func(s *shed.Shedder[request]) http.Handler { return timeout(shed.Handler(s, work)) }, 503, true},
		{"a context ends the handler", func(s *shed.Shedder[request]) http.Handler { return shed.Handler(s, within(obedient)) }, 504, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := shed.MustNew(shed.Options[request]{Limit: 1})
			w := httptest.NewRecorder()
			start := time.Now()
			tt.handler(s).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			synctest.Wait()
			state := s.State()
			if w.Code != tt.status || time.Since(start) != time.Second || state.InFlight == 1 != tt.held {
				t.Errorf("%s: %d after %v, %+v", tt.name, w.Code, time.Since(start), state)
			}
			time.Sleep(time.Minute)
			if state := s.State(); state.InFlight != 0 {
				t.Errorf("%s: left over: %+v", tt.name, state)
			}
		})
	}
}
