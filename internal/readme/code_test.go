package readme

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// imports are the packages that code without an import declaration uses by their
// names.
var imports = map[string]string{
	"atomic":       "sync/atomic",
	"bytes":        "bytes",
	"context":      "context",
	"errors":       "errors",
	"expvar":       "expvar",
	"flag":         "flag",
	"fmt":          "fmt",
	"http":         "net/http",
	"io":           "io",
	"json":         "encoding/json",
	"log":          "log",
	"net":          "net",
	"netip":        "net/netip",
	"os":           "os",
	"slog":         "log/slog",
	"strconv":      "strconv",
	"strings":      "strings",
	"time":         "time",
	"core":         module + "/core",
	"headers":      module + "/headers",
	"keyfuncs":     module + "/keyfuncs",
	"policy":       module + "/policy",
	"shed":         module + "/shed",
	"stats":        module + "/stats",
	"admin":        module + "/admin",
	"nethttp":      module + "/nethttp",
	"redisbackend": module + "/redisbackend",
	"breaker":      module + "/breaker",
	"client":       module + "/client",
	"chimw":        module + "/chimw",
	"ginmw":        module + "/ginmw",
	"echomw":       module + "/echomw",
	"echo5mw":      module + "/echo5mw",
	"redis":        "github.com/redis/go-redis/v9",
	"chi":          "github.com/go-chi/chi/v5",
	"gin":          "github.com/gin-gonic/gin",
	"echo":         "github.com/labstack/echo/v4",
}

var (
	clause  = regexp.MustCompile(`(?m)^package (\w+)$`)
	comment = regexp.MustCompile(`(?m)//.*$`)
	literal = regexp.MustCompile("\"[^\"\n]*\"|`[^`]*`")
	dotted  = regexp.MustCompile(`(?:^|[^.\w])([a-z]\w*)\.`)
)

// source makes a file of code, and names its package. What the compiler says about
// the file names line of the file at path.
func source(code, from string, line int) (file, name string) {
	position := fmt.Sprintf("//line %s:%d\n", from, line)
	if m := clause.FindStringSubmatch(code); m != nil {
		return position + code, m[1]
	}
	var paths []string
	for _, m := range dotted.FindAllStringSubmatch(literal.ReplaceAllString(comment.ReplaceAllString(code, ""), `""`), -1) {
		path, known := imports[m[1]]
		if m[1] == "client" && !strings.HasSuffix(from, "client.md") { // a variable elsewhere
			known = false
		}
		if known && m[1] == "echo" && strings.Contains(code, "echo5mw.") {
			path = "github.com/labstack/echo/v5"
		}
		if known && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	var b strings.Builder
	fmt.Fprintln(&b, "package snippet")
	for _, path := range paths {
		fmt.Fprintf(&b, "import %q\n", path)
	}
	return b.String() + position + code, "snippet"
}

// overlay collects files that exist for the compiler alone.
type overlay struct {
	here, scratch string
	replace       map[string]string
	packages      []string
	ran           int // how many packages had tests
}

func newOverlay(t *testing.T) *overlay {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return &overlay{here: here, scratch: t.TempDir(), replace: make(map[string]string)}
}

// add adds a file to a package.
func (o *overlay) add(t *testing.T, pkg, name, file string) {
	t.Helper()
	real := filepath.Join(o.scratch, pkg+"_"+name)
	if err := os.WriteFile(real, []byte(file), 0o666); err != nil {
		t.Fatal(err)
	}
	o.replace[filepath.Join(o.here, pkg, name)] = real
	if path := "./" + pkg; !slices.Contains(o.packages, path) {
		o.packages = append(o.packages, path)
	}
}

// compile compiles all packages, and runs their tests.
func (o *overlay) compile(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(o.scratch, "overlay.json")
	if err := os.WriteFile(list, text, 0o666); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(o.scratch, "bin")
	for _, command := range [][]string{
		{"build", "-overlay", list},
		{"test", "-overlay", list, "-vet=off", "-c", "-o", bin + "/"},
	} {
		if out, err := exec.Command("go", append(command, o.packages...)...).CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", command[0], err, out)
		}
	}
	tests, err := filepath.Glob(filepath.Join(bin, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		o.ran++
		if out, err := exec.Command(test).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(test), err, out)
		}
	}
}

// TestCodeCompiles compiles every block of Go as a package of its own. Those of a
// guide that follow each other with one package clause are one package, unless both are
// whole programs. Tests run.
func TestCodeCompiles(t *testing.T) {
	o := newOverlay(t)
	for _, path := range guides(t) {
		blocks, _ := split(t, path)
		pkg, last, program := "", "", false
		for i, b := range blocks {
			if b.info != "go" || isExcerpt(b) {
				continue
			}
			file, name := source(b.text, path, b.line)
			isProgram := strings.Contains(b.text, "func main()")
			if name == "snippet" || name != last || program && isProgram {
				program = false
				pkg = fmt.Sprintf("snippet_%s_%02d", strings.TrimSuffix(filepath.Base(path), ".md"), i)
			}
			last, program = name, program || isProgram
			base := fmt.Sprintf("s%02d.go", i)
			if strings.Contains(file, `"testing"`) {
				base = fmt.Sprintf("s%02d_test.go", i)
			}
			o.add(t, pkg, base, file)
		}
	}
	if len(o.packages) < 30 {
		t.Fatalf("found %d packages of snippets", len(o.packages))
	}
	if o.compile(t); o.ran == 0 {
		t.Error("docs/testing.md has no test that ran")
	}
}

func TestJSONIsValid(t *testing.T) {
	for _, path := range guides(t) {
		blocks, _ := split(t, path)
		for _, b := range blocks {
			if b.info == "json" && !json.Valid([]byte(b.text)) {
				t.Errorf("%s:%d: not JSON", path, b.line)
			}
		}
	}
}
