package shed

import (
	"time"

	"github.com/weir-go/weir/stats"
)

// Verdict says what becomes of a request.
type Verdict uint8

const (
	Admitted Verdict = iota + 1 // it goes on
	Shed                        // it is answered 503
	Left                        // its context ended in the queue: the client left, or time was up
)

// String returns "admitted", "shed" or "left".
func (v Verdict) String() string {
	switch v {
	case Admitted:
		return "admitted"
	case Shed:
		return "shed"
	case Left:
		return "left"
	}
	return "undecided"
}

// Event is what a [Shedder] decided about a request.
type Event struct {
	Verdict  Verdict
	Class    string        // its name; "" if Exempt
	Exempt   bool          // it does not count as in flight
	Shadow   bool          // with [core.Enforce] it would have been shed, or would wait
	Ahead    bool          // services behind would have shed it: see Options.Needs
	Limit    int           // in force at the decision
	InFlight int           // at the decision, with this request if it was admitted
	Wait     time.Duration // in the queue
	Spread   time.Duration // of a shed request: its Retry-After is 1 s to this long, at random
}

// State is what a [Shedder] does now and has done, for gauges, counters and pages. Its fields are
// those of [stats.ShedderState].
type State = stats.ShedderState
