package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/report"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

var update = flag.Bool("update", false, "write the golden files")

// sample returns the report of a small log: two clients, one of which asks for too much.
func sample(t testing.TB, change func(*simulate.Options)) *simulate.Report {
	t.Helper()
	var log strings.Builder
	line := func(i int, client, request string, status int) {
		at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Second)
		fmt.Fprintf(&log, "%s - - [%s] \"%s HTTP/1.1\" %d 5 \"-\" \"<script>alert(1)</script>\"\n", client,
			at.Format("02/Jan/2006:15:04:05 -0700"), request, status)
	}
	for i := range 300 {
		line(i/3, "203.0.113.77", "GET /a", 200)
		if i%10 == 0 {
			line(i/3, "2001:db8:1:2:3::4", "POST /login", 429)
		}
	}
	log.WriteString("damaged\n")
	dir := t.TempDir()
	name, file := filepath.Join(dir, "access.log"), filepath.Join(dir, "weir.yaml")
	os.WriteFile(name, []byte(log.String()), 0o600)
	os.WriteFile(file, []byte(`
version: 1
client: {peer: true}
rules:
  - {name: per-client, key: address, limit: 60/minute}
  - {name: agents, key: header User-Agent, limit: 100/minute, mode: shadow}
  - {name: tenants, key: header X-Tenant, limit: 100/minute}
`), 0o600)
	p, err := simulate.ReadPolicy(file)
	if err != nil {
		t.Fatal(err)
	}
	against, err := simulate.OneLimit("90/minute", "address", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := simulate.Options{Logs: []string{name}, Policy: p, Against: against, Ladder: true}
	if change != nil {
		change(&o)
	}
	r, err := simulate.Do(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var marks = regexp.MustCompile(`#[0-9a-f]{6}\b`)

func TestTheTextIsThatOfTheGoldenFile(t *testing.T) {
	var b bytes.Buffer
	if err := report.Text(&b, sample(t, nil), func(heading string) string { return heading }); err != nil {
		t.Fatal(err)
	}
	text := marks.ReplaceAllString(b.String(), "#xxxxxx")
	text = regexp.MustCompile(`\S*weir\.yaml`).ReplaceAllString(text, "weir.yaml")
	golden := filepath.Join("testdata", "report.txt")
	if *update {
		os.MkdirAll("testdata", 0o755)
		os.WriteFile(golden, []byte(text), 0o644)
	}
	want, err := os.ReadFile(golden)
	if err != nil || text != string(want) {
		t.Errorf("%v; got\n%s", err, text)
	}
}

func TestNoReportHasAKeyUnlessAsked(t *testing.T) {
	secrets := []string{"203.0.113.77", "2001:db8:1:2", "alert(1)"}
	for name, write := range map[string]func(*bytes.Buffer, *simulate.Report) error{
		"text": func(b *bytes.Buffer, r *simulate.Report) error {
			return report.Text(b, r, func(heading string) string { return heading })
		},
		"JSON": func(b *bytes.Buffer, r *simulate.Report) error { return report.JSON(b, r) },
		"HTML": func(b *bytes.Buffer, r *simulate.Report) error { return report.HTML(b, r) },
	} {
		var masked, shown bytes.Buffer
		if err := write(&masked, sample(t, nil)); err != nil {
			t.Fatal(err)
		}
		if err := write(&shown, sample(t, func(o *simulate.Options) { o.ShowKeys = true })); err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(masked.String(), secret) {
				t.Errorf("%s has %q", name, secret)
			}
		}
		if !strings.Contains(masked.String(), "203.0.113.0/24 #") || !strings.Contains(shown.String(), secrets[0]) {
			t.Errorf("%s: keys are not masked, or not shown when asked for", name)
		}
	}
}

func TestThePageIsOneFileThatAsksNobody(t *testing.T) {
	var b bytes.Buffer
	if err := report.HTML(&b, sample(t, func(o *simulate.Options) { o.ShowKeys = true })); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, other := range []string{
		"src=", "@import", "url(h", "<link", "fetch(", "style=", "onclick", "<script>alert", "ZgotmplZ",
	} {
		if strings.Contains(page, other) {
			t.Errorf("the page has %q", other)
		}
	}
	if n := strings.Count(page, "http://") + strings.Count(page, "https://"); n != 1 { // the name of SVG
		t.Errorf("the page has %d addresses, want that of SVG alone", n)
	}
	if !strings.Contains(page, "default-src &#39;none&#39;") && !strings.Contains(page, "default-src 'none'") {
		t.Error("the page has no policy")
	}
}

func TestJSONCanBeReadAgain(t *testing.T) {
	r := sample(t, nil)
	var b bytes.Buffer
	if err := report.JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var again simulate.Report
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	if err := d.Decode(&again); err != nil || again.Policy.Denied != r.Policy.Denied || again.Requests != r.Requests {
		t.Errorf("%v: %+v", err, again)
	}
}

func TestNumbersAsText(t *testing.T) {
	for _, c := range []struct {
		n, of int64
		want  string
	}{
		{0, 5, "0%"}, {5, 5, "100%"}, {1, 3, "33.3%"}, {1, 50, "2.0%"}, {1, 700, "0.14%"}, {1, 1_000_000, "<0.001%"},
		{9999, 10_000, ">99.9%"}, {1, 0, ""},
	} {
		if got := report.Share(simulate.Range{Low: c.n, High: c.n}, c.of); got != c.want {
			t.Errorf("%d of %d: got %s, want %s", c.n, c.of, got, c.want)
		}
	}
	if got := report.Range(simulate.Range{Low: 1000, High: 1234567}); got != "1,000–1,234,567" {
		t.Errorf("got %s", got)
	}
}
