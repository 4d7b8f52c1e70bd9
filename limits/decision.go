package limits

import (
	"fmt"
	"math"
	"time"
)

// Decision is the answer to one charge. Waits are whole microseconds. They count from At, and
// assume that nothing else is charged meanwhile. The zero Decision denies.
type Decision struct {
	Allowed bool
	Source  Source // who decided

	// Transient marks a denial that may end before RetryAfter, because units may be given back. A
	// backend with several servers takes at each, and gives the units back if another server
	// denies; meanwhile it may deny other requests. remote.DenialCache does not cache such denials.
	// It is false if Allowed.
	Transient bool

	// Remaining is the largest cost that would be allowed now, after this decision. It is never
	// negative.
	Remaining int64

	// RetryAfter is 0 if Allowed. Otherwise it is the least wait after which the same charge is
	// allowed, or [Never].
	RetryAfter time.Duration

	// ResetAfter is the wait until the key is fresh: its state then equals that of a key never
	// charged.
	ResetAfter time.Duration

	// EffectiveWindow is the time over which a client should spread Remaining: the parameter t of
	// the IETF RateLimit field (draft-ietf-httpapi-ratelimit-headers-11, section 4.1.2). If
	// Remaining is 0, it is the wait until one unit fits. On a denial it equals RetryAfter. For a
	// concurrency limit it is [Never].
	EffectiveWindow time.Duration

	// Delay is how long an allowed request must wait for its turn in a leaky queue. It is 0 for
	// other algorithms.
	Delay time.Duration

	// At is the backend's clock at the decision, in microseconds since the
	// Unix epoch: time.UnixMicro(d.At).
	At int64

	// Ticket identifies the taking to the backend when the request ends: see backends.Ending. Its
	// format is private to the backend. It is meaningless if nothing was taken, or if the charge
	// has no end.
	Ticket int64
}

// Never is the wait of a request that no wait helps: it costs more than the limit ever allows.
const Never time.Duration = math.MaxInt64

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

var sourceNames = [...]string{"primary", "denial-cache", "lease", "fallback", "local", "open",
	"closed", "not-asked"}

// String returns a short name for logs and metric labels, such as "fallback".
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return fmt.Sprintf("Source(%d)", uint8(s))
}

// Counted reports whether a decision of this source comes from counted state. Otherwise its numbers
// mean nothing.
func (s Source) Counted() bool { return s <= SourceLocal }
