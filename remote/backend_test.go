package remote_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
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

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 5 { // others may allocate, too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// one takes cost units, to be ended, of a key.
func one(t *testing.T, m *memory.Memory, key string, limit limits.Limit, cost int64) limits.Decision {
	t.Helper()
	out := make([]limits.Decision, 1)
	if err := m.Take(t.Context(), []limits.Charge{{Scope: "s", Key: key, Limit: limit, Cost: cost, Lasts: time.Minute}}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func endingOf(d limits.Decision, key string, limit limits.Limit, taken, final int64) limits.Ending {
	return limits.Ending{Scope: "s", Key: key, Limit: limit, Taken: taken, Final: final, Ticket: d.Ticket, Lasts: time.Minute}
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
