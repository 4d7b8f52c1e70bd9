package world

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// longHold is a HoldTime after which units end by themselves in none of these tests.
const longHold = time.Hour

var four = core.Rule[Request]{Name: "four", Limit: limits.Concurrent(4), Key: self, OnFailure: core.FailClosed}

// begin starts up to n requests for a key. They last until end is called.
func (p *Process) begin(t *testing.T, key string, n int) (started int, end func()) {
	var ends []func()
	for range n {
		r, begun := Request{Key: key}, time.Now()
		o := p.limiter.Decide(t.Context(), r)
		if u := p.world.laws.decided(p, r, begun, o); o.Allowed() {
			ends = append(ends, func() {
				p.world.laws.ended(p, r, u)
				o.End(core.Result{Status: 200})
			})
		}
	}
	return len(ends), func() {
		for _, end := range ends {
			end()
		}
	}
}

// inWorld lives through a world with two processes that run one program.
func inWorld(t *testing.T, topology Topology, program Program,
	live func(t *testing.T, w *World, mine, other *Process)) {
	seed := testrun.Seed(t)
	defer noticeHang(t, seed)()
	synctest.Test(t, func(t *testing.T) {
		w := New(t, seed, topology)
		w.processes = []*Process{w.Start("mine", program), w.Start("other", program)}
		live(t, w, w.processes[0], w.processes[1])
		w.Close()
	})
}

// A release that is lost, or whose reply is, is repeated; one that comes late takes nothing from
// those who have the units by then.
func TestReleasesThatAreLostOrLateAreMadeOnce(t *testing.T) {
	for name, fault := range map[string]Fault{
		"lost": {Kind: HalfOpen, For: time.Millisecond}, "reply lost": {Kind: Lost, For: time.Millisecond},
		"late":    {Kind: Mute, For: 2 * time.Second},
		"stopped": {Kind: Stopped, For: 3 * time.Second}, "silent": {Kind: CutOff, For: 3 * time.Second},
		"refused": {Kind: Refused, For: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, One, Program{Rules: []core.Rule[Request]{four}, HoldTime: longHold},
				func(t *testing.T, w *World, mine, other *Process) {
					n, end := mine.begin(t, "ann", 5)
					if n != 4 {
						t.Fatalf("%d run, want 4", n)
					}
					w.strike(fault)
					begun := time.Now()
					if end(); time.Since(begun) != 0 {
						t.Errorf("the ends took %v", time.Since(begun))
					}
					for w.age() < 10*time.Second { // others take what is free, and no more
						n, end := other.begin(t, "ann", 1)
						if n == 1 {
							defer end()
						}
						time.Sleep(50 * time.Millisecond)
					}
					if held, running := w.servers[0].held(), w.laws.runs(account{"four", "ann"}); held != 4 || running != 4 {
						t.Errorf("others run %d, and %d are held, want 4", running, held)
					}
				})
		})
	}
}

// Units of a living process are never free: a renewal that is lost, or late, is made up for. Nothing
// is held once all has ended.
func TestRenewalsThatAreLostOrLateAreMadeUpFor(t *testing.T) {
	for name, fault := range map[string]Fault{
		"lost": {Kind: HalfOpen, For: time.Millisecond}, "reply lost": {Kind: Lost, For: time.Millisecond},
		"late": {Kind: Mute, For: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, One, Program{Rules: []core.Rule[Request]{four}}, func(t *testing.T, w *World, mine, other *Process) {
				_, end := mine.begin(t, "ann", 4)
				for i := range 100 { // ten faults, wherever they hit
					if i%10 == 0 {
						w.strike(fault)
					}
					time.Sleep(time.Duration(90+i%17) * time.Millisecond)
					if held := w.servers[0].held(); held != 4 {
						t.Fatalf("after %v %d are held, want 4", w.age(), held)
					}
					if n, _ := other.begin(t, "ann", 1); n > 0 {
						t.Fatalf("after %v others run, of units that are in use", w.age())
					}
				}
				end()
			})
		})
	}
}

// Releases and renewals in vain on a silent server delay no renewals on others.
func TestASilentServerDelaysNoRenewalsOnOthers(t *testing.T) {
	inWorld(t, Cluster, Program{Rules: []core.Rule[Request]{four}}, func(t *testing.T, w *World, mine, _ *Process) {
		silent, ends := w.servers[1], []func(){}
		for i := range 60 {
			key := fmt.Sprint("client ", i)
			_, end := mine.begin(t, key, 1)
			if w.serverOf(account{"four", key}, algorithm.Held) != silent || i%2 == 0 {
				defer end()
				continue
			}
			ends = append(ends, end)
		}
		held := [2]int{w.servers[0].held(), w.servers[2].held()}
		if len(ends) == 0 || len(ends) == silent.held() || held[0]*held[1] == 0 {
			t.Fatalf("%d of %d end on the silent server, and %v are held on the others", len(ends), silent.held(), held)
		}
		w.strike(Fault{Kind: Stopped, Server: 1, For: 4 * HoldTime})
		for _, end := range ends {
			end()
		}
		for range 4 * HoldTime / (10 * time.Millisecond) {
			time.Sleep(10 * time.Millisecond)
			if now := [2]int{w.servers[0].held(), w.servers[2].held()}; now != held {
				t.Fatalf("after %v %v are held, want %v", w.age(), now, held)
			}
		}
	})
}

