package remote

import (
	"sync/atomic"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// leaseCounters counts blocks and their units. It does not count decisions.
type leaseCounters struct {
	taken, denied, failed   atomic.Int64
	units, returned, voided atomic.Int64
}

// Counts returns what c holds, and counts since it was made. It looks at all keys, without
// delaying any decision.
func (c *LeaseCache) Counts() backends.LeaseCounts {
	n := backends.LeaseCounts{
		BlocksTaken:  c.counters.taken.Load(),
		BlocksDenied: c.counters.denied.Load(),
		BlocksFailed: c.counters.failed.Load(),

		UnitsTaken:    c.counters.units.Load(),
		UnitsReturned: c.counters.returned.Load(),
		UnitsVoid:     c.counters.voided.Load(),
	}
	now := c.now()
	for i := range c.sets {
		set := c.sets[i].Load()
		if set == nil {
			continue
		}
		for j := range set.leased {
			l := set.leased[j].Load()
			if l == nil {
				continue
			}
			if held := l.used.Load().left(now) + l.next.Load().left(now); held > 0 {
				n.Keys++
				n.Held += held
			}
		}
	}
	return n
}

// settled counts units whose return has ended with s: they were returned or are void.
func (n *leaseCounters) settled(units int64, s limits.Settlement) {
	returned := int64(0)
	if s.Err == nil {
		returned = min(units, s.Returned)
	}
	n.returned.Add(returned)
	n.void(units - returned)
}

func (n *leaseCounters) void(units int64) {
	if units > 0 {
		n.voided.Add(units)
	}
}
