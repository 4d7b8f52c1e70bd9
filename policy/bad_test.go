package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/policy"
)

var update = flag.Bool("update", false, "write what the bad files report to the golden files beside them")

func TestBadFilesReportEveryMistake(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*")
	if err != nil {
		t.Fatal(err)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, ".txt") })
	if len(paths) < 40 {
		t.Fatalf("found %d files", len(paths))
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = policy.Parse(filepath.Base(path), text, names)
		if err == nil {
			t.Errorf("%s loads", path)
			continue
		}
		golden := strings.TrimSuffix(path, filepath.Ext(path)) + ".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := os.ReadFile(golden)
		if diff := cmp.Diff(string(want), err.Error()+"\n"); diff != "" {
			t.Errorf("%s (want -, got +):\n%s", path, diff)
		}
		for _, m := range policy.Mistakes(err) {
			if strings.Contains(m.Text, "\n") || strings.Contains(m.Text, "k-123") ||
				strings.Contains(m.Text, "core:") || strings.Contains(m.Text, "keyfuncs:") {
				t.Errorf("%s: not for people: %v", path, m)
			}
		}
	}
}

func TestTheNameOfAFileIsQuotedIfItIsNotVisible(t *testing.T) {
	for name, want := range map[string]string{
		"my weir.yaml": "my weir.yaml:1:", "a\nb": `"a\nb":1:`, "a\x1b[31m": `"a\x1b[31m":1:`, "a\xff": `"a\xff":1:`,
	} {
		if err := policy.Check(name, []byte("version: 2\n")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s…", err, want)
		}
	}
}

func TestUnusualPatternsAreAccepted(t *testing.T) {
	for _, pattern := range []string{
		"/v1/things:cancel", "/:", "/a*b", "/:7", "192.0.2.7/login", "192.0.2.7/24/x", "[::1]/x", "PURGE /x",
		"PROPFIND /", "MOVE /x", "/%3Fx",
	} {
		text := "version: 1\nrules: [{name: a, match: " + strconv.Quote(pattern) + ", key: everybody, limit: 1/s}]"
		if err := policy.Check("policy", []byte(text)); err != nil {
			t.Error(err)
		}
	}
}
