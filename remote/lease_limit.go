package remote

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
)

const (
	// minLease is the shortest term that is worth a call of its own.
	minLease = 10 * time.Millisecond
	// maxLease is the longest term, so that unspent units are soon back.
	maxLease = time.Second
	// minLeasedBurst is the smallest burst that is worth dividing into blocks.
	minLeasedBurst = 20
	// leaseSlack is taken off every term. The clocks of two machines differ by less than one part
	// in a thousand, and no term is longer than a second.
	leaseSlack = time.Millisecond
)

// Leased returns the limit that a [LeaseCache] asks its backend for in place of limit, and the
// lease: how long it spends units after asking for them, at most term. Units that are charged
// under the tighter limit and spent within the lease never exceed limit, whatever the number of
// processes. For a limit that is not leased, it returns the limit and 0.
//
//   - Token and leaky buckets have a burst that is lower by what the rate brings in a lease.
//   - Sliding logs have a period that is longer by a lease.
//   - Fixed and sliding windows and periods of the calendar stay as they are: units are spent
//     in the window in which they were charged.
//   - Queues, concurrency limits, bans, and windows that start with a key's first request are
//     not leased.
//
// A lease is 5% of the period (2% of a sliding log's), or of the time in which a full bucket
// drains if that is less; at most one second. For example a token bucket of 6,000 a minute has a
// lease of 1 s, in which the rate brings 100 units, and a tighter burst of 5,900.
//
// Small limits are not leased either: those whose lease would be under 10 ms, whose tighter burst
// is under 20 units, or whose rate brings 6 units or fewer in a lease. With a term of 1 s that
// leaves windows and full buckets of more than 120 a second, 360 a minute or 21,600 an hour.
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
		tight = parsed("%v %d/%v burst %d", limit.Algorithm(), rate.Units, rate.Period,
			burst-arith.MuldivCeil(rate.Units, lease, p))
	case traits.Lists:
		tight = parsed("%v %d/%v", limit.Algorithm(), rate.Units, rate.Period+arith.Wait(lease))
	}
	if arith.Wait(lease) < minLease || tight.Burst() < minLeasedBurst ||
		leaseBlock(limit, lease) < minBlock || tight.Validate() != nil {
		return limit, 0
	}
	return tight, arith.Wait(lease)
}

// parsed returns the limit of a text, which names the algorithm of another limit. It is the zero
// Limit if that would not be legal.
func parsed(format string, arguments ...any) limits.Limit {
	l, _ := limits.Parse(fmt.Sprintf(format, arguments...))
	return l
}

// leaseBlock returns the size of the largest block: half of what the rate of l brings in a lease
// of so many microseconds.
func leaseBlock(l limits.Limit, lease int64) int64 {
	return arith.MuldivCeil(l.Rate().Units, lease, 2*l.Rate().Period.Microseconds())
}
