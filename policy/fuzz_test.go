package policy

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/jsonschema"
	"github.com/weir-go/weir/memory"
)

// FuzzParse checks that a file that loads has the form of the schema, has rules that a
// limiter takes and that decide, and does not differ from itself; and that every mistake
// of one that does not has a text, and a place in the file if it has one at all.
func FuzzParse(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*/*.*")
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && filepath.Ext(path) != ".txt" {
			f.Add(text)
		}
	}
	key := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	names := Names[*http.Request]{
		Keys:  map[string]func(*http.Request) (string, error){"user": key},
		Plans: map[string]func(*http.Request) (string, error){"plan": key},
		Costs: map[string]func(*http.Request) int64{"report-size": func(*http.Request) int64 { return 1 }},
	}
	form := jsonschema.Parse(f, Schema())
	store := memory.MustNew(memory.Options{})
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse("f.yaml", text, names)
		if err != nil {
			lines := 1
			for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} { // of a line in YAML
				lines += strings.Count(string(text), end)
			}
			for _, m := range Mistakes(err) {
				if m.Text == "" || m.Line < 0 || m.Line > lines+1 || strings.Contains(m.Error(), "\n") {
					t.Fatalf("%+v of %q", m, text)
				}
			}
			if Mistakes(err) == nil {
				t.Fatalf("an error without mistakes: %v", err)
			}
			return
		}
		if why := validateFile(form, "f.yaml", text); why != "" {
			t.Fatalf("loads, but by the schema %s: %q", why, text)
		}
		if c := p.Changes(p); len(c) > 0 {
			t.Fatalf("differs from itself: %v", c)
		}
		if err := Check("f.yaml", text); err != nil {
			t.Fatalf("loads, and Check fails: %v", err)
		}
		l, err := core.New(core.Config[*http.Request]{Rules: p.Rules(), Backend: store})
		if err != nil {
			t.Fatalf("a limiter refuses what loads: %v: %q", err, text)
		}
		r := request("POST", "/api/reports")
		o := l.Decide(r.Context(), r)
		o.End(core.Result{Status: 200})
	})
}
