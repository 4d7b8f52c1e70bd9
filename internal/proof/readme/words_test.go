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

// TestEveryWordIsExplained finds the words of the design, and what a rule, a Config and a decision have,
// on the page of words, whose rows are sorted and lead further.
func TestEveryWordIsExplained(t *testing.T) {
	explained, page, last := make(map[string]bool), strings.Join(lines(t, wordsGuide), "\n"), ""
	for i, line := range lines(t, wordsGuide) {
		if !strings.HasPrefix(line, "| **") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 || !link.MatchString(cells[2]) {
			t.Errorf("%s:%d: want a word, what it means, and where there is more", wordsGuide, i+1)
		}
		words := bold.FindAllStringSubmatch(line, -1)
		if words[0][1] < last {
			t.Errorf("%s:%d: %q stands behind %q", wordsGuide, i+1, words[0][1], last)
		}
		last = words[0][1]
		for _, word := range words {
			explained[word[1]] = true
		}
	}
	inDesign := 0
	for _, line := range lines(t, "docs/DESIGN.md") {
		if strings.HasPrefix(line, "## 3.") {
			break
		}
		if word := bold.FindStringSubmatch(line); strings.HasPrefix(line, "| **") {
			if inDesign++; !explained[word[1]] {
				t.Errorf("%s does not have %q, which DESIGN 2 defines", wordsGuide, word[1])
			}
		}
	}
	if inDesign < 10 {
		t.Errorf("found %d words in the design", inDesign)
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
