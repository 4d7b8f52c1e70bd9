package remote

import (
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
)

// leaseTerms are the terms on which keys of a limit are leased.
type leaseTerms struct {
	limit       limits.Limit
	tight       limits.Limit // for the inner backend: see Leased
	lease       int64        // microseconds; 0: not leased
	spendFor    int64        // microseconds from the request for a block to the end of its use
	maxBlock    int64        // the largest block
	chargeLasts time.Duration
	isWindow    bool // all units are back when a window ends
}

// newLeaseTerms returns the terms of limit.
func newLeaseTerms(limit limits.Limit, term time.Duration) *leaseTerms {
	tight, lease := Leased(limit, term)
	t := &leaseTerms{
		limit: limit, tight: tight, lease: lease.Microseconds(),
		isWindow: algorithm.Of(limit.Algorithm()).Ends,
	}
	if lease > 0 {
		t.spendFor = (lease - leaseSlack).Microseconds()
		t.maxBlock = leaseBlock(limit, t.lease)
		t.chargeLasts = 2 * lease
	}
	return t
}

// effectiveWindow returns the time over which a client should spread n units.
func (t *leaseTerms) effectiveWindow(n int64) time.Duration {
	rate := t.tight.Rate()
	return arith.Wait(arith.MuldivCeil(max(1, n), rate.Period.Microseconds(), rate.Units))
}

// leaseTermsCache caches the terms of limits in use. Two limits in one slot replace each other,
// which costs as much as computing them.
type leaseTermsCache struct {
	term  time.Duration // the longest lease
	slots [64]atomic.Pointer[leaseTerms]
}

func (c *leaseTermsCache) get(limit *limits.Limit) *leaseTerms {
	rate := limit.Rate()
	mixed := uint64(rate.Units)*0x9E3779B97F4A7C15 ^
		uint64(rate.Period)*0xC2B2AE3D27D4EB4F ^
		uint64(limit.Burst())*0x165667B19E3779F9 ^ uint64(limit.Algorithm())<<58
	slot := &c.slots[mixed>>58]
	if t := slot.Load(); t != nil && t.limit == *limit {
		return t
	}
	t := newLeaseTerms(*limit, c.term)
	slot.Store(t)
	return t
}
