package redisbackend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// A request over several slots that is denied takes nothing, whatever it charges: shadows too,
// keys charged twice, charges that last, limits that change. The request alone decides like one
// over a single slot.
func TestADeniedRequestOverSeveralSlotsTakesNothing(t *testing.T) {
	t.Parallel()
	client := startCluster(t).client(t)
	random := testrun.Random(t)
	denied := 0
	for i := 0; i < testrun.Sized(12, 60) || denied < 20 && i < 1_000; i++ {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		b := redisbackend.HoldForEver(bareAt(client, clock))
		tagged := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: uniquePrefix(), HashTag: "one"})
		tagged = redisbackend.HoldForEver(redisbackend.WithClock(tagged, clock))
		choices := []limits.Limit{
			limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 7), limits.LeakyQueue(limits.PerSecond(300), 12),
			limits.FixedWindow(limits.Per(15, 10*time.Millisecond)), limits.SlidingWindow(limits.Per(14,
				25*time.Millisecond)),
			limits.SlidingLog(limits.Per(16, 30*time.Millisecond)), limits.AnchoredWindow(limits.Per(15,
				10*time.Millisecond)),
			limits.Ban(limits.Per(15, 20*time.Millisecond), 30*time.Millisecond), limits.Concurrent(50),
		}
		random.Shuffle(len(choices), func(i, j int) { choices[i], choices[j] = choices[j], choices[i] })
		var looks []backends.Charge
		for i := range choices {
			looks = append(looks, charge(fmt.Sprint("s", i), "k", choices[i], 0))
		}
		look := func(b *redisbackend.Bare) []limits.Decision {
			out := make([]limits.Decision, len(looks))
			for i := range looks {
				ok(t, b.Peek(t.Context(), looks[i:i+1], out[i:i+1]))
				out[i].Transient = false
			}
			return out
		}
		for round := range 25 {
			var charges []backends.Charge
			for _, i := range random.Perm(len(choices))[:2+random.IntN(3)] {
				c := charge(fmt.Sprint("s", i), "k", choices[i], random.Int64N(5))
				c.Shadow = random.IntN(5) == 0
				charges = append(charges, c)
				if random.IntN(4) == 0 && !c.Limit.Algorithm().Holds() {
					c.Shadow = !c.Shadow
					charges = append(charges, c)
				}
			}
			before := look(b)
			got, want := make([]limits.Decision, len(charges)), make([]limits.Decision, len(charges))
			ok(t, b.Take(t.Context(), charges, got))
			ok(t, tagged.Take(t.Context(), charges, want))
			redisbackend.WaitForGiveBacks(b)
			redisbackend.WaitForReleases(b)
			isDenied := false
			for i := range got {
				isDenied = isDenied || !charges[i].Shadow && !got[i].Allowed
				got[i].Ticket, want[i].Ticket, got[i].Transient = 0, 0, false
			}
			skipNotAsked(t, charges, got, want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("round %d, %v: in one slot (-), in several (+):\n%s", round, charges, diff)
			}
			if isDenied {
				denied++
				if diff := cmp.Diff(before, look(b)); diff != "" {
					t.Fatalf("round %d, %v: before (-), after (+) the denial:\n%s", round, charges, diff)
				}
			}
			if diff := cmp.Diff(look(tagged), look(b)); diff != "" {
				t.Fatalf("round %d, %v: states in one slot (-), in several (+):\n%s", round, charges, diff)
			}
			now = now.Add(time.Duration(random.Int64N(5_000)) * time.Microsecond)
		}
	}
	if denied < 20 {
		t.Errorf("only %d denials", denied)
	}
}
