package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// scenario is a world drawn from a seed.
type scenario struct {
	seed     uint64
	topology Topology
	programs []Program
	lasts    time.Duration
	keys     int
	known    bool // every request costs its estimate, so every unit can be checked
	faults   Schedule
}

// Lease is how long a lease lasts, if processes have leases.
const Lease = time.Second

// valueOf returns the value of a request under a distinct limit: one of three.
func valueOf(r Request) uint64 { return uint64(r.Cost) }

// scenarioOf draws the scenario of a seed.
func scenarioOf(seed uint64) scenario {
	random := rand.New(rand.NewPCG(seed, 0))
	s := scenario{
		seed: seed, topology: []Topology{One, One, Ring, Cluster}[random.IntN(4)],
		lasts: time.Duration(2+random.IntN(5)) * time.Second, keys: 1 + random.IntN(6),
		known: random.IntN(2) == 0,
	}
	key := func(r Request) (string, error) { return r.Key, nil }
	limitOf := func(kind int, more int64) limits.Limit {
		return []limits.Limit{
			limits.TokenBucket(limits.PerSecond(20+more), 10+more),
			limits.LeakyBucket(limits.PerSecond(50+more), 20+more),
			limits.FixedWindow(limits.PerSecond(15 + more)),
			limits.SlidingWindow(limits.PerSecond(25 + more)),
			limits.SlidingLog(limits.PerSecond(10 + more)),
			limits.AnchoredWindow(limits.PerSecond(12 + more)),
			limits.TokenBucket(limits.PerMinute(60+more), 30+more),
			limits.TokenBucket(limits.PerSecond(300+more), 100+more),
		}[kind]
	}
	const kinds = 8
	var rules []core.Rule[Request]
	kind := random.IntN(kinds)
	for i := range 1 + random.Int64N(3) {
		if random.IntN(2) == 0 { // sometimes nearly equal: both are used up at once
			kind = random.IntN(kinds)
		}
		rules = append(rules, core.Rule[Request]{
			Name: fmt.Sprint("rate ", i), Limit: limitOf(kind, i), Key: key,
			Cost: func(r Request) int64 { return r.Cost },
		})
	}
	if random.IntN(2) == 0 {
		rules = append(rules,
			core.Rule[Request]{Name: "at once",
				Limit: limits.Concurrent(1 + random.Int64N(2)*random.Int64N(4)), Key: key})
	}
	if random.IntN(3) > 0 {
		rules = append(rules, Spending())
	}
	// its own source of chance leaves the rest of a scenario as it is
	if chance := rand.New(rand.NewPCG(seed, 1)); chance.IntN(3) == 0 {
		rules = append(rules, core.Rule[Request]{
			Name: "values", Limit: limits.Distinct(limits.PerSecond(1 + chance.Int64N(2))), Key: key,
			Value: func(r Request) (string, error) { return fmt.Sprint(valueOf(r)), nil },
		})
	}
	all := Program{Rules: rules, Announces: s.topology == One && random.IntN(4) == 0}
	if random.IntN(2) == 0 {
		all.Lease = Lease
	}
	all.Heartbeat = rand.New(rand.NewPCG(seed, 2)).IntN(3) == 0
	for range 1 + random.IntN(3) {
		one := all
		if random.IntN(2) == 0 {
			one.Adapter = adapters[random.IntN(len(adapters))]
			one.Sheds = random.IntN(2) * 10
		}
		s.programs = append(s.programs, one)
	}
	if random.IntN(4) > 0 {
		servers := 3
		if s.topology == One {
			servers = 1
		}
		s.faults = drawSchedule(random, s.lasts, servers, len(s.programs))
	}
	if chance := rand.New(rand.NewPCG(seed, 3)); chance.IntN(2) == 0 {
		ban := limits.Ban(limits.PerSecond(1+chance.Int64N(10)), 200*time.Millisecond)
		for i := range s.programs {
			p := &s.programs[i]
			p.Rules = append(slices.Clip(p.Rules), core.Rule[Request]{
				Name: "ban", Limit: ban.Growing(2 * time.Second), Key: key,
			})
		}
	}
	return s
}

func (s scenario) String() string {
	text := fmt.Sprintf("seed %d: %v, %d keys, %v", s.seed, s.topology, s.keys, s.lasts)
	for _, r := range s.programs[0].Rules {
		text += fmt.Sprintf(", %v", r.Limit)
	}
	if s.known {
		text += ", costs are known"
	}
	for _, p := range s.programs {
		text += fmt.Sprintf("\n\tprocess: adapter %q, lease %v, announces %v, heartbeat %v, sheds above %d",
			p.Adapter, p.Lease, p.Announces, p.Heartbeat, p.Sheds)
	}
	if len(s.faults) == 0 {
		return text + "\n\tno faults"
	}
	return text + "\n" + s.faults.String()
}

