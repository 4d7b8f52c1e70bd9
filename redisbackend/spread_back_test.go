package redisbackend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// After a denied request over several slots at least as much is in use as before: also if charges
// last, limits change and the clock steps back.
func TestADeniedRequestOverSeveralSlotsGivesNothingAway(t *testing.T) {
	t.Parallel()
	client := startCluster(t).client(t)
	random := testrun.Random(t)
	denied := 0
	for range testrun.Sized(15, 60) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		b := redisbackend.HoldForEver(bareAt(client, func() time.Time { return now }))
		choices := []limits.Limit{
			limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 7),
			limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 4), limits.LeakyQueue(limits.PerSecond(300), 12),
			limits.FixedWindow(limits.Per(15, 10*time.Millisecond)),
			limits.FixedWindow(limits.Per(5, 10*time.Millisecond)),
			limits.SlidingWindow(limits.Per(14, 25*time.Millisecond)),
			limits.SlidingLog(limits.Per(16, 30*time.Millisecond)),
			limits.AnchoredWindow(limits.Per(15, 10*time.Millisecond)),
			limits.Ban(limits.Per(15, 20*time.Millisecond), 30*time.Millisecond),
			limits.Ban(limits.Per(8, 20*time.Millisecond), 10*time.Millisecond),
		}
		home := random.Perm(len(choices))
		for round := range 40 {
			var charges, looks []backends.Charge
			for _, i := range random.Perm(4)[:2+random.IntN(3)] {
				limit := choices[home[i]]
				if random.IntN(6) == 0 {
					limit = choices[random.IntN(len(choices))]
				}
				c := charge(fmt.Sprint("s", i), "k", limit, random.Int64N(5))
				looks = append(looks, charge(c.Scope, c.Key, limit, 0))
				c.Shadow = random.IntN(5) == 0
				if random.IntN(3) == 0 {
					c.Lasts = time.Duration(1+random.IntN(60)) * time.Millisecond
				}
				charges = append(charges, c)
				if random.IntN(4) == 0 {
					c.Shadow = !c.Shadow
					charges = append(charges, c)
				}
			}
			look := func() []limits.Decision {
				out := make([]limits.Decision, len(looks))
				for i := range looks {
					ok(t, b.Peek(t.Context(), looks[i:i+1], out[i:i+1]))
				}
				return out
			}
			before, got := look(), make([]limits.Decision, len(charges))
			ok(t, b.Take(t.Context(), charges, got))
			redisbackend.WaitForGiveBacks(b)
			isDenied := false
			for i := range got {
				isDenied = isDenied || !charges[i].Shadow && !got[i].Allowed
			}
			if isDenied {
				denied++
				for i, after := range look() {
					if after.Remaining > before[i].Remaining || after.Allowed && !before[i].Allowed {
						t.Fatalf("round %d, %v, %v: before\n%+v\nafter\n%+v", round, charges, looks[i], before[i], after)
					}
				}
			}
			now = now.Add(time.Duration(random.Int64N(4_000)) * time.Microsecond)
			if random.IntN(6) == 0 {
				now = now.Add(-[]time.Duration{time.Microsecond, 3 * time.Millisecond,
					900 * time.Millisecond, 2 * time.Second, time.Hour}[random.IntN(5)])
			}
		}
	}
	if denied < 50 {
		t.Errorf("only %d denials", denied)
	}
}
