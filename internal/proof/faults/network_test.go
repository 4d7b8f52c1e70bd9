package faults

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestConnectionsResetInTheMiddleAreSurvived(t *testing.T) {
	t.Parallel()
	p := startProxy(t, startServer(t).addr)
	prove(t, startFleet(t, p.addr(), redis.Options{}), fault{
		name:   "connections reset mid-command and mid-reply",
		strike: func(*load) { p.cutEvery.Store(2) },
		struck: func(*load) bool { return p.cuts.Load() >= 100 },
		heal:   func(*load) { p.cutEvery.Store(0) },
	})
	t.Logf("%d connections were reset", p.cuts.Load())
}

func TestLatencyAboveTheBudgetIsSurvived(t *testing.T) {
	t.Parallel()
	p := startProxy(t, startServer(t).addr)
	prove(t, startFleet(t, p.addr(), redis.Options{}), fault{
		name:   "200 ms of latency",
		strike: func(*load) { p.delay.Store(int64(200 * time.Millisecond)) },
		heal:   func(*load) { p.delay.Store(0) },
	})
}

func TestHalfOpenConnectionsAreSurvived(t *testing.T) {
	t.Parallel()
	p := startProxy(t, startServer(t).addr)
	prove(t, startFleet(t, p.addr(), redis.Options{}), fault{
		name:   "half-open connections",
		strike: func(*load) { p.fallSilent() },
		heal:   func(*load) { p.speak() },
	})
}
