package parity

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// testSetUp tests that mistakes are found when a program begins, not at its first request.
func testSetUp[R any](t *testing.T, a Adapter[R]) {
	wrong := []core.Rule[R]{{Name: "x", Key: a.Lift(keyfuncs.Header(""))}}
	_, made := a.New(wrong)
	limiter, err := a.New([]core.Rule[R]{daily[R]("a", 1)})
	must(t, err)
	for what, err := range map[string]error{"New": made, "Replace": limiter.Replace(wrong)} {
		if err == nil || !strings.Contains(err.Error(), `rule "x": key: is nil`) ||
			!strings.Contains(err.Error(), `rule "x": limit: `) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, f := range a.Panics {
		if !panics(f) {
			t.Errorf("%s did not panic", name)
		}
	}
}

// testNilKeys tests the keys that New then reports as nil.
func testNilKeys[R any](t *testing.T, a Adapter[R]) {
	for name, key := range map[string]func(R) (string, error){
		"Lift":         a.Lift(keyfuncs.Header("")),
		"PathParam":    a.PathParam(""),
		"ContextValue": a.ContextValue(""),
	} {
		if key != nil {
			t.Errorf("%s must be nil, for New to report", name)
		}
	}
	if a.LiftCondition(nil) != nil {
		t.Error("LiftCondition must be nil, for New to report the key")
	}
}

// testDecide decides each request by a limiter that does not answer, too.
func testDecide[R any](t *testing.T, a Adapter[R]) {
	silent, err := a.New([]core.Rule[R]{daily[R]("silent", 1)})
	must(t, err)
	limit := everybody[R](limits.FixedWindow(limits.PerDay(9)))
	var verdicts []core.Verdict
	limit.Observer = core.ObserverFuncs[R]{
		OnDecision: func(_ context.Context, request R, _ core.Outcome) {
			verdicts = append(verdicts, silent.Decide(request).Verdict())
		},
	}
	app := a.Serve(t, App[R]{Site: limit})
	for range 2 {
		got := send(t, app, "/hello")
		policy := got.header.Get("RateLimit-Policy")
		if got.status != http.StatusOK || strings.Contains(policy, "silent") {
			t.Errorf("status %d, policy %s", got.status, policy)
		}
	}
	if !slices.Equal(verdicts, []core.Verdict{core.Allowed, core.Denied}) {
		t.Errorf("the verdicts are %v", verdicts)
	}
}
