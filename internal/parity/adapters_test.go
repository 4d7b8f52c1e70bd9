package parity_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/weir-go/weir"

// TestAnAdapterIsEnteredEverywhere fails when a step of "A new adapter" in
// CONTRIBUTING.md has been left out. An adapter is a package beside nethttp that
// imports it.
func TestAnAdapterIsEnteredEverywhere(t *testing.T) {
	found := 0
	for name, imported := range packages(t) {
		if !imported[module+"/nethttp"] {
			continue
		}
		found++
		own := func(file string) string { return filepath.Join("..", "..", name, file) }
		contains(t, own("parity_test.go"), `\bparity\.Run\(t,`)
		contains(t, own("bench_test.go"), `\bparity\.Cost\(t,`)
		contains(t, own("bench_test.go"), `\bparity\.Benchmark\(b,`)
		contains(t, own("doc.go"), `^// Package `+name+` `)
		contains(t, own("example_test.go"), `func Example\w*\(`)
		if _, listed := adapters[name]; !listed {
			t.Logf("unless its Config is nethttp's, enter that of %s in adapters, in config_test.go", name)
			contains(t, own("limiter.go"), `^type Config = nethttp\.Config$`)
		}
		for _, path := range []string{
			"README.md", "CONTRIBUTING.md", "BENCHMARKS.md", "doc.go", ".ci/run", "nethttp/doc.go",
			"docs/DESIGN.md", "docs/frameworks.md", "internal/imports/imports_test.go", "internal/readme/code_test.go", "internal/readme/names_test.go",
		} {
			contains(t, filepath.Join("..", "..", path), `\b`+name+`\b`)
		}
		for path := range imported {
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && !strings.HasPrefix(path, module) {
				contains(t, "../../.ci/newest", `^`+regexp.QuoteMeta(strings.TrimSuffix(path, "/middleware"))+`@`)
			}
		}
	}
	if found < len(adapters) { // nethttp is listed and does not import itself; chimw is not
		t.Errorf("found %d adapters", found)
	}
}

// packages returns what each package in the root of the module imports.
func packages(t *testing.T) map[string]map[string]bool {
	t.Helper()
	paths, err := filepath.Glob("../../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]bool{}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		if strings.HasSuffix(path, "_test.go") || name == "examples" || name == "benchmarks" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if all[name] == nil {
			all[name] = map[string]bool{}
		}
		for _, i := range file.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			all[name][imported] = true
		}
	}
	return all
}

func contains(t *testing.T, path, pattern string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil {
		t.Errorf("%v: it needs %s", err, pattern)
	} else if !regexp.MustCompile(`(?m)` + pattern).Match(text) {
		t.Errorf("%s has no %s", strings.TrimPrefix(path, "../../"), pattern)
	}
}
