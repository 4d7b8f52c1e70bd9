package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

const root = "../../.."

// row matches a row of a table: a file and functions.
var row = regexp.MustCompile("(?m)^\\| \\[([^]]*)\\]\\([^)]*\\) \\| (`[^|]*`) \\|")

// order returns the files and functions of a table, in order.
func order(table string) string {
	var b strings.Builder
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		b.WriteString(m[1] + " " + m[2] + "\n")
	}
	return b.String()
}

// The sentences may differ: comments change more often than the order of calls.
//
// Only a request in memory takes the same way each time. On a busy machine a request to Redis waits
// for a goroutine that sends for several. So its part of the document may have any order, but no
// function that is gone.
func TestTheDocumentFollowsARequest(t *testing.T) {
	testrun.DependsOnSource(t, root)
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) *exec.Cmd { return testrun.Command(t, name, args...) }
	at, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	of, err := build(run, at, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	table, err := of.table(run)
	if err != nil {
		t.Fatal(err)
	}
	want, got := order(table), order(string(between("memory").Find(text)))
	if strings.Count(want, "\n") < 20 {
		t.Errorf("a request calls functions of %d files", strings.Count(want, "\n"))
	}
	if got != want {
		t.Errorf("%s: the order of calls has changed: run go run ./internal/proof/reading\n%s",
			document, first(got, want))
	}
	known := make(map[string]bool)
	for _, f := range of.functions {
		known[f.file+" "+f.name] = true
	}
	rows := strings.Split(strings.TrimSpace(order(string(between("Redis").Find(text)))), "\n")
	if len(rows) < 20 {
		t.Errorf("%s follows a request to Redis through %d files", document, len(rows))
	}
	for _, row := range rows {
		file, functions, _ := strings.Cut(row, " ")
		for name := range strings.SplitSeq(functions, ", ") {
			if name = strings.Trim(name, "`"); !known[file+" "+name] {
				t.Errorf("%s: there is no %s in %s: run go run ./internal/proof/reading", document, name, file)
			}
		}
	}
}

// first returns the first lines that differ.
func first(got, want string) string {
	has, calls := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(has), len(calls)) {
		if has[i] != calls[i] {
			return "it says   " + has[i] + "\na request " + calls[i]
		}
	}
	return "one is longer than the other"
}

func TestASentenceIsTheFirstOfAComment(t *testing.T) {
	s := stop{file: "a.go", functions: []string{"T.f", "g"}, says: "f calls [T.g] | h for charges[i]."}
	const want = "| [a.go](../a.go) | `T.f`, `g` | f calls T.g \\| h for charges[i]. |"
	if got := s.row(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFunctionsOfOneFileThatFollowAreOneRow(t *testing.T) {
	got := stops([]function{{"a.go", "f", ""}, {"a.go", "g", "says"}, {"b.go", "h", ""}, {"a.go", "f", ""}})
	if len(got) != 3 || len(got[0].functions) != 2 || got[0].says != "says" || got[2].file != "a.go" {
		t.Errorf("%+v", got)
	}
}
