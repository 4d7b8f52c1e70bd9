package shed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// Options configures a [Shedder]. R is the framework's request, such as *http.Request.
// The zero value of every field is a usable default.
type Options[R any] struct {
	// SLO is the latency that answers must keep. If a route misses it because its requests queue,
	// fewer requests are admitted. A route that is slow without a queue sheds nothing. 0: latencies
	// are compared with what is usual for each route.
	SLO time.Duration

	// Limit is how many requests may be in flight at once, if the number is known: 1 to 1,000,000;
	// 2 or more if the classes differ in their shares. SLO does not change it. 0: the Shedder finds
	// the limit, and changes it as the service becomes faster or slower.
	Limit int

	// MaxInFlight is what the limit never exceeds, 1 to 1,000,000; 2 or more if the classes differ
	// in their shares. Set it to what the process survives: when a dependency of one route hangs,
	// requests of that route pile up to it. 0: 10,000, and 400 for requests that pile up.
	MaxInFlight int

	// Classes are the classes of requests, the most important first; at most 16. nil: one class,
	// "all".
	Classes []Class

	// Classify returns the index of the class of a request. An index out of range means the last
	// class, the least important. Classify must depend on what the program knows of the request:
	// its method, its route or an authenticated user. It must not depend on what a client says of
	// itself, in a header field or a parameter: such a client always chooses the highest class.
	// nil: all requests belong to the last class.
	Classify func(R) int

	// Tenant names the client of a request, such as an account whose credential has been checked.
	// While places are free, any client may have them. A request of a client that uses much more
	// than an equal share of the limit enters while less than half of the places of its class are
	// taken. The other half is for clients that use less. Tenant must not depend on what a client
	// says of itself: many names get many shares. All names of less than 2 seconds are one client
	// together, and the Shedder knows 1,000 others. nil: all requests are of one client.
	Tenant func(R) string

	// Exempt reports requests that are never shed, do not count as in flight and teach the Shedder
	// nothing: health checks above all, which are fast when nothing else is. It must not depend on
	// what a client says of itself, either. nil: none.
	//
	// Streams and upgrades need no exemption: a request is no longer in flight from its first Flush
	// or Hijack on.
	Exempt func(R) bool

	// Route names the route of a request. It is called when the request ends, since routers inside
	// the shedder know only then. Latencies are compared within a route. After 256 routes, all
	// others are one. So Route must return the pattern, such as "/users/{id}", and not the path.
	// nil: what the framework says; of net/http Request.Pattern.
	Route func(R) string

	// Lot names what a request is part of, such as its trace. Of equally important requests, all
	// shedders that get the same names shed the same requests first. So if a request calls several
	// services, none of them works for a request that another one sheds. A client must not choose
	// the name: the first service draws it, and the others read it from what they are sent. "" is a
	// new name. nil: requests that come while there is no room are shed.
	Lot func(R) string

	// Needs names what a request needs of other services, before it runs: its route, if requests of
	// one route call the same services. While these shed requests of a name, so that the answer is
	// 503, or Unavailable of a call, the Shedder sheds most of them ahead, the least important
	// first. Otherwise other services would work in vain. After 256 names, all others are one,
	// until one is idle for 30 seconds. Needs must not depend on what a client says of itself.
	//
	// Set it only where a 503 means load: an [http.TimeoutHandler] inside answers 503, too. A
	// handler must not answer 503 because of what a client asks for. What limiters of weir answer
	// inside does not count. If a
	// service refuses more than a tenth at any load, the Shedder learns that within a minute or
	// two; until then it sends less than that service could do. Of a class, requests of a Tenant
	// that uses much more than the others do are shed ahead first. nil: nothing is shed ahead.
	Needs func(R) string

	// MaxWait is how long a request may wait in a queue for a place before it is shed. The newest
	// request of the most important class goes first: the client of the oldest one is most likely
	// to give up. 0: no queue. 50 milliseconds are enough to smooth bursts. At most a minute.
	MaxWait time.Duration

	// MaxWaiting is how many requests may wait at once, if there is a queue. In a full queue the
	// oldest request of the least important class yields to a newer one. 0: as many as the limit.
	MaxWaiting int

	// Mode is [core.Enforce], the zero Mode, [core.Shadow], which decides and counts but sheds
	// nothing, or [core.Disabled], which does nothing. In shadow, requests that would have been
	// shed run in addition, uncounted. They make the service slower, so the numbers are too high.
	Mode core.Mode

	// Observe is called once per request, when it is decided, for exempt ones, too. It must be
	// quick and safe for concurrent use. nil: nothing is called.
	Observe func(context.Context, R, Event)

	// Denied answers a request that is shed, or has the verdict Left, with status 503. When it is
	// called, the header has Retry-After and Cache-Control: no-store. nil: a problem document or
	// plain text, as the client prefers.
	Denied func(http.ResponseWriter, R, Event) error

	// DrainLimit is the most bytes of the body of a request that is shed that are read and dropped
	// before the answer, so that clients see it that send all of an upload first. 0: 8 MiB.
	// Negative: none. See the DrainLimit of package nethttp.
	DrainLimit int64
}

