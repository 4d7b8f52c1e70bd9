package readme

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
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
	"sha256":       "crypto/sha256",
	"slog":         "log/slog",
	"sql":          "database/sql",
	"strconv":      "strconv",
	"strings":      "strings",
	"subtle":       "crypto/subtle",
	"time":         "time",
	"core":         module + "/core",
	"limits":       module + "/limits",
	"backends":     module + "/limits/backends",
	"headers":      module + "/headers",
	"keyfuncs":     module + "/keyfuncs",
	"agents":       module + "/keyfuncs/agents",
	"plans":        module + "/plans",
	"policy":       module + "/policy",
	"shed":         module + "/shed",
	"stats":        module + "/stats",
	"admin":        module + "/admin",
	"nethttp":      module + "/nethttp",
	"tokens":       module + "/tokens",
	"redisbackend": module + "/redisbackend",
	"client":       module + "/client",
	"chimw":        module + "/chimw",
	"ginmw":        module + "/ginmw",
	"echomw":       module + "/echomw",
	"echo5mw":      module + "/echo5mw",
	"fibermw":      module + "/fibermw",
	"grpcmw":       module + "/grpcmw",
	"connectmw":    module + "/connectmw",
	"connect2mw":   module + "/connect2mw",
	"mcpmw":        module + "/mcpmw",
	"mcp":          "github.com/modelcontextprotocol/go-sdk/mcp",
	"auth":         "github.com/modelcontextprotocol/go-sdk/auth",
	"jsonrpc":      "github.com/modelcontextprotocol/go-sdk/jsonrpc",
	"grpc":         "google.golang.org/grpc",
	"codes":        "google.golang.org/grpc/codes",
	"status":       "google.golang.org/grpc/status",
	"keepalive":    "google.golang.org/grpc/keepalive",
	"connect":      "connectrpc.com/connect",
	"connecthttp":  "connectrpc.com/connect/v2/connecthttp",
	"memory":       module + "/memory",
	"remote":       module + "/remote",
	"redis":        "github.com/redis/go-redis/v9",
	"chi":          "github.com/go-chi/chi/v5",
	"gin":          "github.com/gin-gonic/gin",
	"echo":         "github.com/labstack/echo/v4",
	"fiber":        "github.com/gofiber/fiber/v3",
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
	for _, m := range dotted.FindAllStringSubmatch(
		literal.ReplaceAllString(comment.ReplaceAllString(code, ""), `""`), -1) {
		path, known := imports[m[1]]
		// a variable elsewhere
		if m[1] == "client" && !strings.HasSuffix(from, "outgoing.md") &&
			!strings.Contains(code, "mw.MustClient(client.Options") {
			known = false
		}
		if m[1] == "status" && ownModule(code) != "grpcmw" { // a variable, too
			known = false
		}
		if known && m[1] == "connect" && ownModule(code) == "connect2mw" {
			path = "connectrpc.com/connect/v2"
		}
		if known && m[1] == "echo" && ownModule(code) == "echo5mw" {
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

// snippets are packages made of blocks and expressions, by name.
type snippets struct {
	module   string // the directory of the module that compiles them
	set      *token.FileSet
	packages map[string][]*ast.File
	sources  map[string][]string // of the files of each package
	tests    []string            // packages with tests, which have to run
}

func newSnippets() *snippets { return snippetsOf(".") }

// ownModules are packages that are modules of their own.
var ownModules = []string{"agents", "connect2mw", "connectmw", "echo5mw", "fibermw", "grpcmw", "mcpmw"}

// ofOwnModules returns snippets of each of them, by name.
func ofOwnModules() map[string]*snippets {
	own := make(map[string]*snippets)
	for _, module := range ownModules {
		own[module] = snippetsOf(filepath.Join(root, module))
	}
	own["agents"] = snippetsOf(filepath.Join(root, "cmd/weir")) // which requires it, and what policy requires
	return own
}

// ownModule returns which of them code imports; "" if it imports none.
func ownModule(code string) string {
	for _, module := range ownModules {
		if strings.Contains(code, module+".") {
			return module
		}
	}
	return ""
}

func snippetsOf(module string) *snippets {
	return &snippets{module, token.NewFileSet(), make(map[string][]*ast.File), make(map[string][]string), nil}
}

// add adds a file to a package.
func (s *snippets) add(t *testing.T, pkg, code string) {
	t.Helper()
	file, err := parser.ParseFile(s.set, "", code, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	for _, i := range file.Imports {
		if strings.Contains(i.Path.Value, "/internal/") {
			t.Errorf("%s: no program of a reader can import %s", s.set.Position(i.Pos()), i.Path.Value)
		}
	}
	s.packages[pkg] = append(s.packages[pkg], file)
	s.sources[pkg] = append(s.sources[pkg], code)
	if strings.Contains(code, `"testing"`) && !slices.Contains(s.tests, pkg) {
		s.tests = append(s.tests, pkg)
	}
}

// check reports what the compiler would, and runs the tests.
func (s *snippets) check(t *testing.T) {
	t.Helper()
	testrun.DependsOnSource(t, root)
	config := types.Config{Importer: s.importer(t), Error: func(err error) { t.Error(err) }}
	for _, name := range slices.Sorted(maps.Keys(s.packages)) {
		config.Check(name, s.set, s.packages[name], nil) // which reports by Error
	}
	if !t.Failed() && len(s.tests) > 0 {
		s.runTests(t)
	}
}

// importer reads what the compiler has written about the packages that snippets import.
func (s *snippets) importer(t *testing.T) types.Importer {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, files := range s.packages {
		for _, file := range files {
			for _, i := range file.Imports {
				if path, err := strconv.Unquote(i.Path.Value); err == nil && !slices.Contains(args, path) {
					args = append(args, path)
				}
			}
		}
	}
	list := testrun.Command(t, "go", args...)
	list.Dir = s.module
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	written := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		written[path] = file
	}
	return importer.ForCompiler(s.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(written[path]) })
}

// runTests runs the packages with tests, which exist for the compiler alone.
func (s *snippets) runTests(t *testing.T) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	scratch, replace := t.TempDir(), make(map[string]string)
	bin, overlay := filepath.Join(scratch, "bin"), filepath.Join(scratch, "overlay.json")
	args := []string{"test", "-overlay", overlay, "-vet=off", "-c", "-o", bin + "/"}
	for _, pkg := range s.tests {
		args = append(args, "./"+pkg)
		for i, code := range s.sources[pkg] {
			name := fmt.Sprintf("s%02d_test.go", i)
			file := filepath.Join(scratch, pkg+"_"+name)
			if err := os.WriteFile(file, []byte(code), 0o666); err != nil {
				t.Fatal(err)
			}
			replace[filepath.Join(here, pkg, name)] = file
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := testrun.Command(t, "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	for _, pkg := range s.tests {
		if out, err := testrun.Command(t, filepath.Join(bin, pkg+".test")).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", pkg, err, out)
		}
	}
}

// TestCodeCompiles compiles every block of Go as a package of its own. Those of a
// guide that follow each other with one package clause are one package, unless both are
// whole programs. Tests run.
func TestCodeCompiles(t *testing.T) {
	s, own := newSnippets(), ofOwnModules()
	for _, path := range guides(t) {
		blocks, _ := split(t, path)
		pkg, last, program := "", "", false
		for i, b := range blocks {
			if b.info != "go" || isExcerpt(b) {
				continue
			}
			if formatted, err := format.Source([]byte(b.text)); err == nil && string(formatted) != b.text {
				t.Errorf("%s:%d: gofmt changes the block", path, b.line)
			}
			file, name := source(b.text, path, b.line)
			isProgram := strings.Contains(b.text, "func main()")
			if name == "snippet" || name != last || program && isProgram {
				program = false
				pkg = fmt.Sprintf("snippet_%s_%02d", strings.TrimSuffix(filepath.Base(path), ".md"), i)
			}
			last, program = name, program || isProgram
			if module := ownModule(b.text); module != "" {
				own[module].add(t, pkg, file)
			} else {
				s.add(t, pkg, file)
			}
		}
	}
	if len(s.packages) < 30 || len(s.tests) == 0 {
		t.Fatalf("found %d packages of snippets, %d of them with tests", len(s.packages), len(s.tests))
	}
	s.check(t)
	for _, s := range own {
		if len(s.packages) > 0 && testrun.Full() {
			s.check(t)
		}
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
