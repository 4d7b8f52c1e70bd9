package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

const promises = "docs/RELIABILITY.md"

var (
	testCommand = regexp.MustCompile(`^(?:WEIR_FULL=1 )?go test(?: -run (\w+))?((?: \./[\w/]+)+)$`)
	firstWord   = regexp.MustCompile(`\w+`)
	jobCommand  = regexp.MustCompile(`^\.ci/full (\w+)$`)
)

// TestEachPromiseIsShownByTestsThatExist reads the commands of the table with which promises
// begins. A command that names no test, or several, would show nothing, or something else.
func TestEachPromiseIsShownByTestsThatExist(t *testing.T) {
	testrun.DependsOnSource(t, root)
	ways := []string{"argument", "model", "traces", "interleavings", "suite", "world", "real", "table", "test"}
	rows, promised := firstTable(t, promises), 0
	for _, row := range rows {
		if len(row) != 3 {
			t.Errorf("%q: want a promise, how it is shown, and a command", row)
			continue
		}
		if row[0] != "" {
			promised++
		}
		if way := firstWord.FindString(row[1]); !slices.Contains(ways, way) {
			t.Errorf("%q: want one of %q first", row[1], ways)
		}
		command := strings.Trim(row[2], "`")
		if match := testCommand.FindStringSubmatch(command); match != nil {
			for _, pkg := range strings.Fields(match[2]) {
				wantOneTest(t, command, match[1], pkg)
			}
		} else if match := jobCommand.FindStringSubmatch(command); match == nil {
			t.Errorf("%q: write go test -run TestName ./package, or .ci/full job", command)
		} else if !slices.Contains(fullJobs(t), match[1]) {
			t.Errorf("%q: there is no such job", command)
		}
	}
	if promised < 8 || len(rows) < 20 {
		t.Errorf("found %d promises in %d rows", promised, len(rows))
	}
}

// firstTable returns the rows of the first table of a document, without its head.
func firstTable(t *testing.T, path string) (rows [][]string) {
	t.Helper()
	_, prose := split(t, path)
	for _, line := range prose {
		cells, isRow := strings.CutPrefix(line, "|")
		if !isRow && rows != nil {
			break
		}
		if isRow {
			var row []string
			for cell := range strings.SplitSeq(strings.TrimSuffix(cells, "|"), "|") {
				row = append(row, strings.TrimSpace(cell))
			}
			rows = append(rows, row)
		}
	}
	if len(rows) < 2 {
		t.Fatalf("%s has no table", path)
	}
	return rows[2:]
}

// wantOneTest reports an error unless a package has tests, and one of exactly the name that is
// given, which -run finds alone.
func wantOneTest(t *testing.T, command, name, pkg string) {
	t.Helper()
	tests := testsOf(t, pkg)
	found := slices.DeleteFunc(slices.Clone(tests), func(test string) bool {
		return !strings.Contains(test, name)
	})
	switch {
	case len(tests) == 0:
		t.Errorf("%q: %s has no tests", command, pkg)
	case name != "" && !slices.Equal(found, []string{name}):
		t.Errorf("%q: in %s it runs %q, want %s alone", command, pkg, found, name)
	}
}

// testsOf returns what go test -list does, without compiling.
func testsOf(t *testing.T, pkg string) (names []string) {
	t.Helper()
	list := testrun.Command(t, "go", "list", "-f",
		`{{range .TestGoFiles}}{{println .}}{{end}}{{range .XTestGoFiles}}{{println .}}{{end}}`, pkg)
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		t.Errorf("go list %s: %v", pkg, err)
	}
	for _, name := range strings.Fields(string(files)) {
		path := filepath.Join(root, pkg, name)
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// fullJobs returns the jobs of .ci/full.
func fullJobs(t *testing.T) []string {
	t.Helper()
	for _, line := range lines(t, ".ci/full") {
		if jobs, ok := strings.CutPrefix(line, `jobs="`); ok {
			return strings.Fields(strings.TrimSuffix(jobs, `"`))
		}
	}
	t.Fatal(".ci/full has no jobs")
	return nil
}
