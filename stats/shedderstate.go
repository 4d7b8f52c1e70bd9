package stats

import (
	"time"

	"github.com/weir-go/weir/core"
)

// ShedderState is the state of a shedder of package shed, for gauges, counters and pages.
// shed.State is an alias of it. It is defined here so that a program that counts without package
// shed links neither that package nor net/http.
type ShedderState struct {
	Mode        core.Mode
	Limit       int // how many requests may be in flight
	MaxInFlight int // the upper bound of Limit
	InFlight    int
	Streams     int                 // responses that became streams: no longer in flight
	Exempt      int                 // exempt requests running: not in flight
	Shadowed    int                 // running requests that Shadow let pass: not in flight
	Waiting     int                 // in the queue
	Oldest      time.Duration       // age of the oldest request in flight
	Routes      int                 // routes with samples of their own
	Tenants     int                 // tenants known by name
	Updates     int64               // windows after which the limit was decided
	Panics      int64               // Updates that panicked, and left the limit unchanged
	ExemptTotal int64               // exempt requests since the start
	Classes     []ShedderClassState // most important first
}

// ShedderClassState is the state of one class of a [ShedderState]. Counters start when the class is
// first named, and survive Replace.
type ShedderClassState struct {
	Name     string
	Share    int // percent of the limit
	Entry    int // a request enters if fewer than this many are in flight
	InFlight int
	Waiting  int
	Admitted int64 // admitted, without those that Shadow let pass
	Shed     int64
	Shadowed int64 // Shadow let them pass; Enforce would have shed them
	Ahead    int64 // of Shed and Shadowed: services behind would have shed them, see shed.Options.Needs
	Left     int64 // context ended in the queue: client gone, deadline or shutdown
}
