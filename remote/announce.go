package remote

import (
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// leastAnnounced is the shortest wait that is announced. A shorter one is nearly over when others
// hear of it.
const leastAnnounced = time.Second

// bounded returns the denial of a on the clock of this process, and within the bounds of its
// limit, since any process might have announced it. possible is false if the limit never causes
// such a wait, or never allows such a cost. The denial answers only charges of the same limit, so
// these are the bounds of this program.
func bounded(a *backends.Announcement) (d limits.Decision, possible bool) {
	longest := longestWait(a.Limit)
	if a.Decision.RetryAfter > longest ||
		a.Cost > a.Limit.Burst() && !algorithm.Of(a.Limit.Algorithm()).Bans {
		return d, false
	}
	return limits.Decision{
		Remaining:       max(0, min(a.Decision.Remaining, a.Cost-1)), // below the cost
		RetryAfter:      a.Decision.RetryAfter,
		ResetAfter:      max(0, min(a.Decision.ResetAfter, longest)),
		EffectiveWindow: a.Decision.RetryAfter,
		At:              a.Asked.UnixMicro(),
	}, true
}

// longestWait returns the longest RetryAfter and ResetAfter of a denial. A debt is at most as
// large as the burst, a window counts in the next one, and a step back of the clock adds a period.
// Waits are longer only if a limit was lowered far below a debt.
func longestWait(limit limits.Limit) time.Duration {
	rate := limit.Rate()
	// A full bucket drains in full; for a window full is its period.
	full := arith.MuldivCeil(limit.Burst(), rate.Period.Microseconds(), rate.Units)
	return arith.Wait(min(2*full, bounds.BucketFill)) + limit.Longest() +
		max(rate.Period, time.Second)
}
