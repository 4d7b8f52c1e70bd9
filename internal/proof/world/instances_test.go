package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// total is the limit of all processes of a counted fleet together.
const total = 60

// least is how many processes there are at least.
const least = 2

// counted is the program of a fleet whose processes count each other.
var counted = Program{
	Heartbeat: true, Instances: least,
	Rules: []core.Rule[Request]{{Name: "all", Limit: limits.FixedWindow(limits.PerHour(total)), Key: self}},
}

// countedFleet is processes that come and go.
type countedFleet struct {
	w       *World
	random  *rand.Rand
	started map[*Process]time.Time
	names   int
}

// inFleet lives through a world in which the processes of a fleet come and go.
func inFleet(t *testing.T, seed uint64, live func(t *testing.T, f *countedFleet)) {
	defer noticeHang(t, seed)()
	synctest.Test(t, func(t *testing.T) {
		w := New(t, seed, One)
		live(t, &countedFleet{w: w, random: w.source(), started: make(map[*Process]time.Time)})
		w.Close()
	})
}

// start starts n processes at once.
func (f *countedFleet) start(n int) {
	for range n {
		f.names++
		p := f.w.Start(fmt.Sprint("process ", f.names), counted)
		f.started[p] = time.Now()
		f.w.mu.Lock()
		f.w.processes = append(f.w.processes, p)
		f.w.mu.Unlock()
	}
}

// stop ends one process, cleanly or by a kill.
func (f *countedFleet) stop(killed bool) {
	i := f.random.IntN(len(f.w.processes))
	p := f.w.processes[i]
	if f.w.processes = append(f.w.processes[:i:i], f.w.processes[i+1:]...); killed {
		p.Kill()
		go p.Stop() // its beats end, too
	} else {
		p.Stop()
	}
	delete(f.started, p)
}

// comeAndGo keeps 2 to 8 processes for a time.
func (f *countedFleet) comeAndGo(lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		switch n := len(f.w.processes); {
		case n < 8 && (n < 3 || f.random.IntN(2) == 0):
			f.start(1)
		default:
			f.stop(f.random.IntN(2) == 0)
		}
		time.Sleep(time.Duration(f.random.ExpFloat64() * float64(4*time.Second)))
	}
}

// lose ends Redis for a time, and returns how many requests for one key the fallbacks then admit,
// and how many of these those do that started less than a time ago.
func (f *countedFleet) lose(t *testing.T, lasts, ago time.Duration) (all, late int) {
	now := time.Now()
	f.w.strike(Fault{Kind: Killed, For: lasts})
	for _, p := range f.w.processes {
		own := 0
		for {
			o, _ := p.Ask(t.Context(), Request{Key: "ann", Direct: true}, 0)
			if source := o.At(0).Source; source != limits.SourceFallback {
				t.Fatalf("%s: decided by %v: %v", p.name, source, o.Err())
			}
			if !o.Allowed() {
				break
			}
			own++
		}
		if all += own; now.Sub(f.started[p]) < ago {
			late += own
		}
	}
	return all, late
}

// numbers returns what each process takes for the number of processes.
func (f *countedFleet) numbers() (all []int) {
	for _, p := range f.w.processes {
		all = append(all, p.backend.Instances())
	}
	return all
}

// Times after which all have counted a process: a beat comes every 3 s and takes a second at most.
const (
	nextBeat = 4 * time.Second
	settled  = 25 * time.Second // after 10 s a crashed process does not count, and after 12 s it is forgotten
)

// eachSeed runs a test for n seeds, and a hundred times as many in a full run.
func eachSeed(t *testing.T, n int, run func(t *testing.T, seed uint64)) {
	first := testrun.Draw()
	for i := range uint64(testrun.Sized(n, 100*n)) {
		if run(t, first+i); t.Failed() {
			testrun.Replay(t, first+i)
			return
		}
	}
}

