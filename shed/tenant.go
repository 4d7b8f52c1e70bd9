package shed

import (
	"time"

	"github.com/weir-go/weir/shed/internal/adaptive"
)

const (
	mostTenants = 1000
	mostYoung   = 1024
	youngFor    = 2 * time.Second // a name is new for so long
	youngKept   = 2 * youngFor    // and for so long no other name replaces it
	useLife     = 2 * time.Second // halves tenant.use
	countEvery  = 250 * time.Millisecond
	notableUse  = 0.1 // times an equal share of all names: a tenant that uses as much is active
	candidates  = 8   // tenants are drawn, and the one that uses least is evicted

	// A tenant may fill the limit of its class while it uses up to the first part of an equal
	// share, and half of that limit from the second part on.
	fullUntil, halfFrom = 0.75, 1.25
)

// tenants share the limit. While places are free, any tenant may have them. The last half of the
// places is for tenants that use less than an equal share. The limiter's lock guards it.
//
// An example: the limit is 40, and 4 tenants are active, so an equal share is 10. A tenant with 7.5
// in flight on average, or fewer, enters below 40. One with 10 enters below 30. One with 12.5 or
// more enters below 20.
//
// Names are kept as hashes. A name that comes again after youngFor becomes a tenant. Until then
// it is one of the newcomers, who are one tenant together. So a new name for each request gains
// nothing, and evicts no tenant.
type tenants struct {
	known     map[uint64]*tenant // at most mostTenants
	list      []*tenant          // the same
	newcomers tenant
	young     [mostYoung]young // by hash; a name replaces one that did not come again
	active    float64          // number of tenants that use the service
	share     float64          // an equal share of limit
	limit     float64          // its mean, over the time over which the use of tenants is one
	mean      float64          // use of a tenant that uses the service
	counted   instant          // when these were computed
	random    uint64
}

// young is a name that may become a tenant.
type young struct {
	name  uint64
	since instant
}

// tenant is a client with a name, or all newcomers.
type tenant struct {
	name     uint64
	at       int // in tenants.list
	inFlight int
	waiting  int
	use      float64 // requests in flight, on average, until the instant until
	until    instant
	asksTill instant // it is active until then: one of its requests did not get in
}

func newTenants() *tenants { return &tenants{known: make(map[uint64]*tenant), active: 1} }

// of returns the tenant of a name.
func (t *tenants) of(name uint64, now instant) *tenant {
	if known := t.known[name]; known != nil {
		return known
	}
	y := &t.young[name%mostYoung]
	switch {
	case y.name == name && now-y.since >= youngFor:
		*y = young{}
		return t.add(name, now)
	case y.name != name && (y.name == 0 || now-y.since >= youngKept):
		*y = young{name, now}
	}
	return &t.newcomers
}

// add makes a name a tenant. If there are too many, it draws some and evicts the one that uses
// least.
func (t *tenants) add(name uint64, now instant) *tenant {
	x := &tenant{name: name, at: len(t.list), until: now}
	if len(t.list) < mostTenants {
		t.list = append(t.list, x)
		t.known[name] = x
		return x
	}
	least := t.list[pick(&t.random, len(t.list))]
	for range candidates - 1 {
		if other := t.list[pick(&t.random, len(t.list))]; other.useAt(now) < least.useAt(now) {
			least = other
		}
	}
	delete(t.known, least.name)
	x.at = least.at
	t.list[x.at], t.known[name] = x, x
	return x
}

// useAt returns the use up to now.
func (x *tenant) useAt(now instant) float64 {
	if now > x.until {
		x.use = float64(x.inFlight) + (x.use-float64(x.inFlight))*adaptive.Half(now-x.until, useLife)
		x.until = now
	}
	return x.use
}

// add counts n more requests in flight from now on. A nil tenant counts nothing.
func (x *tenant) add(n int, now instant) {
	if x != nil {
		x.useAt(now)
		x.inFlight += n
	}
}

// refused notes that a request of x did not get in.
func (x *tenant) refused(now instant) {
	if x != nil {
		x.asksTill = now + useLife
	}
}

// part returns the part of the places of its class that x may fill.
func (t *tenants) part(x *tenant, limit int, now instant) float64 {
	t.refresh(limit, now)
	if t.active <= 1 {
		return 1
	}
	shares := x.useAt(now) / max(t.share, float64(limit)/t.active)
	return min(1, max(0.5, 1-(shares-fullUntil)*0.5/(halfFrom-fullUntil)))
}

// over reports whether x uses much more than others do. The limit plays no part in it: that of a
// front may be far above what is in flight.
func (t *tenants) over(x *tenant, limit int, now instant) bool {
	t.refresh(limit, now)
	return x.useAt(now) > halfFrom*t.mean
}

func (t *tenants) refresh(limit int, now instant) {
	if t.share == 0 || now-t.counted >= countEvery {
		t.count(float64(limit), now)
	}
}

// count counts the tenants that use the service, or that asked and did not get in. With these, a
// tenant that fills all places is not alone.
func (t *tenants) count(limit float64, now instant) {
	t.limit = limit + (t.limit-limit)*adaptive.Half(now-t.counted, useLife)
	t.active, t.counted = 0, now
	least := notableUse * t.limit / float64(len(t.list)+1)
	sum, users := 0.0, 0.0
	for x := range t.each {
		if x.useAt(now) >= least || now < x.asksTill {
			t.active++
		}
		sum += x.use
	}
	least = notableUse * sum / float64(len(t.list)+1)
	for x := range t.each {
		if x.use >= least {
			users++
		}
	}
	t.share, t.mean = t.limit/max(1, t.active), sum/max(1, users)
}

// each yields all tenants.
func (t *tenants) each(yield func(*tenant) bool) {
	for _, x := range t.list {
		if !yield(x) {
			return
		}
	}
	yield(&t.newcomers)
}
