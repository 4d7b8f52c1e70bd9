package world

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// TestSeeds lives through worlds that seeds make up: in a short run for 20 seconds, in a full
// one for half an hour. With -weir.seed it lives through one of them twenty times: a seed that has
// failed then fails 20 times, and on two processors instead of one 6 to 20 times.
func TestSeeds(t *testing.T) {
	first, again := testrun.Draw(), testrun.Replays()
	begun, worlds, decisions := time.Now(), uint64(0), 0
	if again {
		s, failed := scenarioOf(first), 0
		for range 20 {
			if broken, _ := s.run(t); len(broken) > 0 {
				failed++
				t.Log(strings.Join(broken, "\n"))
			}
		}
		if t.Logf("%v\nfails %d of 20 times", s, failed); failed > 0 {
			t.Fail()
		}
		return
	}
	for time.Since(begun) < time.Duration(testrun.Sized(20, 1800))*time.Second {
		s := scenarioOf(first + worlds)
		broken, n := s.run(t)
		worlds, decisions = worlds+1, decisions+n
		if len(broken) > 0 {
			testrun.Replay(t, s.seed)
			t.Errorf("%v\n%s", s.smallest(t), strings.Join(broken, "\n"))
			return
		}
	}
	t.Logf("%d worlds, %d decisions in %v", worlds, decisions, time.Since(begun).Round(time.Second))
}

// smallest leaves out the faults without which the scenario fails all the same.
func (s scenario) smallest(t *testing.T) scenario {
	for i := 0; i < len(s.faults); {
		less := s
		less.faults = slices.Delete(slices.Clone(s.faults), i, i+1)
		if less.failsWithin(t, 3) {
			s = less
		} else {
			i++
		}
	}
	return s
}

func (s scenario) failsWithin(t *testing.T, tries int) bool {
	for range tries {
		if broken, _ := s.run(t); len(broken) > 0 {
			return true
		}
	}
	return false
}

// Scenarios of seeds that differ are different, and of equal seeds are equal.
func TestASeedMakesUpOneScenario(t *testing.T) {
	seen := make(map[string]bool)
	for seed := range uint64(50) {
		if a, b := fmt.Sprint(scenarioOf(seed)), fmt.Sprint(scenarioOf(seed)); a != b {
			t.Errorf("seed %d is\n%s\nand\n%s", seed, a, b)
		}
		seen[fmt.Sprint(scenarioOf(seed).faults)] = true
	}
	if len(seen) < 25 {
		t.Errorf("50 seeds have %d schedules", len(seen))
	}
}

// On a Cluster, whose client repeats what breaks, no taking is made twice: the laws count.
func TestWhatIsTakenIsNotAskedForAgain(t *testing.T) {
	s := scenario{
		seed: testrun.Seed(t), topology: Cluster, lasts: 6 * time.Second, keys: 2, known: true,
		programs: []Program{{Rules: []core.Rule[Request]{Spending()}}},
	}
	for i := range 8 {
		s.faults = append(s.faults,
			Fault{At: time.Duration(100+600*i) * time.Millisecond, For: 300 * time.Millisecond, Kind: Lost, Server: i % 3})
	}
	if broken, _ := s.run(t); len(broken) > 0 {
		t.Errorf("%v\n%s", s, strings.Join(broken, "\n"))
	}
}

// On a Cluster, a denial that is due to units about to be given back is not remembered: requests
// of others take them and never succeed, so the model knows what a client may have.
func TestWhatIsAboutToReturnIsNotRemembered(t *testing.T) {
	const all = 15
	rules := []core.Rule[Request]{
		{Name: "a", Limit: limits.FixedWindow(limits.PerSecond(all)), Key: self,
			Cost: func(r Request) int64 { return r.Cost }},
		{Name: "b", Limit: limits.FixedWindow(limits.PerSecond(all)), Cost: func(r Request) int64 {
			if r.Alone {
				return 1
			}
			return all + 1 // never fits
		}, Key: func(r Request) (string, error) { // no denial of the others is repeated from memory
			return fmt.Sprint(r.Key, r.Final), nil
		}},
	}
	inWorld(t, Cluster, Program{Rules: rules}, func(t *testing.T, w *World, mine, other *Process) {
		var clients sync.WaitGroup
		for n, p := range []*Process{mine, other} {
			random := w.source()
			clients.Go(func() {
				for i := int64(1); w.age() < time.Minute; i++ {
					p.Ask(t.Context(), Request{Key: "k", Cost: all - random.Int64N(4), Final: 2*i + int64(n)}, 0)
					time.Sleep(time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)))
				}
			})
		}
		random := w.source()
		clients.Go(func() {
			for w.age() < time.Minute {
				mine.Ask(t.Context(), Request{Key: "k", Cost: 1 + random.Int64N(3), Alone: true}, 0)
				time.Sleep(time.Duration(random.ExpFloat64() * float64(50*time.Millisecond)))
			}
		})
		clients.Wait()
	})
}
