package interleave_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/proof/interleave"
	"github.com/weir-go/weir/internal/proof/interleave/shim/sync"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/remote"
)

// leased is leased for a second, in blocks of 10 at most.
var leased = limits.FixedWindow(limits.Per(400, 20*time.Second))

// server is a backend far away.
type server struct {
	*limitstest.Exact
	mu      sync.Mutex
	now     time.Time
	charged map[int64]int64 // instants by tickets: a block is requested when it is charged
}

// openLeases opens a cache in front of a server.
func openLeases(func() time.Time) backends.Backend {
	s := &server{charged: make(map[int64]int64)}
	s.Exact = limitstest.NewExact(func() time.Time { return s.now })
	return remote.MustNewLeaseCache(s, remote.LeaseOptions{MaxKeys: 4})
}

// call begins a call. What it returns ends it.
func (s *server) call() (end func()) {
	s.mu.Lock()
	s.now = interleave.Now()
	return s.mu.Unlock
}

func (s *server) InProcess() backends.Backend { return s }

func (s *server) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	defer s.call()()
	err := s.Exact.Take(ctx, charges, out)
	for i := range out {
		s.charged[out[i].Ticket] = s.now.UnixMicro()
	}
	return err
}

func (s *server) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	defer s.call()()
	return s.Exact.Settle(ctx, endings, out)
}

func (s *server) Reset(ctx context.Context, scope, key string) error {
	defer s.call()()
	return s.Exact.Reset(ctx, scope, key)
}

// busy are calls after which a block of 7 units is held, and 21 remain.
func busy() []call {
	calls := []call{take(charge("k", leased, 365))}
	for range 7 {
		calls = append(calls, take(charge("k", leased, 1)))
	}
	return calls
}

// accounts checks that each unit that the server has charged was admitted, or is void, or held, and
// no unit twice, and none a second after its block was requested. After a reset, no unit is held
// that the server has forgotten.
func accounts(store backends.Backend, calls []call, h *history) error {
	spent, admitted, settles, resets := int64(0), int64(372), false, false
	for i, c := range calls {
		t := &h.told[i]
		settles, resets = settles || c.settles > 0, resets || c.reset != ""
		allowed := len(c.charges) > 0 && c.settles == 0
		for j := range c.charges {
			allowed = allowed && t.decisions[j].Allowed
		}
		if allowed {
			admitted += c.charges[0].Cost
			if d := &t.decisions[0]; d.Source == limits.SourceLease {
				spent += c.charges[0].Cost
				asked := store.(*remote.LeaseCache).Unwrap().(*server).charged[d.Ticket]
				if after := time.Duration(d.At-asked) * time.Microsecond; after >= time.Second {
					return fmt.Errorf("a unit is spent %v after its block was requested", after)
				}
			}
		}
		admitted -= t.settlement.Returned
	}
	n := store.(*remote.LeaseCache).Counts()
	if sum := spent + n.UnitsReturned + n.UnitsVoid + n.Held; !settles && sum != n.UnitsTaken {
		return fmt.Errorf("%d units spent, but %+v", spent, n)
	}
	var now [1]limits.Decision
	look := []backends.Charge{charge("k", leased, 0)}
	if err := backends.Peek(context.Background(), store, look, now[:]); err != nil {
		return err
	}
	used := leased.Burst() - now[0].Remaining
	if used < n.Held {
		return fmt.Errorf("%d units held, but the server has forgotten all but %d", n.Held, used)
	}
	if !resets && used != admitted+n.UnitsVoid+n.Held {
		return fmt.Errorf("%d units admitted and %d in use, but %+v", admitted, used, n)
	}
	return nil
}

// leaseScenes are about one key of a LeaseCache. A block ends a second after it was requested.
func leaseScenes() (all []scene) {
	one := func(n int64) call { return take(charge("k", leased, n)) }
	ended := func(n int64) call {
		c := one(n)
		c.charges[0].Lasts = time.Second
		return c
	}
	denied := take(charge("k", leased, 2), charge("other", window, 5))
	later := call{after: time.Second}
	for _, s := range []scene{
		{name: "spend, spend", tasks: [][]call{{one(2)}, {one(4)}}},
		{name: "spend, end of block", tasks: [][]call{{one(2)}, {later}}},
		{name: "give back, end of block", tasks: [][]call{{ended(2), ended(2).ends(1, 0)}, {later}}},
		{name: "spend, reset", tasks: [][]call{{one(4), one(2)}, {{reset: "k"}}}},
		{name: "request, reset", tasks: [][]call{{one(2), one(2), one(2)}, {{reset: "k"}}}},
		{name: "reset, end of block", tasks: [][]call{{{reset: "k"}}, {later}}},
		{name: "two rules, end of block", tasks: [][]call{{denied}, {later}}},
		{name: "spend, spend next", full: true, tasks: [][]call{{one(2), one(3)}, {one(2), one(20)}}},
		{name: "spend, end of block, spend", tasks: [][]call{
			{one(2)}, {one(1).later(time.Second)},
		}},
		{name: "spend twice, end of block", full: true, tasks: [][]call{{one(2), one(3)}, {later}}},
		{name: "reset, spend next", full: true, tasks: [][]call{
			{one(4), one(2)}, {{reset: "k"}, one(1)},
		}},
	} {
		s.name, s.open, s.setup, s.law = "lease: "+s.name, openLeases, busy(), accounts
		all = append(all, s)
	}
	return all
}
