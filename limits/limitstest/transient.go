package limitstest

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// tolerant lets a backend mark denials as [limits.Decision].Transient, which no model knows. It
// skips the rest of a case that charges a limit that the backend does not support.
type tolerant struct {
	t testing.TB
	backends.Backend
}

// tolerating returns h with tolerant backends.
func (h Harness) tolerating() Harness {
	open, openSmall := h.Open, h.OpenSmall
	h.Open = func(t testing.TB, now func() time.Time) backends.Backend {
		return tolerant{t, open(t, now)}
	}
	if openSmall != nil {
		h.OpenSmall = func(t testing.TB, now func() time.Time, maxKeys int) backends.Backend {
			return tolerant{t, openSmall(t, now, maxKeys)}
		}
	}
	return h
}

// Unwrap lets [backends.Supports] ask the backend inside.
func (b tolerant) Unwrap() backends.Backend { return b.Backend }

func (b tolerant) Take(ctx context.Context, charges []backends.Charge,
	out []limits.Decision) error {
	b.skipUnsupported(charges)
	return b.clear("Take", out, b.Backend.Take(ctx, charges, out))
}

func (b tolerant) Peek(ctx context.Context, charges []backends.Charge,
	out []limits.Decision) error {
	b.skipUnsupported(charges)
	return b.clear("Peek", out, backends.Peek(ctx, b.Backend, charges, out))
}

func (b tolerant) skipUnsupported(charges []backends.Charge) {
	b.t.Helper()
	for _, c := range charges {
		if c.Limit.Validate() == nil && !backends.Supports(b.Backend, c.Limit) {
			b.t.Logf("not tested to the end, since the backend does not support %s", showLimit(c.Limit))
			b.t.SkipNow()
		}
	}
}

func (b tolerant) Reset(ctx context.Context, scope, key string) error {
	return backends.Reset(ctx, b.Backend, scope, key)
}

func (b tolerant) Count(ctx context.Context) (int, error) { return backends.Count(ctx, b.Backend) }

func (b tolerant) clear(method string, out []limits.Decision, err error) error {
	b.t.Helper()
	for i := range out {
		if err == nil && out[i].Allowed && out[i].Transient {
			b.t.Errorf("%s: allowed, and Transient, which only a denial may be: %s", method,
				showDecision(out[i]))
		}
		out[i].Transient = false
	}
	return err
}
