package gate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits"
)

var oneAMinute = []core.Rule[*http.Request]{{
	Name: "all", Limit: limits.FixedWindow(limits.PerMinute(1)),
	Key: func(*http.Request) (string, error) { return "all", nil },
}}

func TestAResponseThatHasBegunIsNotAnsweredAgain(t *testing.T) {
	rules := oneAMinute
	config := gate.Config[*http.Request]{
		Config:    core.Config[*http.Request]{Rules: rules},
		Framework: gate.Framework[*http.Request]{Committed: func(*http.Request) bool { return true }},
	}
	plain, err := gate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	config.Denied = func(http.ResponseWriter, *http.Request, core.Outcome) error {
		t.Error("Denied was called")
		return nil
	}
	own, err := gate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, g := range []*gate.Gate[*http.Request]{plain, own} {
		for i, ctx := range []context.Context{t.Context(), t.Context(), late} {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			allowed := false
			next := func(http.ResponseWriter, *http.Request) error { allowed = true; return nil }
			if err := g.Serve(w, r, r, next); allowed != (i == 0) || err != nil {
				t.Errorf("request %d: allowed %v, %v", i, allowed, err)
			}
			if w.Code != 200 || w.Body.Len() > 0 {
				t.Errorf("request %d: answered %d %s", i, w.Code, w.Body)
			}
		}
	}
}
