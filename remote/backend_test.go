package remote_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/limits"
)

var errBroken = errors.New("broken")

// take charges m once and returns its decision.
func take(t *testing.T, m limits.Backend, scope, key string, limit limits.Limit, cost int64) limits.Decision {
	t.Helper()
	out := make([]limits.Decision, 1)
	err := m.Take(t.Context(), []limits.Charge{{Scope: scope, Key: key, Limit: limit, Cost: cost}}, out)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func allowed(t *testing.T, m limits.Backend, key string, limit limits.Limit, cost int64) {
	t.Helper()
	if d := take(t, m, "s", key, limit, cost); !d.Allowed {
		t.Fatalf("%d for %q by %v: denied, want allowed: %+v", cost, key, limit, d)
	}
}

func denied(t *testing.T, m limits.Backend, key string, limit limits.Limit, cost int64) {
	t.Helper()
	if d := take(t, m, "s", key, limit, cost); d.Allowed {
		t.Fatalf("%d for %q by %v: allowed, want denied: %+v", cost, key, limit, d)
	}
}

func settle(t *testing.T, s limits.Settler, e limits.Ending) limits.Settlement {
	t.Helper()
	out := make([]limits.Settlement, 1)
	if err := s.Settle(t.Context(), []limits.Ending{e}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// broken is a backend that fails and counts how often it was asked.
type broken struct {
	err   error
	asked int
}

func (b *broken) Take(context.Context, []limits.Charge, []limits.Decision) error {
	b.asked++
	if b.err == nil {
		panic("boom")
	}
	return b.err
}
