package keyfuncs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// saysCost finds what another key costs a client, or the function that says it.
var saysCost = regexp.MustCompile(`(?i)another (key|address)\b|costs? a client|\bis \[\w+\]`)

// TestAKeyFunctionIsEnteredEverywhere fails when a step of "A key function" in
// CONTRIBUTING.md has been left out.
func TestAKeyFunctionIsEnteredEverywhere(t *testing.T) {
	text := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	examples, tests := "", ""
	paths, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		examples += text(path)
		if path != "example_test.go" && path != "alloc_test.go" && path != "bench_test.go" {
			tests += text(path)
		}
	}
	allocations, guide := text("alloc_test.go"), text("../docs/keys.md")
	functions := keyFunctions(t)
	_, anyType, _ := strings.Cut(text("doc.go"), "# Other types of request")
	for name, f := range functions {
		if !regexp.MustCompile(`func Example` + name + `(_\w+)?\(`).MatchString(examples) {
			t.Errorf("%s has no example: add one to example_test.go", name)
		}
		if must, ok := strings.CutPrefix(name, "Must"); ok && functions[must] != nil {
			continue // the rest is about the function that it calls
		}
		if !saysCost.MatchString(f.Doc.Text()) {
			t.Errorf("the doc comment of %s does not say what another key costs a client", name)
		}
		either := regexp.MustCompile(`\bkeyfuncs\.(Must)?` + name + `\b`)
		if !either.MatchString(allocations) {
			t.Errorf("%s has no bound of allocations: add one to alloc_test.go", name)
		}
		if !either.MatchString(guide) {
			t.Errorf("docs/keys.md does not mention %s", name)
		}
		if f.Type.TypeParams != nil && !strings.Contains(anyType, "["+name+"]") {
			t.Errorf("%s takes any type of request: say so in the last section of doc.go", name)
		}
		if !either.MatchString(tests) {
			t.Errorf("%s has an example and no test: add one to the test file of its concept", name)
		}
	}
	if len(functions) < 25 {
		t.Errorf("found only %d key functions", len(functions))
	}
}

// keyFunctions returns the exported functions of this package that are key functions or
// address sources, or return one, by name.
func keyFunctions(t *testing.T) map[string]*ast.FuncDecl {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*ast.FuncDecl{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() {
				continue
			}
			if identifies(f.Type) || f.Type.Results != nil && len(f.Type.Results.List) > 0 && identifies(f.Type.Results.List[0].Type) {
				found[f.Name.Name] = f
			}
		}
	}
	return found
}

// identifies reports whether e is the type of a key function or of an address source.
func identifies(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "AddrSource"
	case *ast.FuncType:
		if e.Params.NumFields() != 1 || e.Results.NumFields() != 2 {
			return false
		}
		result, failure := e.Results.List[0].Type, e.Results.List[len(e.Results.List)-1].Type
		id, ok := failure.(*ast.Ident)
		return ok && id.Name == "error" && (isString(result) || isAddr(result))
	}
	return false
}

func isString(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "string"
}

func isAddr(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Addr"
}
