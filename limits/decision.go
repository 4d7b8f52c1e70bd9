package limits

import (
	"fmt"
	"time"
)

// Decision is the answer to one charge. Waits are whole microseconds and count
// from At, on the assumption that nothing else is charged meanwhile. The zero
// Decision denies.
type Decision struct {
	Allowed bool
	Source  Source // who decided

	// Transient marks a denial that may rest on units about to be given back, so
	// that it may end before RetryAfter: a backend that keeps the keys of a
	// request on several servers takes at each and gives back where another
	// denies. remote.DenialCache does not remember it. Never set if allowed.
	Transient bool

	// Remaining is the largest cost that would be allowed now, after this
	// decision; never negative.
	Remaining int64

	// RetryAfter is 0 if allowed. Otherwise it is the least wait after which
	// the same charge is allowed, or [Never].
	RetryAfter time.Duration

	// ResetAfter is the wait until the key's state equals that of a key never
	// charged.
	ResetAfter time.Duration

	// EffectiveWindow is the time over which Remaining is to be spread: the
	// parameter t of the IETF RateLimit field (draft-ietf-httpapi-ratelimit-headers-11,
	// section 4.1.2). If Remaining is 0 it is the wait until one unit fits; on
	// a denial it equals RetryAfter. Of a concurrency limit it is [Never].
	EffectiveWindow time.Duration

	// Delay is how long an allowed request of a leaky queue has to wait for
	// its turn; 0 for every other algorithm.
	Delay time.Duration

	// At is the backend's clock at the decision, in microseconds since the
	// Unix epoch: time.UnixMicro(d.At).
	At int64

	// Ticket is what the backend needs to know the taking by at its end, see [Ending].
	// What it says is the backend's own business. Without meaning if nothing was taken, or
	// the charge has no end.
	Ticket int64
}

// Source says who made a decision.
type Source uint8

const (
	// SourcePrimary: the backend.
	SourcePrimary Source = iota
	// SourceDenialCache: the memory of an earlier denial, see remote.NewDenialCache.
	SourceDenialCache
	// SourceLease: units of the backend that this process had taken before, see
	// remote.NewLeaseCache.
	SourceLease
	// SourceFallback: the limiter's fallback, because the backend failed.
	SourceFallback
	// SourceLocal: the memory of this process, because the rule is Local and the
	// backend is elsewhere.
	SourceLocal
	// SourceOpen: no backend. The rule fails open and its request went uncounted.
	SourceOpen
	// SourceClosed: no backend. The rule fails closed or could not be applied.
	SourceClosed
	// SourceNotAsked: no backend, because another rule decided the request.
	// Such a decision is Allowed, says nothing else, and was not taken.
	SourceNotAsked
)

var sourceNames = [...]string{"primary", "denial-cache", "lease", "fallback", "local", "open", "closed", "not-asked"}

// String returns a short name for logs and metric labels, such as "fallback".
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return fmt.Sprintf("Source(%d)", uint8(s))
}

// Counted reports whether a decision of this source rests on counted state, so
// that its numbers mean something.
func (s Source) Counted() bool { return s <= SourceLocal }
