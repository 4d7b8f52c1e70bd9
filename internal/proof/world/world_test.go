package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

func init() {
	redis.SetLogger(silence{}) // it says that servers are gone, which they are on purpose
	debug.SetGCPercent(400)    // a script has a Lua of its own each time
	runtime.GOMAXPROCS(1)      // so that a seed decides on nearly all: see TestSeeds
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func self(r Request) (string, error) { return r.Key, nil }

// oneAfterTheOther has a client send 2,000 requests, each after the last has ended, and fails the
// test if one is denied.
func oneAfterTheOther(t *testing.T, rule core.Rule[Request]) {
	t.Helper()
	seed := testrun.Seed(t)
	defer noticeHang(t, seed)()
	synctest.Test(t, func(t *testing.T) {
		w := New(t, seed, One)
		defer w.Close()
		p := w.Start("p", Program{Rules: []core.Rule[Request]{rule}})
		denied := 0
		for range 2000 {
			if o, _ := p.Ask(t.Context(), Request{Key: "ann"}, time.Millisecond); !o.Allowed() {
				denied++
			}
		}
		if denied > 0 {
			t.Errorf("%d of 2000 requests are denied, each after the last had ended", denied)
		}
	})
}

// A client was denied by its own last request, whose end had been answered while the denial was
// on its way: 202 of 2,000.
func TestAClientIsNotDeniedByWhatItHasEnded(t *testing.T) {
	oneAfterTheOther(t, core.Rule[Request]{Name: "one", Limit: limits.Concurrent(1), Key: self})
}

// The same where each request returns all that it has taken.
func TestAClientIsNotDeniedByWhatItHasReturned(t *testing.T) {
	oneAfterTheOther(t, core.Rule[Request]{
		Name: "failures", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: self,
		FinalCost: func(core.Result) int64 { return 0 },
	})
}

// It takes longer than the budget to connect to a server that is far away. Connections whose
// callers have left are kept, so that the server decides all the same.
func TestAServerThatIsFarAwayDecides(t *testing.T) {
	seed := testrun.Seed(t)
	defer noticeHang(t, seed)()
	synctest.Test(t, func(t *testing.T) {
		w := New(t, seed, One)
		defer w.Close()
		p := w.Start("p", Program{
			Rules: []core.Rule[Request]{{Name: "all", Limit: limits.TokenBucket(limits.PerMinute(600), 1000), Key: self}}})
		path := w.path(p, w.servers[0])
		for _, r := range []*route{path.there, path.back} {
			r.set(func(r *route) { r.latency = Latency{Least: 11 * time.Millisecond, Spread: time.Millisecond} })
		}
		w.laws.fault(period{from: w.begun, to: w.begun, process: p})
		for w.age() < 2*Recovery { // the laws say who has to decide in the second half
			p.Ask(t.Context(), Request{Key: "ann"}, time.Millisecond)
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// One call carries ends to all servers, and the next waits until the last has answered. So clients
// of healthy masters are denied by what they have ended while another master is silent.
func TestASilentServerIsNoticedByNobodyElse(t *testing.T) {
	one := core.Rule[Request]{Name: "one", Limit: limits.Concurrent(1), Key: self}
	inWorld(t, Cluster, Program{Rules: []core.Rule[Request]{one}}, func(t *testing.T, w *World, mine, _ *Process) {
		var ends []func()
		for i := range 12 { // all servers are known to be well
			mine.Ask(t.Context(), Request{Key: fmt.Sprint(i), Alone: true}, time.Millisecond)
			_, end := mine.begin(t, fmt.Sprint("long ", i), 1)
			ends = append(ends, end)
		}
		w.strike(Fault{Kind: Stopped, Server: 1, For: 5 * time.Second})
		for _, end := range ends { // some of which the silent server has to be told
			end()
		}
		var all sync.WaitGroup
		for i := range 12 { // the laws say which of them may notice
			all.Go(func() {
				for w.age() < 5*time.Second {
					mine.Ask(t.Context(), Request{Key: fmt.Sprint(i), Alone: true}, time.Millisecond)
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		all.Wait()
		time.Sleep(Recovery)
	})
}

// The units of a process that was killed are free HoldTime after somebody has asked for them, though
// the server's clock has stepped back by more. Those of a living one are never free.
func TestAStepBackKeepsNoUnitsOfTheDead(t *testing.T) {
	two := core.Rule[Request]{Name: "two", Limit: limits.Concurrent(2), Key: self}
	inWorld(t, One, Program{Rules: []core.Rule[Request]{two}}, func(t *testing.T, w *World, mine, other *Process) {
		_, end := other.begin(t, "ann", 1)
		go mine.Ask(t.Context(), Request{Key: "ann"}, time.Second)
		time.Sleep(100 * time.Millisecond)
		w.strike(Fault{Kind: ProcessKilled, For: time.Millisecond})
		w.servers[0].Step(-time.Minute)
		stepped := w.age()
		var endSecond func()
		for n := 0; n == 0; time.Sleep(100 * time.Millisecond) {
			if n, endSecond = other.begin(t, "ann", 1); w.age() > stepped+HoldTime*5/4+time.Second {
				t.Fatal("a unit of a dead process is held")
			}
		}
		for w.age() < stepped+2*time.Minute {
			if n, _ := other.begin(t, "ann", 1); n > 0 {
				t.Fatalf("after %v others run, of units that are in use", w.age())
			}
			time.Sleep(100 * time.Millisecond)
		}
		endSecond()
		end()
	})
}

// A policy file that changes while a server is away is in force everywhere, after three looks at it.
func TestAPolicyChangesWhileAServerIsAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(units int) {
		text := fmt.Sprintf("version: 1\nrules:\n  - {name: all, key: everybody, limit: %d/second}\n", units)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(1000)
	inWorld(t, Cluster, Program{Policy: path}, func(t *testing.T, w *World, mine, other *Process) {
		w.strike(Fault{Kind: Stopped, Server: 2, For: 10 * time.Second})
		write(2000)
		changed := w.age()
		for w.age() < 8*time.Second {
			for _, p := range []*Process{mine, other} {
				o, _ := p.Ask(t.Context(), Request{Key: "ann"}, 0)
				if got := o.At(0).Limit().Burst(); w.age() > changed+3*2*time.Second && got != 2000 {
					t.Fatalf("after %v the limit is %d, want 2000", w.age(), got)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// Time in which nothing happens is free: ten minutes of three processes, three servers and 10,000
// decisions cost what their scripts cost. It says how much.
func TestTenMinutes(t *testing.T) {
	seed := testrun.Seed(t)
	begun := time.Now()
	defer noticeHang(t, seed)()
	synctest.Test(t, func(t *testing.T) {
		w := New(t, seed, Cluster)
		defer w.Close()
		rules := []core.Rule[Request]{{Name: "rate", Limit: limits.TokenBucket(limits.PerSecond(10), 20), Key: self}}
		var all sync.WaitGroup
		for i := range 3 {
			p, random := w.Start(fmt.Sprint("p", i), Program{Rules: rules}), w.source()
			all.Go(func() {
				for range 10_000 / 3 {
					p.Ask(t.Context(), Request{Key: fmt.Sprint(random.IntN(100))}, time.Millisecond)
					time.Sleep(time.Duration(random.Int64N(int64(360 * time.Millisecond))))
				}
			})
		}
		all.Wait()
		if w.age() < 9*time.Minute {
			t.Errorf("it took %v", w.age())
		}
	})
	t.Logf("ten minutes took %v", time.Since(begun).Round(time.Millisecond))
}
