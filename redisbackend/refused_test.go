package redisbackend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// A server without memory refuses a call of all kinds of requests as a whole: states stay as
// they were, and nobody is told of units that nobody took.
func TestAServerWithoutMemoryLeavesAllStatesAsTheyWere(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	random := testrun.Random(t)
	choices := []limits.Limit{
		limits.TokenBucket(limits.Per(2, 3*time.Second), 7), limits.LeakyQueue(limits.PerMinute(300), 12),
		limits.FixedWindow(limits.Per(15, time.Minute)),
		limits.SlidingWindow(limits.Per(14, 25*time.Second)), limits.SlidingLog(limits.Per(16, 30*time.Second)),
		limits.SlidingLog(limits.Per(9, 20*time.Second)),
		limits.AnchoredWindow(limits.Per(15, 10*time.Second)),
		limits.Ban(limits.Per(15, 20*time.Second), 30*time.Second), limits.Concurrent(5),
	}
	for range testrun.Sized(25, 200) {
		prefix := uniquePrefix()
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		bare := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
		b := redisbackend.HoldForEver(redisbackend.WithClock(bare, func() time.Time { return now }))
		request := func() (a asking) {
			for _, j := range random.Perm(4)[:1+random.IntN(3)] {
				c := charge(fmt.Sprint("s", j), fmt.Sprint(random.IntN(2)),
					choices[(random.IntN(2)+2*j)%len(choices)], random.Int64N(4))
				if random.IntN(4) == 0 {
					c.Lasts = 10 * time.Second
				}
				c.Shadow = random.IntN(6) == 0
				a.charges = append(a.charges, c)
			}
			a.peeks = random.IntN(6) == 0
			return a
		}
		for range 12 {
			a := request()
			ok(t, b.Take(t.Context(), a.charges, make([]limits.Decision, len(a.charges))))
			now = now.Add(time.Duration(random.Int64N(4e6)) * time.Microsecond)
		}
		switch random.IntN(3) {
		case 0:
			now = now.Add(-time.Hour)
		case 1:
			now = now.Add(-3 * time.Second)
		}
		var all []asking
		for range 1 + random.IntN(8) {
			all = append(all, request())
		}
		before := dump(t, admin, prefix)
		got, errs, wait := queueAll(t, t.Context(), b, g, all)
		ok(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
		g.open()
		wait()
		ok(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
		after := dump(t, admin, prefix)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("%v at %v: before (-), after (+):\n%s", all, now, diff)
		}
		for i, a := range all {
			if errs[i] != nil || a.peeks {
				continue
			}
			denied, charges := false, false
			for j, c := range a.charges {
				denied = denied || !c.Shadow && !got[i][j].Allowed
				charges = charges || c.Cost > 0 && !(c.Shadow && !got[i][j].Allowed)
			}
			if !denied && charges {
				t.Errorf("%v is allowed: %+v", a.charges, got[i])
			}
		}
	}
}
