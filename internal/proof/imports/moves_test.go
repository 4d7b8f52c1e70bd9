package imports

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

var update = flag.Bool("update", false, "write testdata/moves.txt")

// The programs of testdata/programs are real: what their go.mod files require. Packages limits,
// memory and nethttp import the standard library alone, but a program that adds them gets all
// requirements of our go.mod. testdata/moves.txt has each line of a program that this moves.
func TestEachLineThatWeirMovesInARealProgramHasAReason(t *testing.T) {
	ours := graphOf(t, "../../..")
	files, err := filepath.Glob("testdata/programs/*.mod")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d programs, %v", len(files), err)
	}
	var table strings.Builder
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".mod")
		before := requirements(t, file)
		after := ours.addedTo(t, before)
		for _, path := range slices.Sorted(maps.Keys(before)) {
			if after[path] == before[path] {
				continue
			}
			why := ours.why(path, after[path])
			if why == "" {
				t.Errorf("%s: %s moves from %s to %s, and floors does not say why",
					name, path, before[path], after[path])
			}
			fmt.Fprintf(&table, "%s: %s %s -> %s: %s\n", name, path, before[path], after[path], why)
		}
		if testrun.Full() { // asks the module proxy
			for path, version := range addedByGo(t, file) {
				if version != after[path] {
					t.Errorf("%s: the go command selects %s %s, want %s", name, path, version, after[path])
				}
			}
		}
	}
	const golden = "testdata/moves.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(table.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != table.String() {
		t.Errorf("other lines move: compare by go test -update (%v)\n%s", err, table.String())
	}
}

// addedByGo returns what the go command writes into the go.mod of a program that requires module.
func addedByGo(t *testing.T, file string) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text = fmt.Appendf(text, "\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", module, root)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, dir, "list", "-m", "all") // which writes go.mod
	cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod", "GONOSUMDB=*")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	versions := requirements(t, filepath.Join(dir, "go.mod"))
	delete(versions, module)
	return versions
}

// graph is what "go mod graph" prints for one of our modules: what each release requires, as a path,
// "@" and a version. The module itself has no version.
type graph map[string][]string

func graphOf(t *testing.T, dir string) graph {
	t.Helper()
	out, err := command(t, dir, "mod", "graph").Output()
	if err != nil {
		t.Fatalf("go mod graph: %v", err)
	}
	g := make(graph)
	for line := range strings.Lines(string(out)) {
		by, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		g[by] = append(g[by], what)
	}
	return g
}

// addedTo returns the versions of a program's go.mod once it requires module. Of what the go command
// calls the pruned module graph, the lines of the program count, those of our go.mod, and those of
// each release that a line has been raised to.
func (g graph) addedTo(t *testing.T, program map[string]string) map[string]string {
	t.Helper()
	after := maps.Clone(program)
	for queue := []string{module}; len(queue) > 0; queue = queue[1:] {
		for _, required := range g.required(t, queue[0]) {
			path, version, _ := strings.Cut(required, "@")
			if has, listed := after[path]; listed && compare(version, has) > 0 {
				after[path] = version
				queue = append(queue, required)
			}
		}
	}
	return after
}

// required returns what a release requires. Of those that our own graph is pruned of, the go command
// asks the module proxy, once.
func (g graph) required(t *testing.T, release string) []string {
	t.Helper()
	if _, known := g[release]; !known && !strings.HasPrefix(release, "go@") {
		cmd := command(t, t.TempDir(), "list", "-m", "-f", "{{.GoMod}}", release)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list -m %s: %v", release, err)
		}
		g[release] = nil
		for path, version := range requirements(t, strings.TrimSpace(string(out))) {
			g[release] = append(g[release], path+"@"+version)
		}
	}
	return g[release]
}

// why returns the reason for a version of a module: it is that of a floor, or one that a floor
// requires, directly or not. Without one it returns "".
func (g graph) why(path, version string) string {
	if reason := floors[path]; reason != "" {
		return reason
	}
	for _, floor := range slices.Sorted(maps.Keys(floors)) {
		for by := range g {
			if strings.HasPrefix(by, floor+"@") && g.isOurs(by) && g.leads(by, path+"@"+version) {
				return strings.Replace(by, "@v", " ", 1) + " requires it"
			}
		}
	}
	return ""
}

// isOurs reports whether a module of ours requires a release.
func (g graph) isOurs(release string) bool {
	for by, required := range g {
		if strings.HasPrefix(by, module) && slices.Contains(required, release) {
			return true
		}
	}
	return false
}

// leads reports whether one release requires another, directly or not.
func (g graph) leads(from, to string) bool {
	seen := map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g[queue[0]] {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}

// compare orders versions of modules, and of Go, as semver.org does.
func compare(a, b string) int {
	cut := func(v string) (release, pre string, final bool) {
		v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "+")
		release, pre, found := strings.Cut(v, "-")
		return release, pre, !found
	}
	release, pre, final := cut(a)
	otherRelease, otherPre, otherFinal := cut(b)
	if c := compareDotted(release, otherRelease); c != 0 {
		return c
	}
	if final != otherFinal {
		if final {
			return 1
		}
		return -1
	}
	return compareDotted(pre, otherPre)
}

func compareDotted(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		n, err := strconv.Atoi(x)
		m, otherErr := strconv.Atoi(y)
		switch {
		case err == nil && otherErr == nil:
			return cmp.Compare(n, m)
		case err == nil: // a number comes before a word
			return -1
		case otherErr == nil:
			return 1
		}
		return strings.Compare(x, y)
	})
}

func TestVersionsAreOrdered(t *testing.T) {
	versions := []string{
		"v0.0.0-20190204203706-41f3e6584952", "v0.0.0-20211209124913-491a49abca63", "v0.9.0",
		"v0.58.1-0.20261009181718-2f1f834330b2", "v0.58.1", "v1.2.0-alpha", "v1.2.0-alpha.1", "v1.2.0-rc.2",
		"v1.2.0-rc.10", "v1.2.0", "v1.10.0", "v17.0.0+incompatible",
	}
	for i, a := range versions {
		for j, b := range versions {
			if got := compare(a, b); got != cmp.Compare(i, j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
	if compare("1.26.0", "1.21.11") <= 0 || compare("1.26.0", "1.23") <= 0 {
		t.Error("releases of Go are not ordered")
	}
}
