package backendtest

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
)

// Exact is a [core.Backend] that does what the definitions say and nothing
// clever: rational numbers, one mutex, no key ever displaced. It is what Run
// compares other backends with, and serves differential tests and simulations
// that must not be wrong; it is far too slow to serve requests. Its clock must
// not say an instant before 1970.
//
// It is also a [core.Peeker], [core.Resetter] and [core.Counter], and safe for
// concurrent use.
type Exact struct {
	now func() time.Time

	mu     sync.Mutex
	ledger ledger
}

// NewExact returns an Exact without keys whose clock is now.
func NewExact(now func() time.Time) *Exact {
	return &Exact{now: now, ledger: ledger{}}
}

// Take implements [core.Backend].
func (e *Exact) Take(_ context.Context, charges []core.Charge, out []core.Decision) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	changes, err := e.ledger.take(e.now().UnixMicro(), charges, out)
	maps.Copy(e.ledger, changes)
	return err
}

// Peek implements [core.Peeker].
func (e *Exact) Peek(_ context.Context, charges []core.Charge, out []core.Decision) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.peek(e.now().UnixMicro(), charges, out)
}

// Reset implements [core.Resetter].
func (e *Exact) Reset(_ context.Context, scope, key string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.ledger, account{scope, key})
	return nil
}

// Count implements [core.Counter].
func (e *Exact) Count(context.Context) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.live(e.now().UnixMicro()), nil
}
