package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// check fails the test if a node is in two logs or in none, is miscounted, or if a shard
// has more nodes than it may. It reports whether all nodes of a shard are in use.
func (m *Memory) check(t *testing.T, most int) (short bool) {
	t.Helper()
	for i := range m.shards {
		sh := &m.shards[i]
		l := &sh.states.logs
		seen, inUse := map[uint32]bool{}, [shares]uint32{}
		for b := range sh.table.buckets {
			for p := range sh.table.buckets[b] {
				e := &sh.table.buckets[b][p]
				if e.empty() || sh.states.limits.get(e.limitID).lister == nil {
					continue
				}
				log := e.log()
				sum, at, tail := log.Latest(), int64(0), uint32(0)
				for n := log.Head(); n != 0; n = l.at(n).next {
					if seen[n] {
						t.Fatalf("node %d is in two logs", n)
					}
					if l.at(n).word <= at || l.at(n).word >= e.at {
						t.Fatalf("a log is out of order: %d after %d, the latest %d", l.at(n).word, at, e.at)
					}
					seen[n], at, tail = true, l.at(n).word, n
					sum += int64(l.at(n).units)
					inUse[sh.states.limits.get(e.limitID).share]++
				}
				if sum != log.Sum() || tail != log.Tail() {
					t.Fatalf("a log of %d units, tail %d says %d and %d", sum, tail, log.Sum(), log.Tail())
				}
			}
		}
		if l.made == 0 {
			continue
		}
		short = short || int(l.made) == most && l.free == 0
		if inUse != *l.inUse {
			t.Fatalf("shard %d: nodes in use are miscounted", i)
		}
		for n := l.free; n != 0; n = l.at(n).next {
			if seen[n] {
				t.Fatalf("node %d is in use and free", n)
			}
			seen[n] = true
		}
		if int(l.made) != len(seen) || int(l.made) > most || len(l.pieces)*pieceNodes >= int(l.made)+pieceNodes {
			t.Fatalf("shard %d: %d nodes in %d pieces, of which %d are in use or free, want at most %d", i, l.made,
				len(l.pieces), len(seen), most)
		}
	}
	return short
}

// Charges of all kinds, short of nodes and of places, while the clock steps: no
// node is lost, and no log allows more than it may.
func TestLogsShortOfNodesKeepThemInOrderAndAllowNothingTooMuch(t *testing.T) {
	seed := testrun.Seed(t)
	for _, options := range []Options{
		{MaxKeys: 100, MaxLogEntries: 256},
		{MaxKeys: 300, MaxLogEntries: 700},
		{MaxKeys: 40_000, MaxLogEntries: 1000}, // several shards
	} {
		short := 0
		for round := range uint64(3) {
			random := rand.New(rand.NewPCG(seed, round))
			start := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
			now, longest := start, start
			options.Clock = func() time.Time { return now }
			m := MustNew(options)
			choices := []limits.Limit{limits.SlidingLog(limits.PerMinute(100)), limits.SlidingLog(limits.PerHour(2000)),
				limits.SlidingLog(limits.Per(20, 10*time.Second)), limits.SlidingWindow(limits.PerMinute(50))}
			type taking struct{ at, units int64 }
			takings := map[string][]taking{} // of each key under a limit that stays
			for call := range 20_000 {
				switch random.IntN(40) {
				case 0:
					now = now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
				case 1:
					now = now.Add(-time.Duration(random.IntN(1000)) * time.Millisecond)
				case 2:
					if random.IntN(100) == 0 {
						now = now.Add(2 * time.Hour)
					}
				default:
					now = now.Add(time.Duration(random.IntN(10)) * time.Millisecond)
				}
				longest = longest.Add(max(0, now.Sub(longest)))
				charges := make([]backends.Charge, 1+random.IntN(4)*random.IntN(2))
				used := map[string]bool{}
				for i := range charges {
					scope := random.IntN(4)
					key := fmt.Sprint(random.IntN(1 + random.IntN(60)))
					charges[i] = backends.Charge{Scope: fmt.Sprint(scope), Key: key, Limit: choices[scope], Cost: 1 + random.Int64N(3),
						Shadow: random.IntN(3) == 0}
					if scope == 1 && random.IntN(10) == 0 {
						charges[i].Scope, charges[i].Limit = "changing", choices[random.IntN(4)]
					}
					if id := charges[i].Scope + "/" + key; used[id] {
						charges[i].Scope = fmt.Sprint("again ", i, call%3) // one limit for each key of a call
						charges[i].Limit = choices[0]
					} else {
						used[id] = true
					}
				}
				out := make([]limits.Decision, len(charges))
				if err := m.Take(t.Context(), charges, out); err != nil {
					t.Fatal(err)
				}
				taken := true
				for i, d := range out {
					taken = taken && (d.Allowed || charges[i].Shadow)
				}
				for i, d := range out {
					c := charges[i]
					if !taken || !d.Allowed || c.Scope == "changing" || c.Limit.Algorithm() != limits.AlgorithmSlidingLog {
						continue
					}
					id := c.Scope + "/" + c.Key
					log := takings[id]
					at := now.UnixMicro()
					if n := len(log); n > 0 {
						at = max(at, log[n-1].at) // the clock is inUse
					}
					for len(log) > 0 && log[0].at+c.Limit.Rate().Period.Microseconds() <= longest.UnixMicro() {
						log = log[1:]
					}
					log = append(log, taking{at, c.Cost})
					takings[id] = log
					sum := int64(0)
					for _, past := range log {
						sum += past.units
					}
					if sum > c.Limit.Rate().Units {
						t.Fatalf("call %d: %d units of %v in one period", call, sum, c.Limit)
					}
				}
				if call%200 == 0 && m.check(t, max(256, (options.MaxLogEntries+len(m.shards)-1)/len(m.shards))) {
					short++
				}
			}
		}
		if short < 30 {
			t.Errorf("%+v: nodes were short %d times of 300 only: this test shows nothing", options, short)
		}
	}
}
