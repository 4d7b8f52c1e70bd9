package memory_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// drained is a bucket that remembers all of its takings: what returns units exactly.
type drained struct{ at, cost, found []int64 } // microseconds

// replay finds what each taking found, and returns the level at the instant of the latest.
func (b *drained) replay() int64 {
	level := int64(0)
	b.found = b.found[:0]
	for i, cost := range b.cost {
		if i > 0 {
			level = max(0, level-(b.at[i]-b.at[i-1]))
		}
		b.found = append(b.found, level)
		level += cost
	}
	return level
}

// worth returns how much of the time d, for which units of the i-th taking drain, the level
// is higher for it.
func (b *drained) worth(i int, d int64) int64 {
	d = min(d, b.replay())
	for _, found := range b.found[i+1:] {
		d = min(d, found)
	}
	return d
}

// Requests of random costs end at random. A bucket takes off no more than one that remembers
// every level, which says how much it is now higher for each of them, and not much less.
func TestABucketReturnsWhatItRemembersToBeHigher(t *testing.T) {
	for _, test := range []struct {
		name           string
		unit           time.Duration // in which one drains
		burst, cost    int64
		apart, lasting time.Duration // at most
		pages          int           // how many requests come one after the other
		all            bool          // is returned
		least          int64         // percent
	}{
		{"pages", 100 * time.Millisecond, 100, 1, 5 * time.Millisecond, 200 * time.Millisecond, 10, true, 97},
		{"pages of which some fail", 100 * time.Millisecond, 1000, 10, 5 * time.Millisecond, 200 * time.Millisecond, 20,
			false, 99},
		{"almost at one time", time.Millisecond, 1000, 100, 4 * time.Millisecond, 400 * time.Millisecond, 0, true, 75},
		{"now and then", time.Millisecond, 1000, 100, 100 * time.Millisecond, 400 * time.Millisecond, 0, true, 75},
		{"some of it", time.Millisecond, 1000, 100, 50 * time.Millisecond, 400 * time.Millisecond, 0, false, 95},
		{"small ones", time.Millisecond, 1000, 10, 5 * time.Millisecond, 400 * time.Millisecond, 0, true, 50},
		{"a high level", time.Millisecond, 100_000, 1000, 100 * time.Millisecond, 700 * time.Millisecond, 0, false, 99},
	} {
		t.Run(test.name, func(t *testing.T) {
			unit := test.unit.Microseconds()
			now := time.UnixMicro(1_700_000_000_000_000)
			m := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
			limit := limits.TokenBucket(limits.Per(1, test.unit), test.burst)
			random := rand.New(rand.NewPCG(5, 6))
			var bucket drained
			type running struct {
				backends.Ending
				i  int
				at time.Time
			}
			var requests []running
			level := func() int64 {
				out := make([]limits.Decision, 1)
				if err := m.Peek(t.Context(), []backends.Charge{{Scope: "s", Key: "k", Limit: limit}}, out); err != nil {
					t.Fatal(err)
				}
				return out[0].ResetAfter.Microseconds()
			}
			var got, want int64
			for step := range 5000 {
				now = now.Add(time.Duration(random.Int64N(int64(test.apart))))
				if test.pages > 0 && step%test.pages == 0 {
					now = now.Add(3 * time.Second)
				}
				now = now.Truncate(time.Microsecond)
				for i := 0; i < len(requests); i++ {
					r := requests[i]
					if r.at.After(now) {
						continue
					}
					requests = append(requests[:i], requests[i+1:]...)
					i--
					before := level()
					asking.Settle(t, m, r.Ending)
					after := level()
					if before == 0 || r.i < 0 {
						continue
					}
					exact := min(before, bucket.worth(r.i, (r.Taken-r.Final)*unit))
					if before-after > exact {
						t.Fatalf("%d µs are returned, want at most %d", before-after, exact)
					}
					got, want = got+before-after, want+exact
					bucket.cost[r.i] -= before - after
				}
				if level() == 0 {
					bucket = drained{}
					for i := range requests {
						requests[i].i = -1 // nothing of it is left
					}
				}
				charge := backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1 + random.Int64N(test.cost),
					Lasts: time.Second}
				out := make([]limits.Decision, 1)
				if err := m.Take(t.Context(), []backends.Charge{charge}, out); err != nil {
					t.Fatal(err)
				}
				if !out[0].Allowed {
					continue
				}
				final := int64(0)
				if !test.all {
					final = random.Int64N(charge.Cost + 1)
				}
				bucket.at, bucket.cost = append(bucket.at, now.UnixMicro()), append(bucket.cost, charge.Cost*unit)
				requests = append(requests, running{
					backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: charge.Cost, Final: final, Ticket: out[0].Ticket,
						Lasts: charge.Lasts},
					len(bucket.cost) - 1, now.Add(time.Duration(random.Int64N(int64(test.lasting)))),
				})
				if exact := max(0, bucket.replay()); level() != exact {
					t.Fatalf("the level is %d µs, want %d", level(), exact)
				}
			}
			t.Logf("%d of %d ms returned: %d%%", got/1000, want/1000, 100*got/max(1, want))
			if 100*got < test.least*want || want == 0 {
				t.Errorf("%d of %d µs are returned, want %d%%", got, want, test.least)
			}
		})
	}
}
