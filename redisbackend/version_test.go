package redisbackend_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// An older instance reports states of version 2, so nobody may get one who has no charges
// that can be settled.
func TestStatesAreOfVersion2WhereChargesLast(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := newBare(client)
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerDay(10), 10), limits.LeakyBucket(limits.PerDay(10), 10),
		limits.LeakyQueue(limits.PerDay(10), 10),
		limits.FixedWindow(limits.PerDay(10)), limits.SlidingWindow(limits.PerDay(10)),
		limits.AnchoredWindow(limits.PerDay(10)),
		limits.SlidingLog(limits.PerDay(10)),
	} {
		for lasts, version := range map[time.Duration]string{0: "1", time.Minute: "2"} {
			c := charge("s", limit.String()+lasts.String(), limit, 1)
			c.Lasts = lasts
			take(t, b, c)
			state, err := client.GetRange(t.Context(), redisbackend.NameUnder(b, limit, c.Scope, c.Key), 0, 0).Result()
			ok(t, err)
			if state != version {
				t.Errorf("%v, lasting %v: a state of version %q, want %s", limit, lasts, state, version)
			}
		}
	}
}
