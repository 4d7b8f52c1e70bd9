// Package imports tests which package may import which.
package imports

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

const module = "github.com/weir-go/weir"

// mayImport lists, for each package of the library, the other packages of this module
// that it may import. It may import what those may. Add a new package here first.
var mayImport = map[string][]string{
	"": {},
	"limits": {"internal/ground/algorithm", "internal/ground/arith", "internal/ground/bounds",
		"internal/ground/calendar"},
	"limits/backends":   {"internal/ground/isnil", "limits"},
	"limits/limitstest": {"internal/ground/steps", "internal/proof/testrun", "limits/backends"},
	"memory":            {"internal/ground/call", "internal/ground/family", "internal/ground/keyhash"},
	"remote":            {"internal/ground/endings", "internal/ground/keyhash"},
	"core": {"internal/ground/endings", "internal/ground/failure", "internal/ground/list",
		"internal/ground/turns", "memory"},
	"redisbackend": {"redisbackend/internal/line", "redisbackend/internal/wire", "remote"},
	"headers":      {"core"},
	"keyfuncs":     {"core", "internal/ground/address", "internal/ground/token", "internal/ground/unseen"},
	"nethttp":      {"internal/http/gate"},
	"shed": {"headers", "internal/http/answer", "internal/http/shedgate",
		"internal/ground/shedlimit", "shed/internal/adaptive", "stats"},
	"shed/internal/adaptive": {"internal/ground/shedlimit"},
	"tokens":                 {"nethttp"},
	"plans":                  {"internal/ground/failure"},
	"policy": {"headers", "internal/files/document", "internal/files/follow", "keyfuncs",
		"shed"},
	"stats":  {"core"},
	"admin":  {"internal/ground/token", "internal/http/hostname", "internal/http/operator", "stats"},
	"client": {"client/internal/quota", "core", "internal/http/pacing"},
	"chimw":  {"keyfuncs", "nethttp", "shed"},
	"ginmw":  {"internal/http/shedgate", "keyfuncs", "nethttp", "shed"},
	"echomw": {"internal/http/shedgate", "keyfuncs", "nethttp", "shed"},

	"client/internal/quota": {"internal/http/structured"},

	"internal/files/document": {},
	"internal/files/follow":   {},

	"internal/http/operator":     {"limits"},
	"internal/http/gate":         {"headers", "internal/http/answer", "internal/http/watch", "keyfuncs"},
	"internal/ground/call":       {"limits/backends"},
	"internal/ground/family":     {"limits"},
	"internal/ground/endings":    {"internal/ground/call", "internal/ground/perbackend"},
	"internal/ground/failure":    {"limits"},
	"internal/ground/perbackend": {"limits/backends"},
	"internal/ground/steps":      {"limits"},
	"internal/ground/turns":      {"internal/ground/keyhash", "limits"},
	"redisbackend/internal/line": {"internal/ground/list", "internal/ground/slot"},
	"redisbackend/internal/wire": {"internal/ground/family", "limits/backends"},
	"internal/http/shedgate":     {"internal/http/watch"},
}

// mayReach returns what a package may import, directly or not.
func mayReach(path string) (all []string) {
	for _, p := range mayImport[path] {
		all = append(append(all, p), mayReach(p)...)
	}
	return all
}

// standardLibraryOnly lists the packages that depend on the standard library alone.
var standardLibraryOnly = []string{"", "admin", "client", "client/internal/quota", "core", "headers",
	"internal/http/structured", "keyfuncs", "limits", "limits/backends", "limits/limitstest", "memory",
	"nethttp", "redisbackend/internal/wire", "shed", "stats", "tokens"}

// forTests says what no package of the library imports, and why go.mod requires it all the same: it is
// in the list of modules of every program that requires weir.
var forTests = map[string]string{
	"github.com/alicebob/miniredis/v2": "the examples of redisbackend run, and its bubbles have a server",
	"github.com/dunglas/httpsfv":       "tests of client and headers parse by it what is read and written",
	"github.com/google/go-cmp":         "tests in all packages print differences",
}

// mayImportOf lists, for the other packages, the modules of others that they may
// import, by path.
var mayImportOf = map[string][]string{
	"chimw":  {"github.com/go-chi/chi/v5"},
	"ginmw":  {"github.com/gin-gonic/gin"},
	"echomw": {"github.com/labstack/echo/v4"},
	"plans":  {"github.com/hashicorp/golang-lru/v2"},
	"policy": {"go.yaml.in/yaml/v4"},

	"internal/files/document": {"go.yaml.in/yaml/v4"},
}

