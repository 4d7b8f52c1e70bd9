package remote_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

// Units that lie idle in the block of another process return after a lease. A denial that
// counts them as used is not believed for longer, unless nobody can be asked.
func TestADenialIsBelievedForALeaseAtMost(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.FixedWindow(limits.PerMinute(6000)), limits.SlidingWindow(limits.PerMinute(6000)),
		limits.SlidingLog(limits.PerMinute(6000)),
	} {
		for _, failing := range []bool{false, true} {
			t.Run(limit.Algorithm().String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
					inner := newLeaseBackend()
					_, lease := remote.Leased(limit, time.Second)
					one := remote.MustNewLeaseCache(inner, remote.LeaseOptions{})
					other := remote.MustNewDenialCache(
						onlyBackend{remote.MustNewLeaseCache(inner, remote.LeaseOptions{})}, remote.DenialCacheOptions{},
					)
					ch := busy(t, one, limit)
					held := one.Counts().Held
					rest := backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: inner.left(t, "k", limit)}
					if d := takeOf(t, other, rest); !d.Allowed {
						t.Fatalf("the rest: %+v", d)
					}
					ch.Cost = held
					if d := takeOf(t, other, ch); d.Allowed || d.RetryAfter < 10*time.Second {
						t.Fatalf("while all is held: %+v", d)
					}
					time.Sleep(lease - time.Millisecond)
					if d := takeOf(t, other, ch); d.Source != limits.SourceDenialCache {
						t.Errorf("before the lease is over: %+v", d)
					}
					time.Sleep(time.Millisecond)
					synctest.Wait()
					if failing {
						inner.fail(errors.New("down"))
						if d := takeOf(t, other, ch); d.Source != limits.SourceDenialCache {
							t.Errorf("while the backend fails: %+v", d)
						}
						inner.fail(nil)
					}
					if d := takeOf(t, other, ch); !d.Allowed {
						t.Errorf("after the lease, %d units have returned: %+v", one.Counts().UnitsReturned, d)
					}
				})
			})
		}
	}
}

// onlyBackend is a wrapper that hides all but what it wraps.
type onlyBackend struct{ backends.Backend }

func (b onlyBackend) Unwrap() backends.Backend { return b.Backend }

// A limit that is not leased has nobody who holds it.
func TestADenialByALimitThatIsNotLeasedIsBelievedAsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newLeaseBackend()
		cache := remote.MustNewDenialCache(
			remote.MustNewLeaseCache(inner, remote.LeaseOptions{}), remote.DenialCacheOptions{},
		)
		ch := backends.Charge{Scope: "s", Key: "k", Limit: limits.AnchoredWindow(limits.PerMinute(6000)), Cost: 6000}
		takeOf(t, cache, ch)
		takeOf(t, cache, ch)
		asked := inner.asked()
		time.Sleep(9 * time.Second)
		if d := takeOf(t, cache, ch); d.Source != limits.SourceDenialCache || inner.asked() != asked {
			t.Errorf("after 9 s: %+v", d)
		}
	})
}