// Processes come and go, and Redis dies. Together they admit the limit and a unit each for rounding.
// Those that started within the latest beat, which others had no time to count, admit a share
// each in addition.
func TestAFleetThatChangesAdmitsOneLimitTogether(t *testing.T) {
	fleets, most, lates, mostOfLate := 0, 0, 0, 0
	eachSeed(t, 20, func(t *testing.T, seed uint64) {
		inFleet(t, seed, func(t *testing.T, f *countedFleet) {
			f.start(least)
			f.comeAndGo(time.Duration(f.random.Int64N(int64(time.Minute))))
			n := len(f.w.processes)
			all, late := f.lose(t, 10*time.Second, nextBeat)
			if all > total+n+late {
				t.Errorf("%d processes admit %d of %d, of these late ones %d", n, all, total, late)
			}
			if fleets++; late == 0 {
				most = max(most, all)
			} else {
				lates, mostOfLate = lates+1, max(mostOfLate, all)
			}
		})
	})
	t.Logf("%d fleets admit %d of %d at most, and %d in which a process had just started %d",
		fleets-lates, most, total, lates, mostOfLate)
}

// After all have come and gone, the shares are those of the processes that are left.
func TestAFleetThatRestsAdmitsTheWholeLimit(t *testing.T) {
	eachSeed(t, 20, func(t *testing.T, seed uint64) {
		inFleet(t, seed, func(t *testing.T, f *countedFleet) {
			f.start(least)
			f.comeAndGo(time.Duration(f.random.Int64N(int64(time.Minute))))
			time.Sleep(settled)
			n := len(f.w.processes)
			if got := f.numbers(); !slices.Equal(got, slices.Repeat([]int{n}, n)) {
				t.Errorf("%d processes count %v", n, got)
			}
			if all, _ := f.lose(t, 10*time.Second, 0); all < total || all > total+n {
				t.Errorf("%d processes admit %d of %d", n, all, total)
			}
		})
	})
}

// Whatever happens to Redis, no process takes the fleet for smaller than it is.
func TestNoFaultOfRedisMakesAFleetLookSmaller(t *testing.T) {
	for _, fault := range []Fault{
		{Kind: Killed}, {Kind: Promoted}, {Kind: Stopped},
		{Kind: StepForward, By: time.Minute}, {Kind: StepBack, By: time.Minute},
		{Kind: StepForward, By: 5 * time.Second}, {Kind: StepBack, By: 5 * time.Second},
	} {
		t.Run(fmt.Sprint(fault.Kind, fault.By), func(t *testing.T) {
			eachSeed(t, 4, func(t *testing.T, seed uint64) {
				inFleet(t, seed, func(t *testing.T, f *countedFleet) {
					n := 2 + f.random.IntN(7)
					for range n { // they do not beat together
						f.start(1)
						time.Sleep(time.Duration(f.random.Int64N(int64(3 * time.Second))))
					}
					time.Sleep(settled)
					for range 2 { // it has recovered from one before the next
						fault := fault
						fault.For = time.Duration(f.random.Int64N(int64(20 * time.Second)))
						f.w.strike(fault)
						for end := time.Now().Add(fault.For + settled); time.Now().Before(end); {
							time.Sleep(100 * time.Millisecond)
							if got := f.numbers(); !slices.Equal(got, slices.Repeat([]int{n}, n)) {
								t.Fatalf("%v after %v: %d processes count %v", fault, f.w.age(), n, got)
							}
						}
					}
					f.shrinks(t, n)
				})
			})
		})
	}
}

// shrinks fails unless a fleet of n still notices that one process ends.
func (f *countedFleet) shrinks(t *testing.T, n int) {
	f.stop(f.random.IntN(2) == 0)
	time.Sleep(settled)
	if got := f.numbers(); !slices.Equal(got, slices.Repeat([]int{n - 1}, n-1)) {
		t.Errorf("%d processes count %v", n-1, got)
	}
}

// A process that stands still, or is cut off, is not counted. Once it is back it has the number of
// before, so together they admit one share more.
func TestAProcessThatWasCutOffAddsOneShare(t *testing.T) {
	eachSeed(t, 10, func(t *testing.T, seed uint64) {
		inFleet(t, seed, func(t *testing.T, f *countedFleet) {
			n := 2 + f.random.IntN(7)
			f.start(n)
			time.Sleep(settled)
			lasts := time.Duration(f.random.Int64N(int64(time.Minute)))
			f.w.strike(Fault{Kind: CutOff, Process: 0, For: lasts + 10*time.Second})
			time.Sleep(lasts)
			share := (total + n - 1) / n
			if all, _ := f.lose(t, 10*time.Second, 0); all > total+n+share {
				t.Errorf("%d processes admit %d of %d", n, all, total)
			}
		})
	})
}
