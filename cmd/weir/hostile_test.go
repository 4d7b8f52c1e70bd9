package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"unicode"
)

// What a page says must not change what a terminal shows: C0 and C1 control characters,
// and characters that turn the direction of a text.
func TestNothingOfAPageControlsATerminal(t *testing.T) {
	const evil = "\x1b]0;title\x07 \u009b31m \x7f \u202e \u2028 \U000e0041 fine"
	text, _ := json.Marshal(evil)
	said := string(text)
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"an error":   {http.StatusInternalServerError, `{"error":` + said + `}`},
		"no limiter": {http.StatusNotFound, `{"error":"there is no limiter","Rules":[{"Limiter":` + said + `}]}`},
		"no verdict": {http.StatusOK, `{"Verdict":` + said + `,"Error":` + said + `}`},
		"rules": {
			http.StatusOK, `{"Verdict":"denied","Rules":[{"Rule":` + said + `,"Matches":true,"Mode":"enforce","Key":` +
				said + `,"Limit":` + said + `}]}`,
		},
		"other rules": {http.StatusOK, `{"Verdict":"allowed","Rules":[{"Rule":` + said + `,"Why":` + said + `}]}`},
		"another mode": {
			http.StatusOK, `{"Verdict":"allowed","Rules":[{"Rule":"a","Matches":true,"Mode":` + said + `}]}`,
		},
	} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasSuffix(r.URL.Path, "snapshot") {
				w.WriteHeader(answer.status)
			}
			io.WriteString(w, answer.body)
		}))
		for _, more := range [][]string{nil, {"--json"}} {
			var out, errOut bytes.Buffer
			run(append([]string{"explain", "--url", page.URL, "/"}, more...), nil, &out, &errOut)
			all := out.String() + errOut.String()
			if i := strings.IndexFunc(all, func(c rune) bool {
				return c != '\n' && c != unicode.ReplacementChar && !unicode.IsGraphic(c)
			}); i >= 0 {
				t.Errorf("%s %v: %q", name, more, all[i:])
			}
			if more != nil && out.Len() > 0 {
				var e struct{ Rules []struct{ Rule string } }
				if err := json.Unmarshal(out.Bytes(), &e); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if name == "rules" && e.Rules[0].Rule != evil {
					t.Errorf("the JSON has the rule %q, want %q", e.Rules[0].Rule, evil)
				}
			}
		}
		page.Close()
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAFileOfMistakesIsReportedInOnePass(t *testing.T) {
	file := "version: 1\nrules:\n" + strings.Repeat("- x\n", 5_000)
	var out, errOut bytes.Buffer
	n := allocated(func() { run([]string{"check", "-"}, strings.NewReader(file), &out, &errOut) })
	if !strings.Contains(out.String(), "5000 mistakes") {
		t.Fatalf("%.1000s%s", &out, &errOut)
	}
	if n > 100<<20 {
		t.Errorf("%d bytes were allocated to print %d", n, out.Len())
	}
}

func TestOneHugeNameDoesNotWidenEveryRow(t *testing.T) {
	rows := [][]string{{"RULE", "WHY NOT"}, {strings.Repeat("x", 1<<20), "a"}}
	for range 1_000 {
		rows = append(rows, []string{"rule", "why"})
	}
	var text string
	n := allocated(func() { text = table(rows) })
	if n > 100<<20 || len(text) > 2<<20 {
		t.Errorf("the table has %d bytes, and allocated %d", len(text), n)
	}
	if got := table([][]string{{"A", "B"}, {"longer", "b"}}); got != "A       B\nlonger  b\n" {
		t.Errorf("%q", got)
	}
}
