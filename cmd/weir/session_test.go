package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/stats"
)

var update = flag.Bool("update", false, "write the sessions of testdata as the commands answer now")

// TestSessions runs the commands of testdata/*.txt, each a line that begins with "$ ", and
// compares what they print and their exit code with what follows. Paths begin in testdata,
// "< file" is standard input, and $PAGE is the operator's page of a program whose policy is
// the example's. After a change of texts, run go test -update and read the difference.
func TestSessions(t *testing.T) {
	t.Chdir("testdata")
	pages := strings.NewReplacer("$PAGE", newTestPage(t, "../../../examples/policy/weir.yaml", ""), "$GUARDED",
		newTestPage(t, "../../../examples/policy/weir.yaml", "Bearer s3cret"))
	files, err := filepath.Glob("*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d sessions, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(name, ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for line := range strings.Lines(string(want)) {
				switch {
				case strings.HasPrefix(line, "$ "):
					if got.Len() > 0 {
						got.WriteString("\n")
					}
					got.WriteString(line + perform(t, strings.TrimSpace(line[2:]), pages))
				case strings.HasPrefix(line, "# "):
					got.WriteString("\n" + line)
				}
			}
			text := strings.TrimPrefix(got.String(), "\n")
			if *update {
				if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want), text); diff != "" && !*update {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// perform runs a line of a session, and returns what it prints: the output, errors, and the
// exit code if it is not 0.
func perform(t *testing.T, line string, pages *strings.Replacer) string {
	t.Helper()
	words := split(t, line)
	if words[0] != "weir" {
		t.Fatalf("%q is no command of ours", line)
	}
	var args []string
	in := ""
	for i := 1; i < len(words); i++ {
		if words[i] == "<" && i+1 < len(words) {
			text, err := os.ReadFile(words[i+1])
			if err != nil {
				t.Fatal(err)
			}
			in, i = string(text), i+1
			continue
		}
		args = append(args, pages.Replace(words[i]))
	}
	var out, errOut bytes.Buffer
	code := run(args, strings.NewReader(in), &out, &errOut)
	text := out.String() + errOut.String()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "(no end of line)\n"
	}
	if code != 0 {
		text += fmt.Sprintf("[%d]\n", code)
	}
	for _, pair := range [][2]string{{"$PAGE", pages.Replace("$PAGE")}, {"$GUARDED", pages.Replace("$GUARDED")}} {
		text = strings.ReplaceAll(text, pair[1], pair[0])
	}
	return text
}

// split returns the words of a line, as a shell does with blanks and quotes.
func split(t *testing.T, line string) (words []string) {
	t.Helper()
	word, quote, open := "", rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case quote == 0 && c == ' ':
			if open {
				words = append(words, word)
			}
			word, open = "", false
		default:
			word, open = word+string(c), true
		}
	}
	if quote != 0 {
		t.Fatalf("%s: a quote does not end", line)
	}
	if open {
		words = append(words, word)
	}
	return words
}

// newTestPage serves the operator's page of a program with the policy of the example, in file, under
// which one address has sent seven requests. authorization is what the page wants; "":
// nothing.
func newTestPage(t *testing.T, file, authorization string) string {
	t.Helper()
	names := policy.Names[*http.Request]{
		Keys:  map[string]func(*http.Request) (string, error){"customer": keyfuncs.Header("X-Customer")},
		Plans: map[string]func(*http.Request) (string, error){"plan": keyfuncs.Header("X-Plan")},
		Costs: map[string]func(*http.Request) int64{"kilobytes": func(*http.Request) int64 { return 1 }},
	}
	p, err := policy.Load(file, names)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	limit := nethttp.MustNew(nethttp.Config{
		Rules:   p.Rules(),
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return now }}),
	})
	who := func(r *http.Request) (admin.Person, error) {
		if r.Header.Get("Authorization") != authorization {
			return admin.Person{}, nil
		}
		return admin.Person{Name: "ann"}, nil
	}
	handler, err := admin.New(who, admin.Sources{
		Stats: stats.New(stats.Options{}), Policy: p.Status(),
		Limiters: map[string]admin.Limiter{"api": limit, "gin": struct{ admin.Limiter }{limit}},
	}, admin.Options{Keys: admin.Shown})
	if err != nil {
		t.Fatal(err)
	}
	for range 7 {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "203.0.113.7:1"
		o := limit.Decide(r)
		o.End(core.Result{Status: 200})
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle("/ops/", http.StripPrefix("/ops", handler))
	mux.Handle("GET /metrics", http.NotFoundHandler())
	mux.HandleFunc("POST /text/api/explain", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) })
	mux.Handle("POST /away/api/explain", http.RedirectHandler("https://login.example.com/", http.StatusFound))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}
