package redisbackend_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// An error of one key, in a reply for several, is about that key alone.
func TestAnErrorOfOneKeyIsOfThatKeyAlone(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	b := redisbackend.WithClock(
		redisbackend.MustNewBare(client, redisbackend.BareOptions{}), func() time.Time { return now },
	)
	limit := limits.FixedWindow(limits.PerDay(10))

	t.Run("settle", func(t *testing.T) {
		a, c := lasting("s", "a", limit, 2), lasting("s", "c", limit, 1)
		da, dc := take(t, b, a)[0], take(t, b, c)[0]
		ok(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
		defer admin.ConfigSet(t.Context(), "maxmemory", "0")
		out := make([]limits.Settlement, 2)
		_ = b.Settle(t.Context(), []backends.Ending{
			{Scope: "s", Key: "a", Limit: limit, Taken: 2, Final: 1, Ticket: da.Ticket, Lasts: a.Lasts},
			{Scope: "s", Key: "c", Limit: limit, Taken: 1, Ticket: dc.Ticket, Lasts: c.Lasts},
		}, out)
		left := admin.Exists(t.Context(), redisbackend.NameUnder(b, limit, "s", "c")).Val()
		if left == 0 && out[1].Err != nil {
			t.Errorf("the unit of c was returned, its ending says %+v (that of a: %v)", out[1], out[0].Err)
		}
		if stale := client.PoolStats().StaleConns; stale > 0 {
			t.Errorf("the connection was closed: %+v", client.PoolStats())
		}
	})
	t.Run("take", func(t *testing.T) {
		log := limits.SlidingLog(limits.PerMinute(10))
		full := charge("f", "full", limit, 10)
		take(t, b, charge("l", "k", log, 1))
		take(t, b, full)
		now = now.Add(-2 * time.Hour) // both are rebased
		take(t, b, full)
		ok(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
		defer admin.ConfigSet(t.Context(), "maxmemory", "0")
		decisions, errs, wait := queue(t, t.Context(), b, g, [][]backends.Charge{{charge("l", "k", log, 20)}, {full}})
		g.open()
		wait()
		if errs[1] != nil {
			t.Errorf(
				"a denial that writes nothing fails because of another key: %v (that: %v, %v)", errs[1], errs[0], decisions[0],
			)
		}
	})
	_ = strings.Contains
}
