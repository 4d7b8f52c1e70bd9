package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
)

// scenario is a world that a seed makes up.
type scenario struct {
	seed      uint64
	topology  Topology
	processes int
	lasts     time.Duration
	rules     []core.Rule[Request]
	keys      int
	faults    Schedule
}

// scenarioOf makes up a scenario.
func scenarioOf(seed uint64) scenario {
	random := rand.New(rand.NewPCG(seed, 0))
	s := scenario{
		seed: seed, topology: Topology(random.IntN(3)), processes: 1 + random.IntN(3),
		lasts: time.Duration(3+random.IntN(8)) * time.Second, keys: 1 + random.IntN(6),
	}
	key := func(r Request) (string, error) { return r.Key, nil }
	rates := []core.Limit{
		core.TokenBucket(core.PerSecond(20), 10), core.LeakyBucket(core.PerSecond(50), 20), core.FixedWindow(core.PerSecond(15)),
		core.SlidingWindow(core.PerSecond(25)), core.SlidingLog(core.PerSecond(10)), core.AnchoredWindow(core.PerSecond(12)),
		core.TokenBucket(core.PerMinute(60), 30),
	}
	for i := range 1 + random.IntN(2) {
		s.rules = append(s.rules, core.Rule[Request]{
			Name: fmt.Sprint("rate ", i), Limit: rates[random.IntN(len(rates))], Key: key, Cost: func(r Request) int64 { return r.Cost },
		})
	}
	if random.IntN(2) == 0 {
		s.rules = append(s.rules, core.Rule[Request]{Name: "at once", Limit: core.Concurrent(1 + random.Int64N(4)), Key: key})
	}
	if random.IntN(2) == 0 {
		s.rules = append(s.rules, Spending())
	}
	if random.IntN(3) > 0 {
		servers := 3
		if s.topology == One {
			servers = 1
		}
		s.faults = drawSchedule(random, s.lasts, servers, s.processes)
	}
	return s
}

func (s scenario) String() string {
	text := fmt.Sprintf("seed %d: %v, %d processes, %d keys, %v", s.seed, s.topology, s.processes, s.keys, s.lasts)
	for _, r := range s.rules {
		text += fmt.Sprintf(", %v", r.Limit)
	}
	return text + "\n" + s.faults.String()
}

// run lives through a scenario, and returns the laws that were broken.
func (s scenario) run(t *testing.T) (broken []string, decisions int) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t, s.seed, s.topology)
		for i := range s.processes {
			w.Start(fmt.Sprint("process ", i), s.rules...)
		}
		over, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range s.processes {
			for c := range 4 {
				random := w.source()
				all.Go(func() { s.client(over, w.processes[i], c, random) })
			}
		}
		w.play(s.faults)
		time.Sleep(Recovery)
		time.Sleep(s.lasts - w.age())
		stop()
		all.Wait()
		w.end()
		broken = w.Broken()
		for _, n := range w.laws.asked {
			decisions += n
		}
	})
	return broken, decisions
}

// client asks until it is over: by its number, one request after the other, at random, in
// bursts, or for long requests.
func (s scenario) client(over context.Context, p *Process, kind int, random *rand.Rand) {
	var under sync.WaitGroup
	defer under.Wait()
	for over.Err() == nil && !p.dead() {
		r := Request{Key: fmt.Sprint("key ", random.IntN(s.keys)), Cost: 1 + random.Int64N(3)*random.Int64N(2), Final: random.Int64N(2 * Estimate)}
		pause := time.Duration(random.ExpFloat64() * float64(50*time.Millisecond))
		switch kind {
		case 0: // the plainest client there is
			r.Key, r.Alone = "alone "+p.name, true
			o := p.Ask(context.Background(), r, time.Duration(random.IntN(3))*time.Millisecond)
			if wait := o.RetryAfter(); deniedByServer(o) && wait < 2*time.Second && sleep(over, wait) == nil {
				r.Waited = true
				p.Ask(context.Background(), r, 0)
			}
			pause /= 4
		case 1:
			under.Go(func() { p.Ask(context.Background(), r, 5*time.Millisecond) })
		case 2:
			for range random.IntN(8) {
				under.Go(func() { p.Ask(context.Background(), r, time.Millisecond) })
			}
			pause *= 6
		case 3:
			p.Ask(context.Background(), r, pause*10)
		}
		sleep(over, pause)
	}
}

// deniedByServer reports whether a server has just denied. A denial that is remembered may have
// too short a wait: what another cost has taken since is not in it.
func deniedByServer(o core.Outcome) bool {
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.Source != core.SourcePrimary {
			return false
		}
	}
	return !o.Allowed()
}
