package limitstest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Exact is a [backends.Backend] that follows the definitions literally: it computes with rational
// numbers under one mutex, and never displaces a key. Run compares other backends with it. Use it
// in differential tests and in simulations that must be right; it is far too slow for requests. Its
// clock must not show an instant before 1970.
//
// It is also [backends.InProcess], a [backends.Lender], [backends.Peeker], [backends.Resetter] and
// [backends.Counter], and safe for concurrent use.
type Exact struct {
	now func() time.Time

	mu     sync.Mutex
	ledger ledger
	calls  int64
}

// NewExact returns an Exact without keys whose clock is now.
func NewExact(now func() time.Time) *Exact {
	return &Exact{now: now, ledger: ledger{}}
}

// Take implements [backends.Backend].
func (e *Exact) Take(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
	now := e.lock(charges)
	defer e.mu.Unlock()
	return e.takeLocked(now, charges, out)
}

// takeLocked is Take at the instant now.
func (e *Exact) takeLocked(now int64, charges []backends.Charge, out []limits.Decision) error {
	e.calls++
	changes, err := e.ledger.takeAs(e.calls, now, charges, out)
	maps.Copy(e.ledger, changes)
	for i := range out {
		if err == nil && out[i].Allowed && charges[i].Cost > 0 {
			out[i].Ticket = ticket{e.calls, charges[i].Shadow}.number()
		}
	}
	return err
}

// Settle implements [backends.Settler]. It edits the history of the key, from which the usage of
// the key follows.
func (e *Exact) Settle(_ context.Context, endings []backends.Ending,
	out []limits.Settlement) error {
	if len(endings) != len(out) {
		return errors.New("limitstest: endings and settlements differ in length")
	}
	now := e.now().UnixMicro()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, ending := range endings {
		out[i] = e.ledger.settle(now, ending, ticketOf(ending.Ticket))
	}
	return nil
}

// Peek implements [backends.Peeker].
func (e *Exact) Peek(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
	now := e.lock(charges)
	defer e.mu.Unlock()
	return e.ledger.peek(now, charges, out)
}

// lock reads the clock before it locks, since now may call the backend. If the account is ahead of
// the clock, lock reads the clock again: a late caller then reads a later instant, and only if the
// account is still as far ahead has the clock stepped back.
func (e *Exact) lock(charges []backends.Charge) (now int64) {
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

// InProcess implements [backends.InProcess].
func (e *Exact) InProcess() backends.Backend { return e }

// Supports implements [backends.Supporter]: an Exact decides every legal limit.
func (e *Exact) Supports(limit limits.Limit) bool { return limit.Validate() == nil }

// Lends implements [backends.Lender].
func (e *Exact) Lends() bool { return true }

// Reset implements [backends.Resetter].
func (e *Exact) Reset(_ context.Context, scope, key string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, what := range everyCounted {
		if what != unitsHeld {
			delete(e.ledger, account{scope, key, what})
		}
	}
	return nil
}

// Count implements [backends.Counter].
func (e *Exact) Count(context.Context) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.live(e.now().UnixMicro()), nil
}
