package core_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

func TestAConcurrencyLimitHoldsUnitsUntilTheEnd(t *testing.T) {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		{Name: "uploads", Limit: limits.Concurrent(2), Key: self},
		{Name: "rate", Limit: limits.TokenBucket(limits.PerMinute(100), 100), Key: self},
	}})
	a, b, c := l.Decide(context.Background(), "ann"), l.Decide(context.Background(), "ann"), l.Decide(context.Background(),
		"ann")
	if !a.Allowed() || !b.Allowed() || c.Allowed() {
		t.Fatalf("of three at once, allowed: %v, %v, %v; want true, true, false", a.Allowed(), b.Allowed(), c.Allowed())
	}
	if left := c.At(1).Remaining; left != 98 {
		t.Errorf("the rate has %d left after a denial for concurrency, want 98", left)
	}
	if s := l.State(); s.Held != 2 || s.HeldSince.IsZero() {
		t.Errorf("Held = %d, %v, want 2 and an instant", s.Held, s.HeldSince)
	}
	copied := a
	a.End(core.Result{})
	copied.End(core.Result{})
	c.End(core.Result{})
	if held := l.State().Held; held != 1 {
		t.Errorf("Held = %d after one of two has ended, want 1", held)
	}
	if d := l.Decide(context.Background(), "ann"); !d.Allowed() {
		t.Error("denied after one of two has ended")
	}
	if e := l.Decide(context.Background(), "ann"); e.Allowed() {
		t.Error("a third is allowed: the second End of one request counted")
	}
}

func self(s string) (string, error) { return s, nil }
