package faults

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Without Redis each process admits its share, less what it holds already. Redis counts
// what they admitted once it is back, although nobody asks it in the process that did.
func TestWhatAFallbackAllowedIsHeldInRedisAfterwards(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	of := holding{hold: shortHold, onFailure: core.FallBack, budget: time.Second, instances: 2}
	const share = (atOnce + 1) / 2
	mine, other, idle := newHolder(newClient(t, s.addr), of), newHolder(newClient(t, s.addr), of), newHolder(newClient(t, s.addr), of)
	eventually(t, "one is held, as Redis decided", func() bool {
		o := mine.decide(t)
		if !o.Allowed() || o.At(0).Source != limits.SourcePrimary {
			mine.end()
			return false
		}
		return true
	})
	s.kill()
	if n := mine.start(t, 3*atOnce); n != share-1 {
		t.Errorf("a process that holds 1 admits %d more without Redis, want %d", n, share-1)
	}
	for _, h := range []*holder{other, idle} {
		if n := h.start(t, 3*atOnce); n != share {
			t.Errorf("a process admits %d without Redis, want its share, %d", n, share)
		}
	}
	s.restart(t)
	began := time.Now()
	looks := newHolder(newClient(t, s.addr), of)
	eventually(t, "Redis decides again", func() bool {
		return state(mine.breaker) == "closed" && state(other.breaker) == "closed" || asks(t, mine, other)
	}) // idle makes no request
	all, bound := underWay(mine, other, idle), atOnce+3*share // Redis knows nothing when it decides first
	if all > bound {
		exceeded(t, "%d under way, want %d at most", all, bound)
	}
	eventually(t, "Redis knows all that are under way", func() bool { return inRedis(t, looks.backend) == underWay(mine, other, idle) })
	back := time.Since(began)
	if n := looks.start(t, 2) + mine.start(t, 2) + other.start(t, 2); n != 0 {
		exceeded(t, "%d above the limit", n)
	}
	t.Logf("FAULT kill -9 while requests are under way, Instances 2, three processes: %d under way at most, of %d; all held in Redis %s ms after it was back", all, bound, ms(back))
	for _, h := range []*holder{mine, other, idle} {
		h.end()
	}
	exactAgain(t, looks.backend, mine, other, idle)
}

// asks has holders make a request each, and reports false.
func asks(t testing.TB, all ...*holder) bool {
	for _, h := range all {
		h.start(t, 1)
	}
	return false
}
