package nethttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestDeniedFindsTheOutcomeToo(t *testing.T) {
	config := perClient(limits.FixedWindow(limits.PerMinute(1)))
	config.OutcomeInContext = true
	config.Denied = func(w http.ResponseWriter, r *http.Request, _ core.Outcome) {
		w.WriteHeader(http.StatusTooManyRequests)
		if o, ok := nethttp.OutcomeFrom(r.Context()); !ok || o.Verdict() != core.Denied {
			t.Errorf("outcome %v, %v", ok, o.Verdict())
		}
	}
	handler := nethttp.MustNew(config).Handler(&hello{})
	wantStatus(t, get(handler), 200)
	wantStatus(t, get(handler), 429)
}

func TestAResponseThatHasBegunIsNotAnsweredAgain(t *testing.T) {
	rules := perClient(limits.FixedWindow(limits.PerMinute(1))).Rules
	config := nethttp.GateConfig[*http.Request]{
		Config:    core.Config[*http.Request]{Rules: rules},
		Committed: func(*http.Request) bool { return true },
	}
	plain, err := nethttp.NewGate(config)
	if err != nil {
		t.Fatal(err)
	}
	config.Denied = func(http.ResponseWriter, *http.Request, core.Outcome) error {
		t.Error("Denied was called")
		return nil
	}
	own, err := nethttp.NewGate(config)
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, gate := range []*nethttp.Gate[*http.Request]{plain, own} {
		for i, ctx := range []context.Context{t.Context(), t.Context(), late} {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			allowed := false
			next := func(http.ResponseWriter, *http.Request) error { allowed = true; return nil }
			if err := gate.Serve(w, r, r, next); allowed != (i == 0) || err != nil {
				t.Errorf("request %d: allowed %v, %v", i, allowed, err)
			}
			if w.Code != 200 || w.Body.Len() > 0 {
				t.Errorf("request %d: answered %d %s", i, w.Code, w.Body)
			}
		}
	}
}
