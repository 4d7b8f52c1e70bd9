package backendtest

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// tolerant lets a backend mark denials as [core.Decision].Transient, which no
// model knows, and nothing else.
type tolerant struct {
	t testing.TB
	core.Backend
}

// tolerating returns h with backends that are tolerant.
func (h Harness) tolerating() Harness {
	open, openSmall := h.Open, h.OpenSmall
	h.Open = func(t testing.TB, now func() time.Time) core.Backend { return tolerant{t, open(t, now)} }
	if openSmall != nil {
		h.OpenSmall = func(t testing.TB, now func() time.Time, maxKeys int) core.Backend {
			return tolerant{t, openSmall(t, now, maxKeys)}
		}
	}
	return h
}

// Unwrap lets [core.Supports] ask the backend inside.
func (b tolerant) Unwrap() core.Backend { return b.Backend }

func (b tolerant) Take(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	return b.clear("Take", out, b.Backend.Take(ctx, charges, out))
}

func (b tolerant) Peek(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	return b.clear("Peek", out, core.Peek(ctx, b.Backend, charges, out))
}

func (b tolerant) Reset(ctx context.Context, scope, key string) error {
	return core.Reset(ctx, b.Backend, scope, key)
}

func (b tolerant) Count(ctx context.Context) (int, error) { return core.Count(ctx, b.Backend) }

func (b tolerant) clear(what string, out []core.Decision, err error) error {
	b.t.Helper()
	for i := range out {
		if err == nil && out[i].Allowed && out[i].Transient {
			b.t.Errorf("%s: allowed, and Transient, which only a denial may be: %s", what, showDecision(out[i]))
		}
		out[i].Transient = false
	}
	return err
}
