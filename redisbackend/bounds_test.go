package redisbackend_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// The wait of a denial works and is the least that does, also at the bounds of what limits may be,
// with debts and after a change of the maximum.
func TestTheWaitOfADenialIsExactAtTheBoundsOfLimits(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	random := testrun.Random(t)
	const year, most = 366 * 24 * time.Hour, 1_000_000_000
	pairs := [][2]limits.Limit{}
	for _, rate := range []limits.Rate{
		limits.Per(1, time.Millisecond), limits.Per(most, time.Millisecond), limits.Per(1, year),
		limits.Per(most, year), limits.Per(999_999_937, year-time.Microsecond), limits.Per(7, 1001*time.Microsecond),
	} {
		for _, with := range []func(limits.Rate) limits.Limit{limits.FixedWindow, limits.SlidingWindow,
			limits.SlidingLog, limits.AnchoredWindow} {
			if l := with(rate); l.Validate() == nil {
				pairs = append(pairs, [2]limits.Limit{l, l})
			}
		}
		for _, burst := range []int64{1, 2, 97, most} {
			for _, with := range []func(limits.Rate, int64) limits.Limit{limits.TokenBucket,
				limits.LeakyBucket, limits.LeakyQueue} {
				if l := with(rate, burst); l.Validate() == nil {
					other := with(rate, max(1, burst/3))
					pairs = append(pairs, [2]limits.Limit{l, other})
				}
			}
		}
		for _, lasting := range []time.Duration{time.Millisecond, year} {
			pairs = append(pairs, [2]limits.Limit{limits.Ban(rate, lasting), limits.Ban(rate, lasting)})
		}
	}
	denials := 0
	for range testrun.Sized(1, 10) {
		for _, pair := range pairs {
			now := time.Date(2026, 1, 1, 0, 0, 0, 123456000, time.UTC)
			b := bareAt(client, func() time.Time { return now })
			for range 8 {
				limit := pair[random.IntN(2)]
				full := limit.Burst()
				c := charge("s", "k", limit, []int64{1, 2, full, full - 1, full/2 + 1, full / 3}[random.IntN(6)])
				if random.IntN(3) == 0 {
					c.Lasts = time.Minute
				}
				d := take(t, b, c)[0]
				if d.Allowed && c.Lasts > 0 && random.IntN(2) == 0 {
					settle(t, b, backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: c.Cost,
						Final: random.Int64N(3*full + 1), Ticket: d.Ticket, Lasts: c.Lasts})
				}
				if !d.Allowed && d.RetryAfter != limits.Never {
					denials++
					before := now
					out := make([]limits.Decision, 1)
					now = before.Add(d.RetryAfter - time.Microsecond)
					if ok(t, b.Peek(t.Context(), []backends.Charge{c}, out)); out[0].Allowed {
						t.Errorf("%v, cost %d: a microsecond earlier than %v it is allowed", limit, c.Cost, d.RetryAfter)
					}
					now = before.Add(d.RetryAfter)
					if now.Year() > 2200 {
						break
					}
					if ok(t, b.Peek(t.Context(), []backends.Charge{c}, out)); !out[0].Allowed {
						t.Errorf("%v, cost %d: after %v it is denied: %+v", limit, c.Cost, d.RetryAfter, out[0])
					}
					if random.IntN(2) == 0 {
						now = before
					}
				}
				now = now.Add(time.Duration(random.Int64N(int64(1+d.ResetAfter/4) + 1)).Truncate(time.Microsecond))
				if now.Year() > 2150 {
					break
				}
			}
		}
	}
	if denials < 50 {
		t.Errorf("only %d denials", denials)
	}
}
