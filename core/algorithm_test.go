package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sources parses the files of this package that are not tests.
func sources(t *testing.T) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return set, files
}

// constants returns the names of the package's constants that start with prefix and a
// capital letter, in the order of the files.
func constants(files []*ast.File, prefix string) (names []string) {
	for _, file := range files {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			for _, spec := range d.Specs {
				for _, id := range spec.(*ast.ValueSpec).Names {
					rest, found := strings.CutPrefix(id.Name, prefix)
					if found && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return names
}

// A new algorithm is an entry of these tables, and has a constructor of its name.
func TestEveryAlgorithmHasANameAFamilyAndAConstructor(t *testing.T) {
	_, files := sources(t)
	declared := constants(files, "Algorithm")
	if len(declared) != len(Algorithms()) {
		t.Errorf("%d algorithms have a constant, %d a name in algorithmNames", len(declared), len(Algorithms()))
	}
	for _, a := range Algorithms() {
		if a.String() == "" || a.family() == 0 {
			t.Errorf("algorithm %d: name %q, family %d", a, a.String(), a.family())
		}
	}
	functions := make(map[string]bool)
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				functions[f.Name.Name] = true
			}
		}
	}
	for _, name := range declared {
		if constructor := strings.TrimPrefix(name, "Algorithm"); !functions[constructor] {
			t.Errorf("%s has no constructor %s", name, constructor)
		}
	}
}

// A switch over the families of algorithms names all of them, so that whoever adds a
// family finds every place that has to know it.
func TestEverySwitchOverFamiliesNamesAllOfThem(t *testing.T) {
	set, files := sources(t)
	families := constants(files, "family")
	if len(families) < 4 {
		t.Fatalf("found only the families %v", families)
	}
	switches := 0
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SwitchStmt)
			if !ok {
				return true
			}
			if tag, ok := s.Tag.(*ast.SelectorExpr); !ok || tag.Sel.Name != "family" {
				return true
			}
			switches++
			cases := make(map[string]bool)
			for _, clause := range s.Body.List {
				for _, e := range clause.(*ast.CaseClause).List {
					if id, ok := e.(*ast.Ident); ok {
						cases[id.Name] = true
					}
				}
			}
			for _, family := range families {
				if !cases[family] {
					t.Errorf("%v: this switch has no case for %s", set.Position(s.Pos()), family)
				}
			}
			return true
		})
	}
	if switches < 15 {
		t.Errorf("found only %d switches over families", switches)
	}
}

// The lists that tests, benchmarks and documents make by hand have every algorithm.
func TestEveryAlgorithmIsTestedMeasuredAndDescribed(t *testing.T) {
	constructor := func(a Algorithm) string {
		words := strings.Split(a.String(), "-")
		for i, word := range words {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
		return strings.Join(words, "")
	}
	mentions := map[string]func(a Algorithm) string{
		"bench_test.go":              func(a Algorithm) string { return "core." + constructor(a) + "(" },
		"fuzz_test.go":               func(a Algorithm) string { return "func Fuzz" + constructor(a) + "(" },
		"limit_test.go":              func(a Algorithm) string { return "core." + constructor(a) + "(" },
		"memory_test.go":             func(a Algorithm) string { return "core." + constructor(a) + "(" },
		"memory_floor_waits_test.go": func(a Algorithm) string { return "core." + constructor(a) + "(" },
		"../README.md":               func(a Algorithm) string { return "core." + constructor(a) + "(" },
		"../docs/DESIGN.md":          func(a Algorithm) string { return "func " + constructor(a) + "(" },
		"../docs/rules.md":           func(a Algorithm) string { return strings.ReplaceAll(a.String(), "-", " ") },
		"../docs/redis.md":           func(a Algorithm) string { return strings.ReplaceAll(a.String(), "-", " ") },
	}
	for _, path := range slices.Sorted(maps.Keys(mentions)) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lower := strings.ReplaceAll(strings.ToLower(string(text)), "-", " ")
		for _, a := range Algorithms() {
			want := mentions[path](a)
			if !strings.Contains(string(text), want) && !strings.Contains(lower, want) {
				t.Errorf("%s does not have %q", path, want)
			}
		}
	}
}
