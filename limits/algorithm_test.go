package limits_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

func TestEveryAlgorithmHasAConstantATextAndAConstructor(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "algorithm.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	constructors := map[string]bool{}
	texts := map[string]string{} // by constant
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
			constructors[f.Name.Name] = true
		}
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.CONST {
			for _, spec := range d.Specs {
				s := spec.(*ast.ValueSpec)
				texts[s.Names[0].Name] = strings.TrimSpace(s.Comment.Text())
			}
		}
	}
	for _, a := range limits.Algorithms() {
		row := algorithm.Of(a)
		l, err := limits.Parse(row.Example)
		if err != nil || l.Algorithm() != a {
			t.Errorf("%v: its example %q is %v, %v", a, row.Example, l, err)
		}
		if !constructors[row.Constructor()] {
			t.Errorf("%v: no constructor %s in algorithm.go", a, row.Constructor())
		}
		constant := "Algorithm"
		for word := range strings.SplitSeq(row.Name, "-") {
			constant += strings.ToUpper(word[:1]) + word[1:]
		}
		if texts[constant] != row.Example {
			t.Errorf("%s: its comment is %q, want %q", constant, texts[constant], row.Example)
		}
	}
}
