package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits"
)

// call is a [gate.Caller] that notes what becomes of it.
type call struct {
	fields  http.Header
	refused *gate.Refusal
	goes    func() (int, error)
}

func (c *call) Fields() http.Header { return c.fields }
func (c *call) Go() (int, error)    { return c.goes() }

func (c *call) Refuse(r *gate.Refusal) error {
	c.refused = r
	return fmt.Errorf("refused: %s", r.Detail)
}

func newGate(t *testing.T, options headers.Options, rules ...core.Rule[string]) *gate.Gate[string] {
	t.Helper()
	for i := range rules {
		rules[i].Key = func(path string) (string, error) { return path, nil }
	}
	g, err := gate.New(gate.Config[string]{Config: core.Config[string]{Rules: rules}, Headers: options})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The wait of a refusal is exact, unless the options of the fields ask for another one.
func TestTheWaitOfACallIsThatOfItsFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name        string
			options     headers.Options
			least, most time.Duration
		}{
			{"exact", headers.Options{}, 100 * time.Millisecond, 100 * time.Millisecond},
			{"a window", headers.Options{RetryAfter: headers.Window}, time.Second, time.Second},
			{"jitter", headers.Options{Jitter: 10 * time.Second}, time.Second, 11 * time.Second},
			{"a field of the program",
				headers.Options{Custom: func(h http.Header, _ core.Outcome) { h.Set("Retry-After", "7") }}, 7 * time.Second,
				7 * time.Second},
			{"a field that is no number",
				headers.Options{Custom: func(h http.Header, _ core.Outcome) { h.Set("Retry-After", "soon") }}, 0, 0},
		} {
			g := newGate(t, c.options, core.Rule[string]{Name: "a", Limit: limits.TokenBucket(limits.PerSecond(10), 1)})
			g.DecideCall(t.Context(), "/a")
			denied := &call{fields: make(http.Header)}
			if err := g.ServeCall(t.Context(), "/a", denied); err == nil {
				t.Fatalf("%s: allowed", c.name)
			}
			if r := denied.refused; r.Status != 429 || r.Wait < c.least || r.Wait > c.most ||
				!slices.Equal(r.Violated(), []string{"a"}) {
				t.Errorf("%s: %d, %v, %v", c.name, r.Status, r.Wait, r.Violated())
			}
		}
	})
}

func TestAPanicOfARefusalEndsTheCall(t *testing.T) {
	g := newGate(t, headers.Options{}, core.Rule[string]{Name: "a", Limit: limits.Concurrent(1)})
	func() {
		defer func() { recover() }()
		g.ServeCall(t.Context(), "/a", &call{fields: make(http.Header), goes: func() (int, error) { panic("boom") }})
	}()
	if units := g.State().Held; units != 0 {
		t.Errorf("%d units held", units)
	}
	want := errors.New("mine")
	if err := g.ServeCall(t.Context(), "/a",
		&call{fields: make(http.Header), goes: func() (int, error) { return 500, want }}); err != want {
		t.Error(err)
	}
}

func TestACallThatHasEndedIsNotServed(t *testing.T) {
	g := newGate(t, headers.Options{}, core.Rule[string]{Name: "a", Limit: limits.Concurrent(1)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &call{fields: make(http.Header)}
	if g.ServeCall(ctx, "/a", c); c.refused == nil || c.refused.Status != 0 || c.refused.Err != context.Canceled ||
		len(c.fields) > 0 {
		t.Errorf("%+v, fields %v", c.refused, c.fields)
	}
}

func TestStatusesOfCodes(t *testing.T) {
	for code, want := range map[uint32]int{0: 200, 1: 499, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 14: 503, 16: 401,
		17: 500, 1 << 31: 500} {
		if got := gate.StatusOfCode(code); got != want {
			t.Errorf("code %d is %d, want %d", code, got, want)
		}
	}
}

// A call may wait while the rules change more often than a gate remembers, and have fewer then.
func TestACallThatOutlastsManyChangesNamesNoRule(t *testing.T) {
	rule := func(name string) core.Rule[string] {
		return core.Rule[string]{Name: name, Limit: limits.FixedWindow(limits.PerDay(1)),
			Key: func(path string) (string, error) { return path, nil }}
	}
	g := newGate(t, headers.Options{}, rule("a"), rule("b"))
	g.DecideCall(t.Context(), "/")
	o, _ := g.DecideCall(t.Context(), "/")
	named := []int{}
	for changes := range 70 {
		refusal := g.RefuseDecided(make(http.Header), &o)
		if named = append(named, len(refusal.Violated())); refusal.Status != http.StatusTooManyRequests {
			t.Errorf("after %d changes: %d", changes, refusal.Status)
		}
		if err := g.Replace([]core.Rule[string]{rule("a")}); err != nil {
			t.Fatal(err)
		}
	}
	if named[0] != 2 || named[64] != 2 || named[65] != 0 {
		t.Errorf("names after 0, 1, 2, ... changes: %v; want 2 after as many as 64, then none", named)
	}
}
