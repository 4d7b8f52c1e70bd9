package faults

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/redisbackend"
)

// One server of two is silent, and what was held there ends. Its releases are tried again and
// again, by a client that waits for a reply for longer than HoldTime. What is held on the
// other server is renewed in time all the same.
func TestReleasesToASilentServerDelayNoRenewal(t *testing.T) {
	t.Parallel()
	watchStalls()
	well, silent := startServer(t), startServer(t)
	p := startProxy(t, silent.addr)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"well": well.addr, "silent": p.addr()}, HeartbeatFrequency: time.Hour,
		MaxRetries: -1, ReadTimeout: 2 * shortHold,
	})
	t.Cleanup(func() { ring.Close() })
	b := redisbackend.New(ring, redisbackend.Options{HoldTime: shortHold, Logger: slog.New(slog.DiscardHandler)})
	var ends []core.Ending // of what is held on the server that falls silent
	for i := range 32 {
		charges := []core.Charge{{Scope: upload, Key: fmt.Sprint("client ", i), Limit: core.Concurrent(1), Cost: 1, Lasts: time.Minute}}
		out := make([]core.Decision, 1)
		before := len(silent.ends(t))
		if err := b.Take(t.Context(), charges, out); err != nil || !out[0].Allowed {
			t.Fatalf("%+v, %v", out[0], err)
		}
		if len(silent.ends(t)) > before {
			ends = append(ends, core.Ending{Scope: upload, Key: charges[0].Key, Limit: charges[0].Limit, Taken: 1, Ticket: out[0].Ticket})
		}
	}
	held := len(well.ends(t))
	if held == 0 || len(ends) == 0 {
		t.Fatalf("%d are held on one server and %d on the other", held, len(ends))
	}
	p.fallSilent()
	go b.Settle(context.Background(), ends, make([]core.Settlement, len(ends)))
	operator := well.operator(t)
	least := shortHold
	for began := time.Now(); time.Since(began) < 4*shortHold; time.Sleep(5 * time.Millisecond) {
		clock := operator.Time(t.Context())
		must(t, clock)
		all := well.ends(t)
		if len(all) != held {
			exceeded(t, "%d of %d are held", len(all), held)
			break
		}
		left := time.UnixMicro(all[0]).Sub(clock.Val())
		if least = min(least, left); left < 0 {
			exceeded(t, "a unit has ended %v ago, and its request is under way", -left)
			break
		}
	}
	if p.lost.Load() == 0 {
		t.Error("nothing was sent to the silent server")
	}
	t.Logf("FAULT one server of two is silent for %v while %d units are released there: each of the %d on the other was renewed %v before its end at the latest", 4*shortHold, len(ends), held, least.Round(time.Millisecond))
}
