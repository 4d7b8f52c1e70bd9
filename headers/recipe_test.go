package headers_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
)

// TestAFormatIsEnteredEverywhere fails when a step of "A header format" in
// CONTRIBUTING.md has been left out.
func TestAFormatIsEnteredEverywhere(t *testing.T) {
	formats := formatNames(t)
	if len(formats) < 7 {
		t.Fatalf("found only the formats %v", formats)
	}
	policies := []headers.Policy{perMinute}
	o := decided(t, policies, denied(0, 30*time.Second, time.Minute))
	_, unknown := headers.New(headers.Options{Formats: []headers.Format{0}}, policies)
	wrote := map[headers.Format]http.Header{}
	for i, name := range formats {
		f, mentioned := headers.Format(i+1), regexp.MustCompile(`\b`+name+`\b`)
		if f.String() != name {
			t.Errorf("Format(%d).String() is %q: add %s to formatNames in format.go", i+1, f, name)
		}
		if !mentioned.MatchString(unknown.Error()) {
			t.Errorf("the error of an unknown format does not list %s: see validateFormats in options.go", name)
		}
		if !slices.ContainsFunc(everyFormat, func(set []headers.Format) bool { return slices.Contains(set, f) }) {
			t.Errorf("everyFormat in writer_test.go has no set with %s", name)
		}
		w, err := headers.New(headers.Options{Formats: []headers.Format{f}}, policies)
		if err != nil {
			t.Errorf("%s alone is refused: %v", name, err)
			continue
		}
		h := http.Header{}
		w.Write(h, o)
		h.Del("Retry-After")
		for other, fields := range wrote {
			_, err := headers.New(headers.Options{Formats: []headers.Format{other, f}}, policies)
			for field := range h {
				if err == nil && fields[field] != nil && !(field == "Ratelimit-Policy" && (other == headers.Draft6 || f == headers.Draft6)) {
					t.Errorf("%v and %v both write %s, and New accepts them: see conflicts in format.go", other, f, field)
				}
			}
		}
		if wrote[f] = h; len(h) == 0 {
			t.Errorf("a denial has no field of %s: see appendFields in writer.go", name)
		}
		for path, pattern := range map[string]string{
			"fuzz_test.go":       `\bheaders\.` + name + `\b`,
			"oracle_test.go":     `\bheaders\.` + name + `\b`,
			"options_test.go":    `all := \[\]headers\.Format\{.*\bheaders\.` + name + `\b`,
			"example_test.go":    `// -- ` + name + `\n`,
			"../docs/headers.md": "\\| `headers\\." + name + "` \\|",
		} {
			if text, err := os.ReadFile(path); err != nil || !regexp.MustCompile(pattern).Match(text) {
				t.Errorf("%s has no %s (%v)", path, name, err)
			}
		}
	}
}

// formatNames returns the names of the constants of type Format, in the order of their
// values.
func formatNames(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "format.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		if id, ok := g.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); ok && id.Name == "Format" {
			for _, s := range g.Specs {
				names = append(names, s.(*ast.ValueSpec).Names[0].Name)
			}
		}
	}
	return names
}
