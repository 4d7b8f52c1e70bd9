package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

const followedKey = "weir:held+ann"

// followed lives through a world drawn from a seed whose units are compared with the model. plant
// changes the server all the time; nil: nothing does. Without a fault, some are drawn.
func followed(
	t *testing.T, seed uint64, fault *Fault, plant func(s *Server, before, now map[string]float64),
) (broken []string, steps, late int) {
	defer noticeHang(t, seed)()
	synctest.Test(t, func(t *testing.T) {
		w := New(t, seed, One)
		random := rand.New(rand.NewPCG(seed, 2))
		processes, limit := 2+random.IntN(2), 1+random.IntN(4)
		program := Program{Rules: []core.Rule[Request]{{
			Name: "held", Limit: limits.Concurrent(int64(limit)), Key: self, OnFailure: core.FailClosed,
			Cost: func(r Request) int64 { return r.Cost },
		}}}
		tr := w.Follow(followedKey, limit)
		for i := range processes {
			w.processes = append(w.processes, w.Start(fmt.Sprint("process ", i), program))
			r := Request{Key: "ann", Cost: 1, Direct: true}
			w.processes[i].Ask(t.Context(), r, 0) // one after the other
		}
		over := time.Now().Add(15 * time.Second)
		var clients sync.WaitGroup
		for i := range processes {
			for range 2 {
				own := w.source()
				clients.Go(func() {
					for time.Now().Before(over) {
						work, r := 4*time.Second, Request{Key: "ann", Cost: 1, Direct: true}
						if own.IntN(6) == 0 { // so long that units end unless they are renewed
							work = 3 * HoldTime
						}
						if limit > 1 && own.IntN(4) == 0 {
							r.Cost = 2
						}
						w.process(i).Ask(t.Context(), r, time.Duration(own.Int64N(int64(work))))
						time.Sleep(time.Duration(10+own.IntN(300)) * time.Millisecond)
					}
				})
			}
		}
		if plant != nil {
			clients.Go(func() {
				s, before := w.servers[0], map[string]float64{}
				for ; time.Now().Before(over); time.Sleep(50 * time.Millisecond) {
					if s.listener() != nil {
						plant(s, before, s.membersOf(followedKey))
						before = s.membersOf(followedKey)
					}
				}
			})
		}
		kinds := []Kind{
			Slow, Reset, Mute, Deaf, Lost, HalfOpen, Refused, Killed, Promoted, ProcessKilled, Restarted,
			Mute, Mute, Killed, // messages arrive in another order, and renewals put units back
		}
		var faults Schedule
		if fault != nil {
			faults = Schedule{*fault}
		}
		for range random.IntN(12) * (1 - len(faults)) {
			f := Fault{
				At:  time.Duration(100+random.IntN(10_000)) * time.Millisecond,
				For: time.Duration(100+random.IntN(900)) * time.Millisecond, Kind: kinds[random.IntN(len(kinds))],
				Process: random.IntN(processes),
			}
			if !slices.ContainsFunc(faults, f.prolongs) {
				faults = append(faults, f)
			}
		}
		w.play(faults)
		clients.Wait()
		w.end()
		broken = w.Broken()
		steps, late = tr.Steps()
	})
	return broken, steps, late
}

// prolongs reports whether a message may be under way for longer than traceFlight, if both faults
// strike a process. For example one connection is half-open, so a renewal is sent by a second one,
// which is mute.
func (f Fault) prolongs(other Fault) bool {
	same := f.Process == other.Process || f.Kind >= Stopped && f.Kind < ProcessKilled ||
		other.Kind >= Stopped && other.Kind < ProcessKilled
	return same && f.At < other.At+other.For+traceFlight && other.At < f.At+f.For+traceFlight
}

// TestHeldUnitsFollowTheModel replays what worlds did in the model of docs/proof/holds.pml.
func TestHeldUnitsFollowTheModel(t *testing.T) {
	first, all, allLate := testrun.Seed(t), 0, 0
	for i := range uint64(testrun.Sized(40, 1000)) {
		broken, steps, late := followed(t, first+i, nil, nil)
		if all, allLate = all+steps, allLate+late; len(broken) > 0 {
			testrun.Replay(t, first+i)
			t.Fatalf("seed %d: %v", first+i, broken)
		}
	}
	t.Logf("%d transitions, %d renewals after the end", all, allLate)
}

// TestTracesFindPlantedMistakes plants the mistakes of docs/proof that a server shows.
func TestTracesFindPlantedMistakes(t *testing.T) {
	far := float64(time.Now().Add(100 * 365 * 24 * time.Hour).UnixMicro())
	for _, mistake := range []struct {
		name, broken string
		fault        Fault
		plant        func(s *Server, before, now map[string]float64)
	}{{
		"a release without a generation", "freed a unit that is in use", Fault{Kind: Slow},
		func(s *Server, before, now map[string]float64) {
			for id := range before {
				if _, is := now[id]; is {
					continue
				}
				for other := range now { // the process has released one, and loses another
					if other[:6] == id[:6] {
						s.redis.ZRem(followedKey, other)
						return
					}
				}
			}
		},
	}, {
		"a renewal that adopts", "no renewal can be under way", Fault{Kind: ProcessKilled},
		func(s *Server, before, now map[string]float64) {
			latest := 0.0
			for id, ends := range now {
				if was, is := before[id]; is && ends > was {
					latest = max(latest, ends)
				}
			}
			for id, ends := range now {
				if ends < latest {
					s.redis.ZAdd(followedKey, latest, id)
				}
			}
		},
	}, {
		"a failover that keeps a unit", "in the model", Fault{Kind: Promoted},
		func(s *Server, before, now map[string]float64) {
			for id, ends := range now {
				if was, is := before[id]; !is || ends < was { // it has come back
					if s.replica != nil {
						s.redis.ZAdd(followedKey, far, id)
					}
				}
			}
		},
	}, {
		"a taking without room", "there was no room", Fault{Kind: Slow},
		func(s *Server, _, now map[string]float64) {
			for id, ends := range now {
				for n := range byte(4) {
					s.redis.ZAdd(followedKey, ends, id[:6]+"\xff\xff\xff\xff\xff"+string(rune('a'+n)))
				}
				return
			}
		},
	}} {
		t.Run(mistake.name, func(t *testing.T) {
			fault := mistake.fault
			fault.At, fault.For = 5*time.Second, 500*time.Millisecond
			var all []string
			for seed := range uint64(20) {
				broken, _, _ := followed(t, seed, &fault, mistake.plant)
				for _, law := range broken {
					if strings.Contains(law, mistake.broken) {
						t.Log(law)
						return
					}
				}
				all = append(all, broken...)
			}
			t.Errorf("20 traces did not find it: %q", all)
		})
	}
}
