package client

import (
	"cmp"
	"fmt"
	"net/http"
	"time"
)

// EventKind says what happened.
type EventKind uint8

const (
	// Held: a request was sent after having been held back for Wait.
	Held EventKind = iota + 1
	// Limited: a server denied a request. It is asked again after Wait at the earliest.
	Limited
	// Repeated: a request that was denied, or whose connection was refused, waits to be sent
	// again.
	Repeated
	// GaveUp: a denial goes back to the caller, or a request fails with a [*WaitError]. Why
	// has the reason.
	GaveUp
	// Alone: Options.Backend failed, and this process keeps the cap by itself. Why has
	// the error.
	Alone
	// Paused: an answer that is no denial has nothing left. No request of its bucket goes for Wait, as far
	// as is known.
	Paused
	// Resumed: after Limited or Paused, a request of the bucket was not denied. Wait is how long it took until
	// that was sent.
	Resumed
)

var kindNames = [...]string{
	Held: "held", Limited: "limited", Repeated: "repeated", GaveUp: "gave up", Alone: "alone", Paused: "paused", Resumed: "resumed",
}

// String returns the name of k in lower case.
func (k EventKind) String() string {
	if k >= Held && k <= Resumed {
		return kindNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is what [Options.Observe] is told.
type Event struct {
	Kind    EventKind
	Request *http.Request // the caller's; not to be changed
	Bucket  string        // may tell credentials apart, and must not be published
	Attempt int           // 1 is the first
	Status  int           // of the answer; 0 if there is none
	Wait    time.Duration
	Source  string // what asked for Wait, as in [WaitError]
	Why     string // of GaveUp and Alone
}

// WaitError is the error of a request that was held back: it would have had to wait for
// longer than [Options.MaxWait] or its context allows. Unless the request had been denied
// before, it was not sent. [errors.As] finds it in the error of an [http.Client].
type WaitError struct {
	// Bucket may tell credentials apart. Error does not show it.
	Bucket string
	// Wait is how long the request would have had to wait from now on, as far as is known.
	Wait time.Duration
	// Source is what asked for the wait: a field, such as "Retry-After"; "backoff" if an
	// answer denied without saying how long; "limit" for [Options.Limit]; "in flight" for
	// [Options.MaxInFlight]; "first answer" if little is known of the bucket yet;
	// "learned pace" of a server that denies and says nothing; "account" for [Options.Account];
	// "refused connection";
	// "queue" if requests waited before this one; or the name of a rule of the dialect.
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

// Error says how long the wait is, who asked for it, and what did not allow it.
func (e *WaitError) Error() string {
	return fmt.Sprintf("client: held back: the wait of %v (%s) is %s", e.Wait.Round(time.Millisecond), e.Source, longerThan(e.Bound))
}

// longerThan says what a wait is, of that bound.
func longerThan(bound string) string {
	if bound == boundContext {
		bound = "the context"
	}
	return "longer than " + cmp.Or(bound, "MaxWait or the context") + " allows"
}
