package stats

import (
	"time"

	"github.com/weir-go/weir/core"
)

// ShedderState is what a shedder of package shed does now and has done, for gauges, counters
// and pages. shed.State is another name of it. It is here so that a program that counts
// without package shed contains neither that package nor net/http.
type ShedderState struct {
	Mode        core.Mode
	Limit       int // how many may be in flight
	MaxInFlight int // what Limit never exceeds
	InFlight    int
	Streams     int                 // answers that have become streams: not in flight any more
	Exempt      int                 // exempt requests under way: not in flight
	Shadowed    int                 // under way that shadow admitted: not in flight
	Waiting     int                 // in the queue
	Oldest      time.Duration       // for how long the oldest request in flight has been running
	Routes      int                 // with samples of their own
	Tenants     int                 // that are known by their names
	Updates     int64               // windows after which the limit was decided
	Panics      int64               // of them that panicked, and left the limit as it was
	ExemptTotal int64               // exempt requests ever
	Classes     []ShedderClassState // the most important first
}

// ShedderClassState is what a [ShedderState] says of a class. Counters start when the class is
// first named, and survive Replace.
type ShedderClassState struct {
	Name     string
	Share    int // percent of the limit
	Entry    int // a request enters if fewer than so many are in flight
	InFlight int
	Waiting  int
	Admitted int64 // requests that went on, without those that Shadow let pass
	Shed     int64
	Shadowed int64 // that would have been shed
	Left     int64 // whose context ended in the queue: the client left, or the server was over its deadline or shut down
}
