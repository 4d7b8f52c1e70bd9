package model

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// scope is a model of a size for which all states are visited.
type scope struct {
	flags  string // of spin
	states int    // as spin counts them
}

// scopes are the rows of docs/proof/README.md of up to ten million states.
var scopes = []scope{
	{"holds -DFAULTS=0", 59_185},
	{"holds -DPROCESSES=3 -DIDS=3 -DFAULTS=2 -DLIMIT=1", 127_269},
	{"holds -DIDS=3 -DCLOCK -DFAULTS=2", 213_766},
	{"holds -DPROCESSES=3 -DIDS=3 -DFAULTS=2 -DLIMIT=2", 228_914},
	{"holds -DIDS=3 -DFLIGHT=1 -DFAULTS=1", 323_591},
	{"holds -DIDS=3 -DCLOCK -DFAULTS=2 -DLIMIT=2", 437_804},
	{"holds -DPROCESSES=3 -DIDS=3 -DFAULTS=3 -DLIMIT=2", 484_571},
	{"holds -DFAULTS=1", 552_481},
	{"holds -DPROCESSES=3 -DIDS=4 -DFAULTS=1", 558_515},
	{"holds -DCLOCK -DFAULTS=1", 685_262},
	{"holds -DIDS=3 -DFLIGHT=1 -DFAULTS=2", 924_318},
	{"holds -DIDS=3 -DREPLICA -DFAULTS=2", 941_735},
	{"holds -DLIMIT=2 -DFAULTS=1", 1_466_900},
	{"holds -DPROCESSES=3 -DIDS=4 -DFAULTS=1 -DLIMIT=2", 1_496_740},
	{"holds -DLIMIT=3 -DFAULTS=1", 1_904_356},
	{"holds -DPROCESSES=3 -DIDS=4 -DFAULTS=1 -DLIMIT=3", 1_954_752},
	{"holds -DFAULTS=2", 2_288_280},
	{"holds -DREPLICA -DFAULTS=1", 4_318_323},
	{"holds -DLIMIT=2 -DFAULTS=2", 5_564_959},
	{"leases -DLIMIT=1 -DFAULTS=0", 3_256},
	{"leases -DLIMIT=1", 22_872},
	{"leases -DLIMIT=2 -DFAULTS=0", 51_507},
	{"leases -DLIMIT=1 -DREPLICA", 73_294},
	{"leases -DLIMIT=1 -DFAULTS=2", 74_405},
	{"leases -DLIMIT=2", 455_354},
	{"leases -DLIMIT=1 -DPROCESSES=3", 669_780},
	{"leases -DLIMIT=2 -DFAULTS=2", 1_596_913},
	{"leases -DLIMIT=2 -DPROCESSES=3 -DFAULTS=0", 2_538_069},
	{"leases -DLIMIT=2 -DREPLICA", 3_312_641},
	{"leases -DLIMIT=3", 4_093_026},
}

// start returns the model of a scope, or of a mistake, as spin would start it.
func start(t *testing.T, flags string) System {
	model, defined := "", map[string]int{}
	for i, word := range strings.Fields(flags) {
		if i == 0 {
			model = word
			continue
		}
		name, value, _ := strings.Cut(strings.TrimPrefix(word, "-D"), "=")
		n, err := strconv.Atoi(cmp.Or(value, "1"))
		if err != nil {
			t.Fatal(err)
		}
		defined[name] = n
	}
	read := func(name string, otherwise int) int {
		if n, ok := defined[name]; ok {
			return n
		}
		return otherwise
	}
	processes, mistake := read("PROCESSES", 2), Correct
	for name, is := range map[string]Mistake{
		"NO_GENERATION": NoGeneration, "ADOPTS": Adopts, "KEEPS": Keeps, "NO_SLACK": NoSlack,
		"TWICE": Twice,
	} {
		if read(name, 0) == 1 {
			mistake = is
		}
	}
	if model == "leases" {
		l := NewLeases(processes, int64(read("LIMIT", 2)), read("FAULTS", 1))
		l.WithReplica, l.Mistake = read("REPLICA", 0) == 1, mistake
		return l
	}
	h := NewHolds(processes, read("IDS", 2*processes), read("LIMIT", 1), read("FAULTS", 2))
	h.Flight, h.Mistake = int64(1+read("FLIGHT", 0)), mistake
	h.WithReplica, h.WithClock = read("REPLICA", 0) == 1, read("CLOCK", 0) == 1
	return h
}

