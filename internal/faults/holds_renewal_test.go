package faults

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/core"
)

// A renewal is lost, or comes after the release. The next one is in time, and nothing is
// held after the end.
func TestRenewalsThatAreLostOrLateAreMadeUpFor(t *testing.T) {
	for name, late := range map[string]bool{"lost": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			p := startProxy(t, s.addr)
			mine, other := newHolder(newClient(t, p.addr()), steady), newHolder(newClient(t, s.addr), steady)
			if n := mine.start(t, atOnce); n != atOnce {
				t.Fatalf("%d are under way, want %d", n, atOnce)
			}
			ends := s.ends(t)
			letGo := func() {}
			if late {
				letGo = p.holdUp(t)
				eventually(t, "a renewal is held up", func() bool { return p.heldUp.Load() > 0 })
			} else {
				p.fallSilent()
				eventually(t, "a renewal is lost", func() bool { return p.lost.Load() > 0 })
				p.speak()
			}
			eventually(t, "the units are renewed", func() bool {
				now := s.ends(t)
				other.start(t, 1)
				return len(now) >= atOnce && now[0] > ends[atOnce-1]
			})
			if n := underWay(other); n != 0 {
				exceeded(t, "%d above the limit", n)
			}
			mine.end()
			letGo()
			other.end()
			exactAgain(t, other.backend, mine, other)
			t.Logf("FAULT a renewal is %s: renewed again in time, 0 above the limit, nothing held after the end", name)
		})
	}
}

// The end of requests that cost nothing after all is lost, or late. The units come back
// once or not at all.
func TestSettlementsThatAreLostOrLateAreMadeOnceOrNever(t *testing.T) {
	const requests = 4
	for name, of := range map[string]struct {
		fault func(t *testing.T, p *proxy) (heal func())
	}{
		"command lost": {func(_ *testing.T, p *proxy) func() { p.fallSilent(); return p.speak }},
		"reply lost": {func(_ *testing.T, p *proxy) func() {
			p.mute.Store(true)
			return func() { p.mute.Store(false) }
		}},
		"command late": {func(t *testing.T, p *proxy) func() { return p.holdUp(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			p := startProxy(t, s.addr)
			settled := make(chan core.Settlement, 100)
			together := &together{first: make(chan struct{}), rest: make(chan struct{})}
			limiterOn := func(addr string, through func(*breaker.Breaker) core.Backend) *core.Limiter[string] {
				h := newHolder(newClient(t, addr), steady)
				return core.MustNew(core.Config[string]{
					Rules: []core.Rule[string]{{
						Name: "failures", Limit: core.SlidingLog(core.PerDay(units)), Key: self, OnFailure: core.FailClosed,
						FinalCost: func(core.Result) int64 { return 0 },
					}},
					Backend:    through(h.breaker),
					ObserveEnd: func(s core.Settlement) { settled <- s },
				})
			}
			mine := limiterOn(p.addr(), func(b *breaker.Breaker) core.Backend {
				together.Breaker = b
				return together
			})
			other := limiterOn(s.addr, func(b *breaker.Breaker) core.Backend { return b })
			o := other.Decide(t.Context(), "somebody else") // the server knows the script
			o.End(core.Result{Status: 200})
			<-settled
			var under []core.Outcome
			for range requests {
				o := mine.Decide(t.Context(), "ann")
				if !o.Allowed() {
					t.Fatalf("%v: %v", o.Verdict(), o.Err())
				}
				under = append(under, o)
			}
			before := mine.Decide(t.Context(), "before them")
			before.End(core.Result{Status: 200})
			<-together.first
			heal := of.fault(t, p)
			for i := range under {
				under[i].End(core.Result{Status: 200})
			}
			close(together.rest)
			<-settled
			failed, reported := 0, 0
			for range requests {
				if s := <-settled; s.Err != nil {
					failed++
				} else {
					reported += int(s.Returned)
				}
			}
			heal()
			left := func() int {
				o, err := other.ExplainKey(t.Context(), "failures", "ann", core.Limit{})
				if err != nil {
					t.Fatal(err)
				}
				return int(o.Remaining)
			}
			if name != "command lost" {
				eventually(t, "what was sent is carried out", func() bool { return left() == units })
			}
			back := left() - (units - requests)
			if back < reported || back > requests {
				t.Errorf("%d of %d units are back, and %d were reported", back, requests, reported)
			}
			admitted := 0
			for range 2 * units {
				if o := other.Decide(t.Context(), "ann"); o.Allowed() {
					admitted++
				}
			}
			if admitted > units || admitted != units-requests+back {
				t.Errorf("%d admitted, want %d of %d", admitted, units-requests+back, units)
			}
			t.Logf("FAULT of a settlement: %s. %d of %d units came back, %d ends were reported as lost; then %d admitted of %d",
				name, back, requests, failed, admitted, units)
		})
	}
}

// together is a breaker that has all endings after the first settled in one call. The
// first is dropped.
type together struct {
	*breaker.Breaker
	once        sync.Once
	first, rest chan struct{}
}

func (b *together) Settle(ctx context.Context, endings []core.Ending, out []core.Settlement) (err error) {
	dropped := false
	b.once.Do(func() {
		close(b.first)
		<-b.rest
		dropped = true
	})
	if dropped {
		return errDropped
	}
	return b.Breaker.Settle(ctx, endings, out)
}

var errDropped = errors.New("dropped by the test")