type pkg struct {
	ImportPath string
	Standard   bool
	Deps       []string
	Imports    []string
}

// list runs go list on the packages of the module and all they depend on.
func list(t *testing.T) map[string]pkg {
	t.Helper()
	testrun.DependsOnSource(t, "../../..")
	out, err := testrun.Command(t, "go", "list", "-deps", "-json=ImportPath,Standard,Deps,Imports", module+"/...").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("go list: %s", exit.Stderr)
	} else if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := make(map[string]pkg)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// inModule returns the path of p relative to the module, and whether p belongs to the
// module.
func inModule(p string) (string, bool) {
	if p == module {
		return "", true
	}
	return strings.CutPrefix(p, module+"/")
}

func isPartOfTheLibrary(path string) bool {
	return !strings.HasPrefix(path+"/", "examples/") && !strings.HasPrefix(path, "internal/")
}

// Keys may be addresses or secrets. A package that never writes a log line or a metric
// cannot put a key there. internal/http/gate alone logs, for all adapters, why a rule could not decide.
func TestTheEngineWritesNoLogAndNoMetric(t *testing.T) {
	packages := list(t)
	for _, path := range []string{"limits", "limits/backends", "memory", "core", "headers", "keyfuncs", "shed"} {
		for _, imported := range packages[module+"/"+path].Imports {
			switch imported {
			case "log", "log/slog", "log/syslog", "expvar", "os":
				t.Errorf("%s imports %s", path, imported)
			}
		}
	}
}

func TestImportsFollowTheDesign(t *testing.T) {
	packages := list(t)
	seen := 0
	for _, p := range packages {
		from, ok := inModule(p.ImportPath)
		if !ok || !isPartOfTheLibrary(from) {
			continue
		}
		seen++
		allowed := mayReach(from)
		if _, listed := mayImport[from]; !listed {
			t.Errorf("%s is not listed: say in mayImport what it may import", p.ImportPath)
		}
		for _, dep := range p.Deps {
			to, ours := inModule(dep)
			switch {
			case ours && !slices.Contains(allowed, to):
				t.Errorf("%s imports %s, directly or not: it may import %v", p.ImportPath, dep, mayImport[from])
			case !ours && !packages[dep].Standard && slices.Contains(standardLibraryOnly, from):
				t.Errorf("%s imports %s, directly or not: it may import the standard library only", p.ImportPath, dep)
			}
		}
	}
	for path := range mayImport {
		if isPartOfTheLibrary(path) {
			seen--
		}
	}
	if seen != 0 {
		t.Errorf("%d packages more are seen than are listed", seen)
	}
}

func TestAPackageImportsItsOwnModulesAlone(t *testing.T) {
	packages := list(t)
	of := func(path, from string) bool {
		return slices.ContainsFunc(mayImportOf[from],
			func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
	}
	for from, modules := range mayImportOf {
		p := packages[module+"/"+from]
		for _, imported := range p.Imports {
			if _, ours := inModule(imported); !ours && !packages[imported].Standard && !of(imported, from) {
				t.Errorf("%s imports %s: it may import %v", from, imported, modules)
			}
		}
		for other := range mayImportOf {
			for _, dep := range p.Deps {
				if other != from && of(dep, other) && !of(dep, from) {
					t.Errorf("%s imports %s, directly or not, which is for %s", from, dep, other)
				}
			}
		}
		if len(p.Imports) == 0 {
			t.Errorf("there is no package %s, or it imports nothing", from)
		}
	}
}

func TestGoModRequiresWhatTheLibraryImports(t *testing.T) {
	packages := list(t)
	importedBy := func(required string) (all []string) {
		for _, p := range packages {
			from, ours := inModule(p.ImportPath)
			theirs := isPartOfTheLibrary(from) || strings.HasPrefix(from, "internal/files/")
			if ours && theirs && slices.ContainsFunc(p.Imports, func(imported string) bool {
				return imported == required || strings.HasPrefix(imported, required+"/")
			}) {
				all = append(all, from)
			}
		}
		return all
	}
	for _, r := range gomod(t, "../../../go.mod").Require {
		by, why := importedBy(r.Path), forTests[r.Path]
		switch {
		case r.Indirect:
		case len(by) == 0 && why == "":
			t.Errorf("go.mod requires %s, which only tests and examples import: move them to a module of their own, or say "+
				"why in forTests", r.Path)
		case len(by) > 0 && why != "":
			t.Errorf("%s is imported by %v: delete it from forTests", r.Path, by)
		}
	}
}
