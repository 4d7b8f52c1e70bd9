package faults

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Without Redis each process admits its share, less what it holds already. Redis is not told of
// that: once it is back, the limit runs besides, until the requests end.
func TestWhatAFallbackAllowedRunsBesidesTheLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	of := holding{hold: shortHold, onFailure: core.FallBack, budget: time.Second, instances: 2}
	const share = (atOnce + 1) / 2
	mine := newHolder(newClient(t, s.addr), of)
	other := newHolder(newClient(t, s.addr), of)
	idle := newHolder(newClient(t, s.addr), of)
	decides := func(h *holder) bool { // Redis allows h one more
		o := h.decide(t)
		return o.Allowed() && o.At(0).Source == limits.SourcePrimary
	}
	eventually(t, "one is held, as Redis decided", func() bool {
		if decides(mine) {
			return true
		}
		mine.end()
		return false
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
	looks := newHolder(newClient(t, s.addr), of)
	eventually(t, "Redis decides again", func() bool { return decides(mine) })
	eventually(t, "Redis knows the unit again that it had lost",
		func() bool { looks.start(t, 1); return inRedis(t, looks.backend) >= atOnce })
	all, bound := underWay(mine, other, idle, looks), atOnce+3*share
	if all > bound {
		exceeded(t, "%d under way, want %d at most", all, bound)
	}
	if n := looks.start(t, 2) + mine.start(t, 2) + other.start(t, 2); n != 0 {
		exceeded(t, "%d more while %d are under way", n, all)
	}
	t.Logf("FAULT kill -9 while requests are under way, Instances 2, three processes: %d under way at most, of %d", all,
		bound)
	for _, h := range []*holder{mine, other, idle, looks} {
		h.end()
	}
	exactAgain(t, looks.backend, mine, other, idle)
}
