package remote

import (
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
)

const (
	// minLease is the shortest term that pays for a question of its own.
	minLease = 10 * time.Millisecond
	// maxLease is the longest term, so that what a process holds is soon back.
	maxLease = time.Second
	// minLeasedBurst is the least burst that is worth dividing into blocks.
	minLeasedBurst = 20
	// leaseSlack is taken off every term: the clocks of two machines differ by less than
	// one part in a thousand, and no term is longer than a second.
	leaseSlack = time.Millisecond
)

// Leased returns the limit that a [LeaseCache] asks its backend for in place of limit, and for
// how long it spends units after asking for them, at most term. Units that are charged
// under the tighter limit and spent within the lease never exceed limit, whatever the number
// of processes. Of a limit that is not leased, it returns the limit and 0.
//
//   - Token and leaky buckets have a burst that is lower by what the rate brings in a lease.
//   - Sliding logs have a period that is longer by a lease.
//   - Fixed and sliding windows and periods of the calendar are asked for as they are: units are spent in the window in
//     which they were charged.
//   - All others are not leased: queues, concurrency limits, bans, and windows that start
//     with a key's first request.
//
// A lease is 5% of the period (2% of a sliding log's), or of the time in which a full
// bucket drains if that is less; at most one second. Limits whose lease would be under 10
// ms, whose tighter burst is under 20 units, or whose rate brings less than 7 units in a
// lease, are not leased.
func Leased(limit limits.Limit, term time.Duration) (limits.Limit, time.Duration) {
	if limit.Validate() != nil {
		return limit, 0
	}
	tight, lease, rate, burst := limit, int64(0), limit.Rate(), limit.Burst()
	p := rate.Period.Microseconds()
	traits := &algorithm.Of(limit.Algorithm()).Traits
	switch {
	case !traits.Leased:
		return limit, 0
	case traits.Drains:
		lease = min(p, arith.Muldiv(burst, p, rate.Units)) / 20
	case traits.Lists:
		lease = p / 50
	default:
		lease = p / 20
	}
	lease = min(lease, term.Microseconds(), maxLease.Microseconds())
	switch {
	case traits.Drains:
		tight = withBurst(limit, burst-arith.MuldivCeil(rate.Units, lease, p))
	case traits.Lists:
		tight = limits.SlidingLog(limits.Per(rate.Units, rate.Period+arith.Wait(lease)))
	}
	if arith.Wait(lease) < minLease || tight.Burst() < minLeasedBurst || leaseBlock(limit, lease) < minBlock || tight.Validate() != nil {
		return limit, 0
	}
	return tight, arith.Wait(lease)
}

// withBurst returns a bucket with another burst.
func withBurst(l limits.Limit, burst int64) limits.Limit {
	if l.Algorithm() == limits.AlgorithmLeakyBucket {
		return limits.LeakyBucket(l.Rate(), burst)
	}
	return limits.TokenBucket(l.Rate(), burst)
}

// leaseBlock returns the most units that are asked for at once: half of what the rate of l
// brings in a lease, in microseconds.
func leaseBlock(l limits.Limit, lease int64) int64 {
	return arith.MuldivCeil(l.Rate().Units, lease, 2*l.Rate().Period.Microseconds())
}
