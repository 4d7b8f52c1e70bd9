package remote_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// TestKindsCountApartThroughAStack has requests of a busy rate, which is leased, take turns for a
// day with those of a ban and of a distinct limit under the same scope and key.
func TestKindsCountApartThroughAStack(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.Ban(limits.Per(5, 10*time.Minute), time.Hour),
		limits.Distinct(limits.Per(5, 10*time.Minute)),
	} {
		synctest.Test(t, func(t *testing.T) {
			b := remote.MustNewStack(memory.MustNew(memory.Options{}),
				remote.StackOptions{Logger: silence, Lease: time.Second})
			rate := limits.TokenBucket(limits.PerSecond(10_000), 10_000)
			busy := backends.Charge{Scope: "login", Key: "k", Limit: rate, Cost: 1}
			leased := 0
			for i := range 24 * 60 { // a burst each minute
				for j := range 20 {
					if d := asking.Take(t, b, busy); !d.Allowed {
						t.Fatalf("minute %d, in turn with %v: %+v", i, limit, d)
					} else if d.Source == limits.SourceLease {
						leased++
					}
					c := backends.Charge{Scope: "login", Key: "k", Limit: limit, Cost: 1,
						Value: uint64(i*20 + j)}
					got := asking.Take(t, b, c)
					c.Key = "alone"
					want := asking.Take(t, b, c)
					if got.Ticket, want.Ticket = 0, 0; got != want {
						t.Fatalf("minute %d, %v in turn with a rate: %+v, alone %+v", i, limit, got, want)
					}
					synctest.Wait()
				}
				time.Sleep(time.Minute)
			}
			if leased == 0 {
				t.Error("no decision was made by a lease")
			}
		})
	}
}
