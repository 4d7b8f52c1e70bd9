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
	now := e.lock(charges)
	defer e.mu.Unlock()
	changes, err := e.ledger.take(now, charges, out)
	maps.Copy(e.ledger, changes)
	return err
}

// Peek implements [core.Peeker].
func (e *Exact) Peek(_ context.Context, charges []core.Charge, out []core.Decision) error {
	now := e.lock(charges)
	defer e.mu.Unlock()
	return e.ledger.peek(now, charges, out)
}

// lock looks at the clock, and then locks: as it must if now may call the backend.
// It believes that the clock has stepped back if a second look finds the same as
// the first: otherwise the caller was late.
func (e *Exact) lock(charges []core.Charge) (now int64) {
	seen := int64(0)
	for {
		now = e.now().UnixMicro()
		e.mu.Lock()
		ahead := e.ledger.ahead(now, charges)
		if ahead == seen {
			return now
		}
		seen = ahead
		e.mu.Unlock()
	}
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
