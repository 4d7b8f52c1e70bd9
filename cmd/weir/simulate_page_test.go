package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPageOverInput checks that --html never writes over what the command reads: a log
// cannot be had again.
func TestPageOverInput(t *testing.T) {
	t.Chdir(t.TempDir())
	line := `203.0.113.7 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	rules := "version: 1\nrules: [{name: a, key: everybody, limit: 1/minute}]\n"
	files := map[string]string{"access.log": line, "new.yaml": rules, "old.yaml": rules}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("access.log", "link.html"); err != nil {
		t.Skip(err)
	}
	for _, page := range []string{"access.log", "./access.log", "link.html", "new.yaml", "old.yaml"} {
		var out, errOut bytes.Buffer
		code := run([]string{"simulate", "--policy", "new.yaml", "--against", "old.yaml", "--html", page,
			"access.log"}, strings.NewReader(""), &out, &errOut)
		if want := "weir: --html " + page + ": the command reads this file: name another\n"; code != exitUnusable ||
			errOut.String() != want || out.Len() > 0 {
			t.Errorf("%s: got %d, %q, %q", page, code, errOut.String(), out.String())
		}
	}
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: got %.80q, %v", name, got, err)
		}
	}
}

// TestPageNowhere checks that a page that cannot be written is reported before the logs are
// read, which may take minutes.
func TestPageNowhere(t *testing.T) {
	t.Chdir(t.TempDir())
	for page, want := range map[string]string{
		filepath.Join("none", "report.html"): "weir: --html none/report.html: there is no directory none: make it " +
			"first\n",
		".": "weir: --html .: is a directory: name a file in it, such as report.html\n",
	} {
		var out, errOut bytes.Buffer
		code := run([]string{"simulate", "--limit", "1/minute", "--html", page, "none.log"}, strings.NewReader(""),
			&out, &errOut)
		if code != exitUnusable || errOut.String() != want {
			t.Errorf("%s: got %d, %q", page, code, errOut.String())
		}
	}
}