// TestNoStateBreaksAPromise visits as many states as spin does.
func TestNoStateBreaksAPromise(t *testing.T) {
	for _, s := range scopes {
		t.Run(s.flags, func(t *testing.T) {
			if s.states > 2_000_000 {
				return // spin visits them
			}
			if s.states > 60_000 {
				testrun.FullOnly(t, "more than 60,000 states")
			}
			t.Parallel()
			states, err := Explore(start(t, s.flags))
			if err != nil || states != s.states {
				t.Errorf("%d states, want %d: %v", states, s.states, err)
			}
		})
	}
}

// mistakes are those that a model finds, with a part of the error that names the broken promise.
var mistakes = []struct{ flags, broken string }{
	{"holds -DNO_GENERATION -DFAULTS=1", "freed a unit that is in use"},
	{"holds -DADOPTS -DFAULTS=1 -DIDS=4", "held without a request after HoldTime"},
	{"holds -DIDS=3 -DREPLICA -DKEEPS -DFAULTS=1", "held without a request after HoldTime"},
	{"leases -DNO_SLACK -DFAULTS=0", "units are spent within a period"},
	{"leases -DTWICE -DFAULTS=0", "units are spent within a period"},
}

func TestModelsFindPlantedMistakes(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.flags, func(t *testing.T) {
			t.Parallel()
			if _, err := Explore(start(t, m.flags)); err == nil || !strings.Contains(err.Error(), m.broken) {
				t.Errorf("the model found: %v", err)
			} else {
				t.Log(err)
			}
		})
	}
}

var (
	states = regexp.MustCompile(`(?m)^ *(\d+) states, stored$`)
	wrong  = regexp.MustCompile(`(?m)^pan:1: (.*)$`)
)

// spin runs a model and returns how many states spin has visited, and what it found.
func spin(t *testing.T, flags string) (n int, found string) {
	t.Helper()
	dir := t.TempDir()
	model, rest, _ := strings.Cut(flags, " ")
	text, err := os.ReadFile(filepath.Join("../../../docs/proof", model+".pml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "model.pml"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(program string, args ...string) string {
		command := testrun.Command(t, program, args...)
		command.Dir = dir
		said, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", program, err, said)
		}
		return string(said)
	}
	run("spin", append(append([]string{"-a"}, strings.Fields(rest)...), "model.pml")...)
	run("gcc", "-O2", "-w", "-DSAFETY", "-DNOREDUCE", "-DCOLLAPSE", "-o", "pan", "pan.c")
	said := run(filepath.Join(dir, "pan"), "-m1000000")
	if match := states.FindStringSubmatch(said); match != nil {
		n, _ = strconv.Atoi(match[1])
	}
	if match := wrong.FindStringSubmatch(said); match != nil {
		found = match[1]
	}
	return n, found
}

// TestSpinVisitsTheSameStates compares the models in Promela with those in Go.
func TestSpinVisitsTheSameStates(t *testing.T) {
	testrun.FullOnly(t, "spin and a compiler of C")
	for _, s := range scopes {
		t.Run(s.flags, func(t *testing.T) {
			if n, found := spin(t, s.flags); n != s.states || found != "" {
				t.Errorf("%d states, want %d: %s", n, s.states, found)
			}
		})
	}
	for _, m := range mistakes {
		t.Run(m.flags, func(t *testing.T) {
			if _, found := spin(t, m.flags); !strings.Contains(found, "assertion violated") {
				t.Errorf("spin found: %s", found)
			}
		})
	}
}