// run plays a scenario, and returns the broken laws.
func (s scenario) run(t *testing.T) (broken []string, decisions int) {
	defer noticeHang(t, s.seed)()
	synctest.Test(t, func(t *testing.T) {
		w := New(t, s.seed, s.topology)
		for i, program := range s.programs {
			w.processes = append(w.processes, w.Start(fmt.Sprint("process ", i), program))
		}
		over, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range s.programs {
			for kind := range clients {
				random := w.source()
				if kind != oneByOne && random.IntN(2) == 0 {
					continue
				}
				all.Go(func() {
					for over.Err() == nil {
						s.client(over, w, i, kind, random)
					}
				})
			}
		}
		if w.play(s.faults); len(s.faults) > 0 {
			w.calm.Store(true)
			time.Sleep(Recovery)
			w.calm.Store(false)
			time.Sleep(2 * time.Second)
		}
		time.Sleep(s.lasts - w.age())
		stop()
		all.Wait()
		w.end()
		broken = w.Broken()
		for _, c := range w.laws.counts {
			for _, n := range c.verdicts {
				decisions += int(n)
			}
		}
	})
	return broken, decisions
}

// client kinds.
const (
	oneByOne = iota // one request after the other, for a key of its own
	poisson         // at random
	bursts          // up to seven at once
	long            // requests take long
	obedient        // keeps to RetryAfter, and asks at once otherwise
	flood           // now and then forty at once, for one key or for forty
	leaving         // leaves before the answer, at times
	clients
)

// client asks until the process ends.
func (s scenario) client(over context.Context, w *World, number, kind int, random *rand.Rand) {
	p := w.process(number)
	var under sync.WaitGroup
	defer under.Wait()
	for over.Err() == nil && w.process(number) == p {
		r := Request{
			Key: fmt.Sprint("key ", random.IntN(s.keys)), Cost: 1 + random.Int64N(3)*random.Int64N(2),
			Final:  random.Int64N(2 * Estimate),
			Direct: random.IntN(3) == 0,
		}
		if s.known {
			r.Final = Estimate
		}
		pause := time.Duration(random.ExpFloat64() * float64(50*time.Millisecond))
		switch kind {
		case oneByOne:
			r.Key, r.Alone = "alone "+p.name, true
			o, ok := p.Ask(context.Background(), r, time.Duration(random.IntN(3))*time.Millisecond)
			if wait := o.RetryAfter(); ok && deniedByServer(o) && wait < 2*time.Second &&
				random.IntN(2) == 0 && sleep(over, wait) == nil {
				r.Waited = true
				p.Ask(context.Background(), r, 0)
			}
			pause *= time.Duration(random.IntN(2)) // often none
		case poisson:
			under.Go(func() { p.Ask(context.Background(), r, 5*time.Millisecond) })
		case bursts:
			for range random.IntN(8) {
				under.Go(func() { p.Ask(context.Background(), r, time.Millisecond) })
			}
			pause *= 6
		case long:
			p.Ask(context.Background(), r, pause*10)
		case obedient:
			if o, ok := p.Ask(context.Background(), r, time.Millisecond); ok && !o.Allowed() {
				pause = min(max(o.RetryAfter(), time.Millisecond), time.Second)
			}
		case flood:
			pause = pause*40 + time.Second
			if sleep(over, pause) != nil {
				return
			}
			many := random.IntN(2) == 0
			for i := range 40 {
				r := r
				if many {
					r.Key = fmt.Sprint("flood ", i)
				}
				under.Go(func() { p.Ask(context.Background(), r, time.Millisecond) })
				if i%10 == 0 {
					time.Sleep(20 * time.Millisecond)
				}
			}
		case leaving:
			patience, cancel := context.WithTimeout(context.Background(),
				time.Duration(random.Int64N(int64(2*time.Millisecond))))
			p.Ask(patience, r, time.Millisecond)
			cancel()
		}
		if w.calm.Load() {
			pause *= 5
		}
		sleep(over, pause)
	}
}

// deniedByServer reports whether a server denied just now. The wait of a cached denial may be too
// short, since requests of other costs may have taken units since.
func deniedByServer(o core.Outcome) bool {
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.Source != limits.SourcePrimary {
			return false
		}
	}
	return !o.Allowed()
}
