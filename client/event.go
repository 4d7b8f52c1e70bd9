package client

import (
	"fmt"
	"net/http"
	"time"
)

// EventKind says what happened.
type EventKind uint8

const (
	// Held: a request was sent after it had been held back for Wait.
	Held EventKind = iota + 1
	// Limited: a server denied a request, and asks for Wait.
	Limited
	// Repeated: a request that was denied, or whose connection was refused, waits to be sent again.
	Repeated
	// GaveUp: a denial goes back to the caller, or a request fails with a [*WaitError]. Why has the
	// reason.
	GaveUp
	// Alone: Options.Backend failed, and this process keeps the cap by itself. Why has the error.
	Alone
	// Paused: an answer that is no denial tells that nothing is left. As far as is known, no
	// request of its bucket starts for Wait.
	Paused
	// Resumed: after Limited or Paused, a request of the bucket was not denied. It was sent Wait
	// after that event.
	Resumed
)

var kindNames = [...]string{
	Held: "held", Limited: "limited", Repeated: "repeated", GaveUp: "gave up", Alone: "alone",
	Paused: "paused", Resumed: "resumed",
}

// String returns the name of k in lower case.
func (k EventKind) String() string {
	if k >= Held && k <= Resumed {
		return kindNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is an event for [Options.Observe].
type Event struct {
	Kind    EventKind
	Request *http.Request // the caller's; do not change it
	Bucket  string        // may tell credentials apart; do not publish it
	Attempt int           // 1 is the first
	Status  int           // of the answer; 0 without one
	Wait    time.Duration
	Source  string // what asked for Wait, as in [WaitError]
	Why     string // of GaveUp and Alone
}

// WaitError is the error of a request that was held back and would have to wait longer than
// [Options.MaxWait] or its context allows. Unless it had been denied before, the request was not
// sent. [errors.As] finds the WaitError in the error of an [http.Client].
type WaitError struct {
	// Bucket may tell credentials apart. Error does not show it.
	Bucket string
	// Wait is how long the request would have to wait from now on, as far as is known.
	Wait time.Duration
	// Source is what asked for the wait: a field, such as "Retry-After"; "body" if no field tells a
	// wait and the body of a denial does; "backoff" after a denial without a wait; "limit" for
	// [Options.Limit]; "in flight" for [Options.MaxInFlight]; "first answer" if little is known of
	// the bucket yet; "learned pace" of a server that denies and tells nothing; "account" for
	// [Options.Account]; "refused connection"; "queue" if requests waited before this one; or the
	// name of a rule of the dialect.
	Source string
	// Bound is what is shorter than the wait: "MaxWait", or "context" for the deadline of the
	// request's context, whichever is sooner.
	Bound string
}

// Sources that are no fields.
const (
	sourceBackoff     = "backoff"
	sourceLimit       = "limit"
	sourceInFlight    = "in flight"
	sourceFirstAnswer = "first answer"
	sourceQueue       = "queue"
)

const (
	boundMaxWait = "MaxWait"
	boundContext = "context"
)

// Error says how long the wait is, what asked for it, and what is too short for it.
func (e *WaitError) Error() string {
	return fmt.Sprintf("client: held back: the wait of %v (%s) is %s",
		e.Wait.Round(time.Millisecond), e.Source, tooLong(e.Bound))
}

// tooLong says by what bound a wait is too long. A request that has waited before has less left.
func tooLong(bound string) string {
	switch bound {
	case boundMaxWait:
		return "longer than what is left of MaxWait"
	case boundContext:
		return "longer than the context allows"
	}
	return "longer than MaxWait or the context allows"
}
