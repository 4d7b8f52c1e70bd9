package descriptors

import (
	"fmt"
	"time"
)

// Request asks whether something may go on that each of its descriptors describes.
type Request struct {
	Domain      string
	Descriptors []Descriptor

	// Hits is how many units each descriptor without Hits of its own is charged. 0: 1.
	Hits uint64
}

// Descriptor is a list of keys and values, by which a limit is looked up.
type Descriptor struct {
	Entries []Entry

	// Limit is in force in place of the limit of the file. It is counted in the same window
	// as a limit of the same unit. nil: that of the file.
	Limit *Override

	// Hits is how many units the descriptor is charged; 0 charges nothing, and asks whether
	// the limit is exceeded. nil: that of the request.
	Hits *uint64

	// Refund returns the units of Hits instead of charging them, as far as the window has them.
	Refund bool
}

// Entry is one pair of a [Descriptor].
type Entry struct{ Key, Value string }

// Override is a limit that comes with a request. A limit above 499,999,999 counts as that.
type Override struct {
	RequestsPerUnit uint32
	Unit            Unit
	Multiplier      uint32 // how many units a window has; 0: 1
}

// Answer is what a [Request] comes to.
type Answer struct {
	Over     bool     // the request is to be denied
	Statuses []Status // one for each descriptor, in order
	Source   Source   // who counted

	// Turn is when a request that is Over may come again if [Options].MaxPromise is set: a turn of its
	// own, not before the Reset of a status that is over. 0: no turn is promised.
	Turn time.Duration

	// Metadata has that of the rules that are not exceeded, as the file has it. It is not to
	// be modified. nil: the rules have no metadata.
	Metadata map[string]any
}

// Status is what one [Descriptor] comes to.
type Status struct {
	Over      bool
	Shadowed  bool   // the limit is exceeded, and shadow_mode lets the request pass
	Limit     *Limit // that decided; nil: no limit did, or was asked, or it is unlimited or replaced
	Remaining uint32 // units that are left
	Reset     time.Duration
	Unlimited bool // Remaining is then the highest number
}

// Limit is a limit as answers show it.
type Limit struct {
	Name            string
	RequestsPerUnit uint32
	Unit            Unit   // 0: no unit is as long as its period
	Multiplier      uint32 // how many units a window has; 0: 1
}

// Unit is a unit of time in files and requests. Its numbers are those of Envoy.
type Unit uint8

// The units. A month and a year are those of the calendar, in UTC.
const (
	Second Unit = 1 + iota
	Minute
	Hour
	Day
	Month
	Year
	Week
)

var unitNames = [...]string{"unknown", "second", "minute", "hour", "day", "month", "year", "week"}

// String returns the name that files have.
func (u Unit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return unitNames[0]
}

// Source says who counted the units of an [Answer].
type Source uint8

// The sources.
const (
	NotCounted Source = iota // no descriptor has a limit
	Backend
	Fallback // the memory of this process, because the backend failed
	Open     // none: the backend failed, and the file says that its limits are then open
)

var sourceNames = [...]string{"none", "backend", "fallback", "open"}

// String returns a short name for metadata and metric labels.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "unknown"
}

// Invalid is the error for a request that breaks the protocol, and the reason in the log for a
// descriptor that does. Its text has no part of the request.
type Invalid string

// Error returns what is wrong.
func (e Invalid) Error() string { return string(e) }

// Bounds of a request, which the configuration of a proxy decides, and no client.
const (
	maxDescriptors = 64
	maxDomain      = 256
)

// maxHits is above every limit, so a higher addend is charged and denied as it is. Refusing it
// would let the longest streams pass uncharged.
const maxHits = 1_000_000_001

// validate returns an [Invalid] error if r breaks the protocol or a bound.
func (r *Request) validate() error {
	switch {
	case r.Domain == "":
		return Invalid("rate limit domain must not be empty")
	case len(r.Domain) > maxDomain:
		return invalidf("the domain must have at most %d bytes", maxDomain)
	case len(r.Descriptors) == 0:
		return Invalid("rate limit descriptor list must not be empty")
	case len(r.Descriptors) > maxDescriptors:
		return invalidf("a request must have at most %d descriptors (got %d)",
			maxDescriptors, len(r.Descriptors))
	}
	return nil
}

// validate returns an [Invalid] error if d, the i-th descriptor of a request to domain, cannot be
// counted. Then the other descriptors are: a proxy that is answered with an error may let the
// request pass all limits. So what a client can bring about, such as a long value, is no mistake.
func (d *Descriptor) validate(domain *domain, i int) error {
	if len(d.Entries) == 0 {
		return invalidf("descriptor %d has no entries", i)
	}
	for _, e := range d.Entries {
		if e.Key == "" {
			return invalidf("descriptor %d has an empty key", i)
		}
	}
	switch l := d.Limit; {
	case l == nil:
	case l.Unit < Second || l.Unit > Week:
		return invalidf("the limit of descriptor %d has no unit", i)
	case !isLegalMultiplier(l.Unit, l.Multiplier):
		return invalidf("the window of descriptor %d must have at most %d units (got %d)",
			i, longestWindows[l.Unit], l.Multiplier)
	case domain.allOrNothing:
		return invalidf("descriptor %d brings a limit, which all_or_nothing excludes", i)
	}
	return nil
}

func invalidf(format string, args ...any) error { return Invalid(fmt.Sprintf(format, args...)) }

// hits returns how many units a descriptor of r is charged, at most maxHits.
func (r *Request) hits(d *Descriptor) int64 {
	if d.Hits != nil {
		return int64(min(*d.Hits, maxHits))
	}
	return int64(min(max(1, r.Hits), maxHits))
}
