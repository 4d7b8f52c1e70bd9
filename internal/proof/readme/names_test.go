package readme

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

var (
	span     = regexp.MustCompile("`([^`]+)`")
	exported = regexp.MustCompile(
		`(?:^|[^.\w/])(core|headers|keyfuncs|nethttp|plans|policy|shed|stats|tokens|admin|redisbackend|breaker|client|` +
			`chimw|ginmw|echomw|echo5mw|fibermw|grpcmw|connectmw|connect2mw|mcpmw|agents)\.([A-Z]\w*)`)
	fieldName = regexp.MustCompile(`^[A-Z]\w*: `)
	asText    = regexp.MustCompile(`^([a-z-]+ )?[0-9,]+(/| per )[0-9]*[a-z]+( [a-z]+ [0-9]+)?$`)
)

// soon are names that guides tell of before they are there.
var soon = []string{}

// given are declarations that expressions in the text may use.
const given = `package expressions
import (
	"context"
	"net/http"
	"net/netip"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits/backends"
)
func use(...any) {}
func userFrom(context.Context) (string, bool) { return "", false }
func getClientIPAddr(context.Context) netip.Addr { return netip.Addr{} }
func savedPeer(*http.Request) string { return "" }
func isListed(string) bool { return false }
func isPost(*http.Request) bool { return false }
var mux *http.ServeMux
var r *http.Request
var client *redis.Client
var backend backends.Backend
var source = keyfuncs.Peer
var key = keyfuncs.Path
var a, b = keyfuncs.Path, keyfuncs.Host
`

// TestNamesExist checks every name of a package of ours in the text, compiles every
// expression that is a call or a literal, and parses every limit.
func TestNamesExist(t *testing.T) {
	declared := make(map[string]bool)
	for name, path := range imports {
		if dir, ours := strings.CutPrefix(path, module+"/"); ours {
			declare(t, declared, name, filepath.Join(root, dir))
		}
	}
	for _, name := range soon {
		if _, err := limits.Parse(name); declared[name] || err == nil {
			t.Errorf("%s is there by now: delete it from the list", name)
		}
	}
	s, own, names, expressions, limitNames := newSnippets(), ofOwnModules(), 0, 0, 0
	for _, path := range guides(t) {
		_, prose := split(t, path)
		for i, line := range prose {
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				text := fieldName.ReplaceAllString(m[1], "")
				ready := true
				for _, name := range exported.FindAllStringSubmatch(text, -1) {
					names++
					full := name[1] + "." + name[2]
					if slices.Contains(soon, full) {
						ready = false
					} else if !declared[full] {
						t.Errorf("%s:%d: there is no %s", path, i+1, full)
						ready = false
					}
				}
				if asText.MatchString(text) && !slices.Contains(soon, text) {
					limitNames++
					if _, err := limits.Parse(text); err != nil {
						t.Errorf("%s:%d: %v", path, i+1, err)
					}
				}
				expr, err := parser.ParseExpr(text)
				if err != nil || !ready || !exported.MatchString(text) || path == "docs/DESIGN.md" { // which has signatures
					continue
				}
				switch e := expr.(type) {
				case *ast.CallExpr:
					if !exported.MatchString(text[:e.Lparen-1]) {
						continue
					}
				case *ast.CompositeLit:
				default:
					continue
				}
				expressions++
				code := fmt.Sprintf("func _(c %s) { use(%s) }\n", contextType(text), text)
				file, _ := source(code, path, i+1)
				file = strings.Replace(file, "package snippet", "package expressions", 1)
				if module := ownModule(text); module != "" {
					own[module].add(t, "expressions", file)
				} else {
					s.add(t, "expressions", file)
				}
			}
		}
	}
	if names < 200 || expressions < 80 || limitNames < 8 {
		t.Errorf("found %d names, %d expressions, %d limits", names, expressions, limitNames)
	}
	s.add(t, "expressions", given)
	s.check(t)
	if testrun.Full() {
		for _, s := range own {
			s.add(t, "expressions",
				"package expressions\n\nimport \"context\"\n\nfunc use(...any) {}\n\nvar ctx context.Context\n")
			s.check(t)
		}
	}
}

// contextType returns the type of c in an expression.
func contextType(text string) string {
	switch pkg, _, _ := strings.Cut(text, "."); pkg {
	case "ginmw":
		return "*gin.Context"
	case "echomw":
		return "echo.Context"
	case "echo5mw":
		return "*echo.Context"
	case "fibermw":
		return "fiber.Ctx"
	case "grpcmw":
		return "*grpcmw.Call"
	case "connectmw":
		return "*connectmw.Call"
	case "connect2mw":
		return "*connect2mw.Call"
	case "mcpmw":
		return "*mcpmw.Call"
	}
	return "any"
}

// declare enters what the package in dir exports on its top level.
func declare(t *testing.T, declared map[string]bool, name, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					declared[name+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						declared[name+"."+s.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							declared[name+"."+n.Name] = true
						}
					}
				}
			}
		}
	}
}
