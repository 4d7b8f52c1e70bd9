// Package asking has helpers of tests that charge a backend. Only tests import it.
package asking

import (
	"context"
	"hash/maphash"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Take calls b.Take with one charge.
func Take(t testing.TB, b backends.Backend, charge backends.Charge) limits.Decision {
	t.Helper()
	out := make([]limits.Decision, 1)
	if err := b.Take(t.Context(), []backends.Charge{charge}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// Value returns the number of a value, for a charge of a limit that counts values.
func Value(name string) uint64 { return maphash.String(seed, name) }

var seed = maphash.MakeSeed()

// Lasting takes cost units of a key in scope s by a charge that has an end.
func Lasting(t testing.TB, b backends.Backend, key string, limit limits.Limit,
	cost int64) limits.Decision {
	t.Helper()
	return Take(t, b, backends.Charge{Scope: "s", Key: key, Limit: limit, Cost: cost,
		Lasts: time.Minute})
}

// EndingOf returns the ending of a charge by Lasting. d is the decision on it.
func EndingOf(d limits.Decision, key string, limit limits.Limit,
	taken, final int64) backends.Ending {
	return backends.Ending{Scope: "s", Key: key, Limit: limit, Taken: taken, Final: final,
		Ticket: d.Ticket, Lasts: time.Minute}
}

// Settle calls s.Settle with one ending.
func Settle(t testing.TB, s backends.Settler, e backends.Ending) limits.Settlement {
	t.Helper()
	out := make([]limits.Settlement, 1)
	if err := s.Settle(t.Context(), []backends.Ending{e}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// Allowed takes a charge in scope s, which must be allowed.
func Allowed(t testing.TB, b backends.Backend, key string, limit limits.Limit, cost int64) {
	t.Helper()
	if d := Take(t, b, backends.Charge{Scope: "s", Key: key, Limit: limit, Cost: cost}); !d.Allowed {
		t.Fatalf("%d for %q by %v: denied, want allowed: %+v", cost, key, limit, d)
	}
}

// Denied takes a charge in scope s, which must be denied.
func Denied(t testing.TB, b backends.Backend, key string, limit limits.Limit, cost int64) {
	t.Helper()
	if d := Take(t, b, backends.Charge{Scope: "s", Key: key, Limit: limit, Cost: cost}); d.Allowed {
		t.Fatalf("%d for %q by %v: allowed, want denied: %+v", cost, key, limit, d)
	}
}

// Broken is a backend that fails with Err, or panics if Err is nil, and counts its calls.
type Broken struct {
	Err   error
	Asked int
}

// Take implements [backends.Backend].
func (b *Broken) Take(context.Context, []backends.Charge, []limits.Decision) error {
	b.Asked++
	if b.Err == nil {
		panic("boom")
	}
	return b.Err
}

// Allocated returns how many bytes f allocates.
func Allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 5 { // other goroutines may allocate too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
