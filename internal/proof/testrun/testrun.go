// Package testrun determines the size of a run of the tests and the seed of its random numbers.
//
// By default go test runs the tests that find most in two minutes. With WEIR_FULL=1 it runs all:
// long random runs, floods, faults of real servers. A short run skips the others with a message. A
// test that needs a program that the machine lacks is skipped too, but fails in a full run.
package testrun

import (
	"context"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

const variable = "WEIR_FULL"

var seedFlag = flag.Uint64("weir.seed", 0,
	"the `seed` of random tests, as a failure prints it; 0: a new one")

// Full reports whether this run runs all tests in full.
func Full() bool {
	switch value := os.Getenv(variable); value {
	case "1":
		return true
	case "", "0":
		return false
	default:
		panic(variable + " must be 1, or 0, or not set, not " + value)
	}
}

// Sized returns the size of a test in this run.
func Sized(short, full int) int {
	if Full() {
		return full
	}
	return short
}

// FullOnly skips the test unless this run is full. why says in a few words why a short run omits
// it.
func FullOnly(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s. To run it: %s=1 %s", why, variable, command(t))
	}
}

// Command is [exec.Command] for tests, and the only way in which tests start a program. A name
// without a slash is looked up by [Program].
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	return CommandContext(context.Background(), t, name, args...)
}

// CommandContext is [exec.CommandContext] for tests: see [Command].
func CommandContext(ctx context.Context, t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	if filepath.Base(name) == name {
		name = Program(t, name)
	}
	return exec.CommandContext(ctx, name, args...)
}

// Program returns the path of the first of these programs that the machine has. Without any of
// them, Program skips the test, or fails it in a full run.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path := find(name); path != "" {
			return path
		}
	}
	if Full() {
		t.Fatalf("%s is not on the PATH, and a full run needs it: .ci/install %[1]s installs it "+
			"on Debian", names[0])
	}
	t.Skipf("%s is not on the PATH: this test needs it", names[0])
	return ""
}

// Has reports whether the machine has a program.
func Has(name string) bool { return find(name) != "" }

func find(name string) (path string) {
	path, err := exec.LookPath(name)
	if err != nil { // Debian installs servers into directories outside the PATH of most users
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
		if len(versions) == 0 {
			return ""
		}
		return versions[len(versions)-1]
	}
	return path
}

// MiniredisWorks reports whether miniredis can replace Redis. It cannot where an int has 32 bits:
// it keeps the numbers of a script's reply and expiries in an int, so instants in microseconds are
// lost. Redis and weir use 64 bits everywhere. Examples cannot be skipped, so a file of examples
// with miniredis has a build constraint.
func MiniredisWorks() bool { return strconv.IntSize == 64 }

// NeedsMiniredis skips the test unless [MiniredisWorks].
func NeedsMiniredis(t testing.TB) {
	t.Helper()
	if !MiniredisWorks() {
		t.Skip("miniredis keeps the numbers of scripts in an int, which has 32 bits here")
	}
}

// Seed returns the seed of a random test: a new one in each run, or that of the flag
// -weir.seed. A failure prints how to repeat the run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := Draw()
	Replay(t, seed)
	return seed
}

// Draw is Seed for a test that calls [Replay] itself.
func Draw() uint64 {
	if Replays() {
		return *seedFlag
	}
	return rand.Uint64()
}

// Replays reports whether this run repeats a seed.
func Replays() bool { return *seedFlag != 0 }

// Replay prints how to repeat the test with a seed if it fails.
func Replay(t testing.TB, seed uint64) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			full := ""
			if Full() {
				full = variable + "=1 "
			}
			t.Logf("to repeat it: %s%s -weir.seed %d", full, command(t), seed)
		}
	})
}

// Random returns the random numbers of a test: see [Seed].
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// DependsOnSource makes the go command run the test again when any Go file of the module has
// changed, even one that the test does not import. It is for tests that run the go command.
func DependsOnSource(t testing.TB, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.ReadFile(path) // the go command records the read
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// command returns the command line that runs only this test, from anywhere in its module.
func command(t testing.TB) string {
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	path := "."
	if info, ok := debug.ReadBuildInfo(); ok {
		path = strings.TrimSuffix(info.Path, ".test")
	}
	return "go test -run '" + strings.Join(parts, "/") + "' " + path
}
