package testrun_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

const root = "../../.."

// starters are the files that may start programs without this package. None is part of a test.
var starters = []string{
	"internal/proof/testrun/testrun.go",
	"benchmarks/*.go",
	"benchmarks/between/*/*.go",
	"benchmarks/checks/*.go",
	"benchmarks/clients/server/main.go",
	"benchmarks/remote/server.go",
	"benchmarks/topology/server.go",
	"cmd/weir/playground/generate/main.go",
	"conform/process.go",
	"conform/products/main.go",
	"gateway/internal/bench/servers.go",
	"internal/proof/contracts/*.go",
	"internal/proof/reading/main.go",
	".ci/*.go",
}

// A test that starts a program by itself fails where the program is missing; Command skips it.
func TestTestsStartProgramsByThisPackageAlone(t *testing.T) {
	started := make(map[string]bool)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git": // in a linked work tree it is a file
			return fs.SkipDir
		case !strings.HasSuffix(file, ".go"):
			return nil
		}
		name := filepath.ToSlash(strings.TrimPrefix(file, filepath.FromSlash(root+"/")))
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found, err := starts(name, text)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(starters, func(pattern string) bool { return matches(pattern, name) }); i >= 0 {
			started[starters[i]] = started[starters[i]] || len(found) > 0
			return nil
		}
		for _, use := range found {
			t.Errorf("%s: start programs by testrun.Command, which skips the test where there is none", use)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range starters {
		if !started[pattern] {
			t.Errorf("%s starts no program: delete its line", pattern)
		}
	}
}

func matches(pattern, name string) bool {
	matched, _ := path.Match(pattern, name)
	return matched && !strings.HasSuffix(name, "_test.go")
}

// starts returns where a file uses what could start a program. Of os/exec that is anything but
// the types *exec.Cmd, *exec.ExitError and *exec.Error.
func starts(name string, text []byte) (found []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string) // of packages, by what the file calls them
	for _, i := range file.Imports {
		imported, _ := strconv.Unquote(i.Path.Value)
		called := path.Base(imported)
		if i.Name != nil {
			called = i.Name.Name
		}
		names[called] = imported
		if called == "." && imported == "os/exec" {
			found = append(found, fmt.Sprintf("%s: import . %q", set.Position(i.Pos()), imported))
		}
	}
	pointers := make(map[ast.Expr]bool) // what pointer types point to
	ast.Inspect(file, func(n ast.Node) bool {
		if star, ok := n.(*ast.StarExpr); ok {
			pointers[star.X] = true
		}
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, ok := selector.X.(*ast.Ident)
		if ok && isStarter(names[of.Name], selector.Sel.Name) && !pointers[selector] {
			found = append(found, fmt.Sprintf("%s: %s.%s", set.Position(n.Pos()), of.Name, selector.Sel.Name))
		}
		return true
	})
	return found, nil
}

func isStarter(imported, name string) bool {
	switch imported {
	case "os/exec":
		return true
	case "os", "syscall", "golang.org/x/sys/unix":
		return name == "StartProcess" || name == "ForkExec" || name == "Exec"
	default:
		return false
	}
}

func TestEveryWayToStartAProgramIsFound(t *testing.T) {
	for _, body := range []string{
		`exec.Command("true").Run()`,
		`exec.CommandContext(nil, "true").Run()`,
		`exec.LookPath("true")`,
		`start := exec.Command; start("true")`,
		`c := exec.Cmd{Path: "/bin/true"}; c.Run()`,
		`c := &exec.Cmd{Path: "/bin/true"}; c.Run()`,
		`c := new(exec.Cmd); c.Path = "/bin/true"; c.Run()`,
		`var c exec.Cmd; c.Path = "/bin/true"; c.Run()`,
		`os.StartProcess("/bin/true", nil, nil)`,
		`syscall.Exec("/bin/true", nil, nil)`,
	} {
		const file = "package p\n\nimport (\n\t%s\"os/exec\"\n\t\"os\"\n\t\"syscall\"\n)\n\nfunc f() { %s }\n"
		for name, text := range map[string]string{
			"as usual":        fmt.Sprintf(file, "", body),
			"by another name": fmt.Sprintf(file, "run ", strings.ReplaceAll(body, "exec.", "run.")),
			"by no name":      fmt.Sprintf(file, ". ", strings.ReplaceAll(body, "exec.", "")),
		} {
			if found, err := starts("p.go", []byte(text)); err != nil || len(found) == 0 {
				t.Errorf("%s, %s: found nothing (%v)", body, name, err)
			}
		}
	}
	const innocent = "package p\n\nimport \"os/exec\"\n\ntype p struct {\n\t*exec.Cmd\n\tc *exec.Cmd\n}\n\n" +
		"func f(c *exec.Cmd) *exec.Cmd {\n\t_, _ = c.Run().(*exec.ExitError)\n\treturn c\n}\n"
	if found, err := starts("p.go", []byte(innocent)); err != nil || len(found) > 0 {
		t.Errorf("%v (%v) in a file that starts nothing", found, err)
	}
}

// recorder is a test that notes how it ends.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Skipf(format string, args ...any)  { r.end("skipped: "+format, args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.end("failed: "+format, args...) }

func (r *recorder) end(format string, args ...any) {
	r.ended = fmt.Sprintf(format, args...)
	panic(r)
}

// outcome returns how a test ends that starts a program: "" if it goes on.
func outcome(name string) string {
	r := new(recorder)
	func() {
		defer func() {
			if p := recover(); p != nil && p != r {
				panic(p)
			}
		}()
		testrun.Command(r, name)
	}()
	return r.ended
}

func TestAMissingProgramSkipsAShortRunAndFailsAFullOne(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for full, want := range map[string]string{"": "skipped: missing-program is not on the PATH",
		"1": "failed: missing-program is not on the PATH"} {
		t.Setenv("WEIR_FULL", full)
		if got := outcome("missing-program"); !strings.HasPrefix(got, want) {
			t.Errorf("WEIR_FULL=%s: %q, want %q", full, got, want)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if got := outcome(self); got != "" {
			t.Errorf("WEIR_FULL=%s: a program that the test has the path of: %q", full, got)
		}
	}
}