const (
	maxMaxInFlight = 1_000_000
	longestWait    = time.Minute
)

// check returns every mistake in o.
func (o *Options[R]) check() error {
	var errs []error
	mistake := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("shed: "+format, args...))
	}
	if o.SLO < 0 {
		mistake("slo: must be positive, or 0 for none (got %v)", o.SLO)
	}
	if o.MaxInFlight < 0 || o.MaxInFlight > maxMaxInFlight {
		mistake("max in flight: must be 1 to %d, or 0 for %d (got %d)",
			maxMaxInFlight, defaultMaxInFlight, o.MaxInFlight)
	}
	if o.Limit < 0 || o.Limit > maxMaxInFlight {
		mistake("limit: must be 1 to %d, or 0 to find it (got %d)", maxMaxInFlight, o.Limit)
	}
	if o.MaxInFlight > 0 && o.Limit > o.MaxInFlight {
		mistake("limit: must be at most max in flight, %d (got %d)", o.MaxInFlight, o.Limit)
	}
	if o.MaxWait < 0 || o.MaxWait > longestWait {
		mistake("max wait: must be at most %v, or 0 for no queue (got %v)", longestWait, o.MaxWait)
	}
	if o.MaxWaiting < 0 {
		mistake("max waiting: must be positive, or 0 for as many as the limit (got %d)",
			o.MaxWaiting)
	}
	if o.MaxWaiting > 0 && o.MaxWait == 0 {
		mistake("max waiting: no request waits without a max wait: set it (got %d)", o.MaxWaiting)
	}
	if o.Mode != core.Enforce && o.Mode != core.Shadow && o.Mode != core.Disabled {
		mistake("mode: must be enforce, shadow or disabled (got %v)", o.Mode)
	}
	if len(o.Classes) > maxClasses {
		mistake("classes: at most %d (got %d)", maxClasses, len(o.Classes))
	}
	before, first := 100, 0
	names := make(map[string]bool, len(o.Classes))
	for i, c := range o.Classes {
		share := c.share(i, before)
		switch {
		case c.Name == "":
			mistake("class %d: name: required", i)
		case names[c.Name]:
			mistake("class %d: name: there is another class %q", i, c.Name)
		}
		if c.Share < 0 || c.Share > 100 {
			mistake("class %d: share: must be 1 to 100 percent, or 0 for the default (got %d)",
				i, c.Share)
		} else if share > before {
			mistake("class %d: share: must be at most %d percent, "+
				"that of the class before (got %d)", i, before, share)
		} else {
			before = share
		}
		names[c.Name] = true
		if i == 0 {
			first = share
		}
	}
	if before < first { // the last place is for the first class
		const two = "%s: must be at least 2, as classes differ in their shares (got 1)"
		if o.Limit == 1 {
			mistake(two, "limit")
		}
		if o.MaxInFlight == 1 {
			mistake(two, "max in flight")
		}
	}
	return errors.Join(errs...)
}

func (o Options[R]) shedder(a shedlimit.Algorithm) (any, error) { return newShedder(o, a) }
