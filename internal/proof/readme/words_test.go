package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const wordsGuide = "docs/words.md"

var bold = regexp.MustCompile(`\*\*([^*]+)\*\*`)

// TestEveryWordIsExplained finds the fields of a rule, a Config and a decision on the page of words,
// whose rows are sorted and have links.
func TestEveryWordIsExplained(t *testing.T) {
	words, page, last := 0, strings.Join(lines(t, wordsGuide), "\n"), ""
	for i, line := range lines(t, wordsGuide) {
		if !strings.HasPrefix(line, "| **") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 || !link.MatchString(cells[2]) {
			t.Errorf("%s:%d: want a word, what it means, and where there is more", wordsGuide, i+1)
		}
		word := bold.FindStringSubmatch(line)[1]
		if word < last {
			t.Errorf("%s:%d: %q stands behind %q", wordsGuide, i+1, word, last)
		}
		last = word
		words++
	}
	if words < 50 {
		t.Errorf("found %d words", words)
	}
	for _, of := range []struct{ dir, name string }{{"core", "Rule"}, {"core", "Config"}, {"limits", "Decision"}} {
		fields := fieldsOf(t, of.dir, of.name)
		if len(fields) < 5 {
			t.Errorf("%s.%s has the fields %v", of.dir, of.name, fields)
		}
		for _, field := range fields {
			if !strings.Contains(page, "`"+field+"`") {
				t.Errorf("%s does not name `%s` of %s.%s", wordsGuide, field, of.dir, of.name)
			}
		}
	}
}

// fieldsOf returns the exported fields of a struct.
func fieldsOf(t *testing.T, dir, name string) (fields []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			if structure, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range structure.Fields.List {
					for _, name := range field.Names {
						if name.IsExported() && !slices.Contains(fields, name.Name) {
							fields = append(fields, name.Name)
						}
					}
				}
			}
			return false
		})
	}
	return fields
}
