package parity_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/nethttp"
)

// adapters are the packages that have a Config of their own. chimw uses the one of
// nethttp.
var adapters = map[string]reflect.Type{
	"nethttp": reflect.TypeFor[nethttp.Config](),
	"ginmw":   reflect.TypeFor[ginmw.Config](),
	"echomw":  reflect.TypeFor[echomw.Config](),
	"echo5mw": reflect.TypeFor[echo5mw.Config](),
}

// onlyInGateConfig are the fields of a gate.Config that adapters fill in themselves.
var onlyInGateConfig = []string{"Answered", "Attach", "Committed", "WithContext"}

// onlyInCore are the fields of a core.Config that a Gate fills in itself.
var onlyInCore = []string{"Companion"}

// onlyInAdapters are the fields of a Config that a gate.Config has under another name.
var onlyInAdapters = []string{"OutcomeInContext"} // Attach

func TestEveryConfigHasTheSameFields(t *testing.T) {
	want := slices.DeleteFunc(fieldsOf(reflect.TypeFor[core.Config[int]]()), func(field string) bool { return slices.Contains(onlyInCore, field) })
	for _, field := range fieldsOf(reflect.TypeFor[gate.Config[int]]()) {
		if field != "Config" && !slices.Contains(onlyInGateConfig, field) {
			want = append(want, field)
		}
	}
	want = append(want, onlyInAdapters...)
	slices.Sort(want)
	for name, config := range adapters {
		got := fieldsOf(config)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s.Config has the fields\n%v, want\n%v", name, got, want)
		}
	}
}

// TestEveryConfigForwardsItsFields expects New to read every field of its Config and to
// forward the fields of a core.Config under their own names.
func TestEveryConfigForwardsItsFields(t *testing.T) {
	ofCore := fieldsOf(reflect.TypeFor[core.Config[int]]())
	for name, config := range adapters {
		read, forwarded := usesOf(t, "../../"+name+"/limiter.go")
		for _, field := range fieldsOf(config) {
			if !read[field] {
				t.Errorf("%s.New does not read Config.%s", name, field)
			}
			if slices.Contains(ofCore, field) && !forwarded[field] {
				t.Errorf("%s.New does not hand Config.%s on as core.Config.%[2]s", name, field)
			}
		}
	}
	read, _ := usesOf(t, "../../internal/gate/gate.go")
	for _, field := range fieldsOf(reflect.TypeFor[gate.Config[int]]()) {
		if !read[field] {
			t.Errorf("gate.New does not read gate.Config.%s", field)
		}
	}
}

func fieldsOf(config reflect.Type) (names []string) {
	for i := range config.NumField() {
		names = append(names, config.Field(i).Name)
	}
	return names
}

// usesOf returns which fields of the variable config a file reads, and which of them it
// assigns to a field of the same name.
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
