package parity

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
)

// onlyInGateConfig are the fields of gate.Config that adapters set themselves.
var onlyInGateConfig = []string{"Answered", "Attach", "Committed", "OnStatus", "Restores", "Sending", "WithContext"}

// onlyInAdapters are the fields of an adapter's Config that gate.Config has under another name.
var onlyInAdapters = []string{"OutcomeInContext"} // Attach

// notOfCalls are the fields that mean nothing for remote procedure calls.
var notOfCalls = []string{"SkipPreflight"}

// SameConfig checks that the Config of an adapter has the common fields. It also checks that New,
// in the file limiter.go of the package under test, reads every field, and forwards the fields of
// core.Config under their own names.
func SameConfig[C any](t *testing.T) { sameConfig(t, reflect.TypeFor[C](), nil) }

// SameCallConfig is SameConfig for an adapter for remote procedure calls.
func SameCallConfig[C any](t *testing.T) { sameConfig(t, reflect.TypeFor[C](), notOfCalls) }

func sameConfig(t *testing.T, config reflect.Type, without []string) {
	ofCore := fieldsOf(reflect.TypeFor[core.Config[int]]())
	want := slices.Clone(ofCore)
	for _, field := range fieldsOf(reflect.TypeFor[gate.Config[int]]()) {
		if field != "Config" && !slices.Contains(onlyInGateConfig, field) &&
			!slices.Contains(without, field) {
			want = append(want, field)
		}
	}
	want = append(want, onlyInAdapters...)
	slices.Sort(want)
	got := fieldsOf(config)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%v has the fields\n%v, want\n%v", config, got, want)
	}
	read, forwarded := usesOf(t, "limiter.go")
	for _, field := range got {
		if !read[field] {
			t.Errorf("New does not read Config.%s", field)
		}
		if slices.Contains(ofCore, field) && !forwarded[field] {
			t.Errorf("New does not hand Config.%s on as core.Config.%[1]s", field)
		}
	}
}

func fieldsOf(config reflect.Type) (names []string) {
	for i := range config.NumField() {
		names = append(names, config.Field(i).Name)
	}
	return names
}

// usesOf returns the fields of the variable config that a file reads, and those that it assigns to
// a field of the same name.
func usesOf(t *testing.T, path string) (read, forwarded map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	read, forwarded = map[string]bool{}, map[string]bool{}
	fieldOf := func(e ast.Expr) string {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		if x, ok := s.X.(*ast.Ident); !ok || x.Name != "config" {
			return ""
		}
		return s.Sel.Name
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			read[fieldOf(n)] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == fieldOf(n.Value) {
				forwarded[key.Name] = true
			}
		}
		return true
	})
	return read, forwarded
}
