package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// repository makes a module that requires v1.0.0 of example.com/it and passes its test with one
// version, and returns it as a workspace. The test runs in its directory.
func repository(t *testing.T, passesWith string, rows ...row) workspace {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod": "module example.com/ours\n\ngo 1.26.0\n\nrequire example.com/it v1.0.0\n",
		"go.sum": "",
		"ours_test.go": "package ours\n\nimport (\n\t\"testing\"\n\n\t\"example.com/it\"\n)\n\n" +
			"func TestIt(t *testing.T) {\n\tif it.Version != \"" + passesWith + "\" {\n" +
			"\t\tt.Fatal(it.Version)\n\t}\n}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return workspace{rows: rows, command: func(name string, args ...string) *exec.Cmd {
		return testrun.Command(t, name, args...)
	}}
}

func TestAModuleIsRunWithTheVersionsOfTheTable(t *testing.T) {
	opened(t, shelf{modules: map[string][]string{"example.com/it": {"v1.1.0", "v1.0.0"}}})
	w := repository(t, "v1.1.0", made(t, "go example.com/it", "1.1.0", "there"),
		made(t, "go example.com/other", "2.0.0", "there"))
	before, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	raised, err := w.run(".", "", [][]string{{"go", "vet", "./..."}, {"go", "test", "."}})
	if err != nil || len(raised) != 1 || raised["example.com/it"] != "v1.1.0" {
		t.Errorf("got %v, %v, want v1.1.0 of example.com/it", raised, err)
	}
	if after, err := os.ReadFile("go.mod"); err != nil || string(after) != string(before) {
		t.Errorf("go.mod was changed: %s, %v", after, err)
	}
}

func TestATestThatFailsWithTheTableIsAnError(t *testing.T) {
	opened(t, shelf{modules: map[string][]string{"example.com/it": {"v1.1.0", "v1.0.0"}}})
	w := repository(t, "v1.0.0", made(t, "go example.com/it", "1.1.0", "there"))
	if err := w.with(".", []string{"go", "test", "."}); err == nil ||
		!strings.Contains(err.Error(), "go test .") {
		t.Errorf("got error %v, want one that names the command", err)
	}
}

func TestAVersionThatRaisesGoIsAnError(t *testing.T) {
	opened(t, shelf{modules: map[string][]string{"example.com/it": {"v1.1.0 1.26.1", "v1.0.0"}}})
	w := repository(t, "v1.1.0", made(t, "go example.com/it", "1.1.0", "there"))
	if err := w.with(".", []string{"go", "version"}); err == nil ||
		!strings.Contains(err.Error(), "1.26.1") {
		t.Errorf("got error %v, want one that names the Go version", err)
	}
}

func TestARowThatIsOlderThanGoModRaisesNothing(t *testing.T) {
	w := workspace{rows: []row{made(t, "go example.com/it", "1.1.0", "there")}}
	var m goMod
	m.Require = append(m.Require, struct {
		Path, Version string
		Indirect      bool
	}{Path: "example.com/it", Version: "v1.2.0"})
	if got := w.newer(m); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestTheNewestGoOfTheTableRunsTheTests(t *testing.T) {
	w := workspace{rows: []row{made(t, "go go <1.27", "1.26.9", "there"),
		made(t, "go go", "1.27.1", "there")}}
	if got, err := w.goRelease(); got != "1.27.1" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := (workspace{}).goRelease(); err == nil {
		t.Errorf("without a row: got %q", got)
	}
}

const root = "../../.."

// files returns the files of the repository whose names match a pattern of git.
func files(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	cmd := testrun.Command(t, "git", append([]string{"ls-files", "--"}, patterns...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}
