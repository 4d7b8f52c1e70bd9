package interleave_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/interleave"
	"github.com/weir-go/weir/internal/proof/testrun"
)

var plant = flag.String("plant", "", "the `mistake` that copies of the library make")

// explore explores each scene. The packages must be built from copies.
func explore(t *testing.T) {
	interleave.Plant = *plant
	for _, s := range append(scenes(), leaseScenes()...) {
		if s.full && !testrun.Full() {
			continue
		}
		if last := len(s.tasks) - 1; s.slow && !testrun.Full() {
			s.tasks[last] = s.tasks[last][:len(s.tasks[last])-1]
		}
		t.Run(s.name, func(t *testing.T) { exploreTwice(t, s.full || len(s.tasks) > 2, s.explore) })
	}
	t.Run("ends", func(t *testing.T) { exploreTwice(t, false, exploreEnds) })
}

// exploreTwice explores every order that makes a difference, and then those with few suspensions.
// If a lock is missing, plain reads and writes may make a difference in these.
func exploreTwice(t *testing.T, slow bool, explore func(interleave.Options) (int, error)) {
	few := 1
	if testrun.Full() && !slow {
		few = 2
	}
	begin := time.Now()
	orders, err := explore(interleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	more, err := explore(interleave.Options{Preemptions: few})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d orders, %d more with at most %d suspensions, %v", orders, more, few,
		time.Since(begin).Round(time.Millisecond))
}

// The test builds itself again, from copies of the library that import the shims, and runs that.
func TestInEveryOrderCallsAreAsIfMadeInTurn(t *testing.T) {
	if built {
		explore(t)
		return
	}
	plain := build(t)
	run := func(t *testing.T, binary, scenes string, args ...string) (string, error) {
		args = append(args, "-test.v", "-test.run", "InTurn/"+strings.ReplaceAll(scenes, " ", "_"))
		c := testrun.Command(t, binary, args...)
		c.Env = append(os.Environ(), "GOMAXPROCS=1") // tasks run in turn, and switch faster so
		out, err := c.CombinedOutput()
		return string(out), err
	}
	explored := func(binary string, args ...string) func(t *testing.T) {
		return func(t *testing.T) {
			out, err := run(t, binary, "", args...)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Log(out)
		}
	}
	t.Run("no mistake", explored(plain))
	raced := plain
	if testrun.Full() { // leases and ends do not end under the race detector
		raced = build(t, "-race")
		t.Run("no race", explored(raced, "-test.skip", "InTurn/(lease:|ends)"))
	}
	for _, m := range mistakes {
		t.Run("the mistake "+m.mistake, func(t *testing.T) {
			binary := plain
			if m.races {
				binary = raced
			}
			out, err := run(t, binary, "^"+m.scene+"$", "-plant", m.mistake)
			if err == nil || !strings.Contains(out, m.want) {
				t.Errorf("%v, want it to fail with %q\n%s", err, m.want, out)
			}
			if testrun.Full() && m.races && !strings.Contains(out, "DATA RACE") {
				t.Errorf("the race detector finds nothing\n%s", out)
			}
		})
	}
}

// mistakes are those that edits can plant, each with a scene that finds it.
var mistakes = []struct {
	mistake, scene, want string
	races                bool // the race detector finds it, too
}{
	{"no lock", "take, grow", "no order explains", true},
	{"two steps", "take, take", "no order explains", false},
	{"retired limit", "take, retire", "no order explains", false},
	{"look before lock", "reset, grow", "no order explains", true},
	{"settle under a retired limit", "settle, retire", "no order explains", false},
	{"refund of another state", "refund, reset", "no order explains", false},
	{"spend after the end", "lease: spend, end of block, spend", "a unit is spent 1s after", false},
	{"spend in two steps", "lease: spend, spend", "units spent, but", false},
	{"close in two steps", "lease: spend, end of block", "units spent, but", false},
	{"keep what was reset", "lease: request, reset", "units held, but", false},
	{"stale end", "ends", "the limiter holds", false},
	{"locks in any order", "groups in both orders", "deadlock", false},
}