// A process that reaches no server lets as many requests run at once as the limit says, those
// that run already among them, and as many again once they have ended.
func TestAFallbackHasAsManyUnitsAsTheLimit(t *testing.T) {
	rule := four
	rule.OnFailure = core.FallBack
	inWorld(t, One, Program{Rules: []core.Rule[Request]{rule}}, func(t *testing.T, w *World, mine, _ *Process) {
		_, end := mine.begin(t, "ann", 3)
		w.strike(Fault{Kind: CutOff, For: 3 * time.Second})
		for range 5 {
			n, endMore := mine.begin(t, "ann", 10)
			if n != 1 {
				t.Errorf("after %v %d begin beside 3, want 1", w.age(), n)
			}
			endMore()
		}
		end()
		for range 5 {
			n, end := mine.begin(t, "ann", 10)
			if n != 4 {
				t.Errorf("after %v %d run, want 4", w.age(), n)
			}
			end()
		}
	})
}

// No server is told of what fallbacks have allowed. After an outage it allows what fits beside what
// it knows, and each fallback keeps to its share if there is another outage.
func TestAfterAnOutageAShareMoreRuns(t *testing.T) {
	rule := four
	rule.OnFailure = core.FallBack
	inWorld(t, One, Program{Rules: []core.Rule[Request]{rule}, HoldTime: longHold},
		func(t *testing.T, w *World, mine, other *Process) {
			_, end := mine.begin(t, "ann", 1)
			var ends []func()
			start := func(until time.Duration) (started int) { // as many as both may
				for w.age() < until {
					for _, p := range []*Process{mine, other} {
						n, end := p.begin(t, "ann", 1)
						started, ends = started+n, append(ends, end)
					}
					time.Sleep(50 * time.Millisecond)
				}
				return started
			}
			for i, want := range []int{3 + 4, 3, 0, 0} { // by fallbacks, by the server, and once more
				if i%2 == 0 {
					w.strike(Fault{Kind: Stopped, For: 5 * time.Second})
				}
				if n := start(w.age() + 5*time.Second); n != want {
					t.Errorf("after %v %d more run, want %d", w.age(), n, want)
				}
			}
			end()
			if n := start(w.age() + 5*time.Second); n != 1 {
				t.Errorf("%d more run after one of the server has ended, want 1", n)
			}
			for _, end := range ends {
				end()
			}
			time.Sleep(time.Second)
			if n, end := mine.begin(t, "ann", 10); n != 4 {
				t.Errorf("%d run after all have ended, want 4", n)
			} else {
				end()
			}
		})
}

// What a server takes for a request that waits for it no more is given back.
func TestALateTakingIsGivenBack(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerDay(10), 10), limits.LeakyBucket(limits.PerDay(10), 10),
		limits.LeakyQueue(limits.PerDay(10), 10),
		limits.FixedWindow(limits.PerDay(10)), limits.SlidingWindow(limits.PerDay(10)), limits.SlidingLog(limits.PerDay(10)),
		limits.AnchoredWindow(limits.PerDay(10)), limits.Ban(limits.PerDay(10), time.Hour), limits.Calendar(10, limits.Month),
	} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			rules := []core.Rule[Request]{
				four, {Name: "rate", Limit: limit, Key: self, Cost: func(r Request) int64 { return r.Cost }}}
			inWorld(t, One, Program{Rules: rules}, func(t *testing.T, w *World, mine, _ *Process) {
				ask := func(cost int64) core.Outcome {
					o, _ := mine.Ask(t.Context(), Request{Key: "ann", Cost: cost}, 0)
					return o
				}
				ask(2)
				w.strike(Fault{Kind: Slow, For: 30 * time.Millisecond})
				if late := ask(3); late.Allowed() || late.At(0).Source != limits.SourceClosed {
					t.Fatalf("the answer came in time: %v", late.At(0))
				}
				time.Sleep(3 * time.Second)
				o := ask(0)
				if d := o.At(1); d.Source != limits.SourcePrimary || d.Remaining != 8 {
					t.Errorf("%d remain, by %v, want 8", d.Remaining, d.Source)
				}
			})
		})
	}
}

// Refunds are made once or never, and each that is not known to be made is reported.
func TestRefundsThatAreLostOrLateAreMadeOnceOrNever(t *testing.T) {
	rule := core.Rule[Request]{
		Name: "failures", Limit: limits.SlidingLog(limits.PerDay(10)), Key: self, OnFailure: core.FailClosed,
		FinalCost: func(core.Result) int64 { return 0 },
	}
	for name, of := range map[string]struct {
		Fault
		arrives bool
	}{
		"lost":       {Fault{Kind: HalfOpen, For: time.Millisecond}, false},
		"reply lost": {Fault{Kind: Lost, For: time.Millisecond}, true},
		"late":       {Fault{Kind: Mute, For: 2 * time.Second}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, One, Program{Rules: []core.Rule[Request]{rule}}, func(t *testing.T, w *World, mine, other *Process) {
				_, learns := mine.begin(t, "somebody else", 1) // the server learns the script
				learns()
				time.Sleep(100 * time.Millisecond)
				n, end := mine.begin(t, "ann", 4)
				w.strike(of.Fault)
				end()
				time.Sleep(5 * time.Second)
				reported := 0
				for _, s := range w.laws.settlements()[1:] {
					reported += int(s.Returned)
				}
				admitted := 0
				for range 20 {
					n, _ := other.begin(t, "ann", 1)
					admitted += n
				}
				want := 10 - 4 + reported
				if of.arrives {
					want = 10
				}
				if n != 4 || reported > 3 || admitted != want {
					t.Errorf("%d ended, %d refunds are reported as made; then %d are admitted, want %d", n, reported, admitted, want)
				}
			})
		})
	}
}
