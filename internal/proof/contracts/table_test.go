package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// table returns the rows of the document.
func table(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestEachPackageHasOneRowForEachLineOfReleases(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range table(t) {
		for _, name := range r.packages {
			key := r.kind + " " + name + " " + r.below
			if seen[key] {
				t.Errorf("two rows have %s", key)
			}
			seen[key] = true
		}
	}
}

// A library that no row names gets old unseen.
func TestEachRequirementHasARow(t *testing.T) {
	versions := make(map[string]string)
	for _, r := range table(t) {
		for _, name := range r.packages {
			if r.kind == "go" {
				versions[name] = r.version
			}
		}
	}
	untagged := []string{
		"google.golang.org/genproto/googleapis/rpc", "github.com/envoyproxy/go-control-plane/ratelimit",
	}
	requirement := regexp.MustCompile(`(?m)^(?:require )?\s*([\w./-]+\.[\w./-]+) (v\S+)$`)
	for name, text := range files(t, "*go.mod") {
		if slices.Contains(untested, filepath.Dir(name)) {
			continue
		}
		for _, found := range requirement.FindAllStringSubmatch(text, -1) {
			path, asked := found[1], found[2]
			if strings.HasPrefix(path, "github.com/weir-go/weir") || slices.Contains(untagged, path) {
				continue
			}
			if version := versions[path]; version == "" {
				t.Errorf("%s requires %s, which has no row", name, path)
			} else if isNewer(asked, version) {
				t.Errorf("%s requires %s %s, and its row has %s", name, path, asked, version)
			}
		}
	}
}

// Scripts and tests install what the table says they were run with.
func TestWhatIsInstalledIsWhatTheTableHas(t *testing.T) {
	rows := table(t)
	isPin := regexp.MustCompile(`(==|@)v?\d`)
	pins := make(map[string]string) // the lines that have one, by file
	for name, text := range files(t, ".ci/*", "*_test.go") {
		if strings.HasPrefix(name, "internal/proof/contracts/") {
			continue
		}
		for line := range strings.Lines(text) {
			if isPin.MatchString(line) {
				pins[name] += line
			}
		}
	}
	versions := make(map[string][]string) // by package: rows with a bound have older ones
	for _, r := range rows {
		for _, name := range r.packages {
			versions[r.kind+name] = append(versions[r.kind+name], r.version)
		}
	}
	for _, r := range rows {
		installed := false
		for _, name := range r.packages {
			pin := "@v"
			switch r.kind {
			case "npm":
				pin = "@"
			case "pypi":
				pin = "=="
			}
			pattern := regexp.MustCompile(`(?:^|[^\w@/-])` + regexp.QuoteMeta(name) +
				`(?:/cmd(?:/[\w-]+)?)?` + pin + `(\d[\w.+-]*)`)
			for file, text := range pins {
				for _, found := range pattern.FindAllStringSubmatch(text, -1) {
					installed = installed || found[1] == r.version
					if !slices.Contains(versions[r.kind+name], found[1]) {
						t.Errorf("%s installs %s %s, and its row has %s", file, name, found[1], r.version)
					}
				}
			}
		}
		if !installed && r.kind != "go" {
			t.Errorf("no script and no test installs %s %s", r.name, r.version)
		}
	}
}

// The table says which test holds a contract.
func TestTestsThatTheContractsNameExist(t *testing.T) {
	var all strings.Builder
	for _, text := range files(t, "*_test.go") {
		all.WriteString(text)
	}
	tests := all.String()
	for name, text := range files(t, document) {
		for _, found := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(tests, "\nfunc "+found[1]+"(") && found[1] != "TestName" {
				t.Errorf("%s names %s, which no package has", name, found[1])
			}
		}
	}
}

// Directories that the table names as tests are packages or modules.
func TestDirectoriesThatTheTableNamesHaveTests(t *testing.T) {
	testrun.DependsOnSource(t, root)
	directory := regexp.MustCompile("`([a-z./][\\w./-]*)(?: \\w+)?`")
	for _, r := range table(t) {
		for _, found := range directory.FindAllStringSubmatch(r.test, -1) {
			path := filepath.Join(root, found[1])
			info, err := os.Stat(path)
			if err != nil {
				t.Errorf("%s: %v", r.name, err)
				continue
			}
			tests, _ := filepath.Glob(filepath.Join(path, "*_test.go"))
			if info.IsDir() && len(tests) == 0 {
				t.Errorf("%s: %s has no tests", r.name, found[1])
			}
		}
	}
}
