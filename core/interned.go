package core

import (
	"sync/atomic"

	"github.com/weir-go/weir/limits"
)

// interned has limits of single requests: results of LimitFor, and shares of a fallback.
var interned [256]atomic.Pointer[limits.Limit]

// intern returns a pointer to a limit equal to l. Outcomes keep pointers, because each request
// clears and copies them. intern allocates for a limit that it sees for the first time, and again
// if more than about a hundred limits are in use at once.
func intern(l *limits.Limit) *limits.Limit {
	rate := l.Rate()
	first := uint8((uint64(rate.Units)*0x9e3779b97f4a7c15 + uint64(rate.Period)*0xc2b2ae3d27d4eb4f +
		uint64(l.Burst())*0x165667b19e3779f9 + uint64(l.Algorithm())<<60) >> 56)
	for i := range uint8(8) {
		slot := &interned[first+i]
		known := slot.Load()
		if known == nil {
			slot.CompareAndSwap(nil, new(*l))
			known = slot.Load()
		}
		if *known == *l {
			return known
		}
	}
	fresh := new(*l)
	interned[first].Store(fresh)
	return fresh
}
