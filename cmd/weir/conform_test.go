package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/conform"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// profileOf writes a profile of a server that allows some requests of a key in ten seconds, and returns its name.
func profileOf(t *testing.T, allows int64) string {
	t.Helper()
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-key", Limit: limits.SlidingLog(limits.Per(allows, 10*time.Second)), Key: keyfuncs.Header("X-API-Key"),
	}}})
	server := httptest.NewServer(limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(server.Close)
	name := filepath.Join(t.TempDir(), "profile.yaml")
	text := "name: weir\nurl: " + server.URL + "\nlimit: 3 per 10s\nalgorithm: sliding-log\nkey: header X-API-Key\n"
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConformSaysByItsExitCodeWhetherChecksHold(t *testing.T) {
	for allows, code := range map[int64]int{3: exitDone, 4: exitFound} {
		var out, errOut bytes.Buffer
		page := filepath.Join(t.TempDir(), "report.html")
		args := []string{"conform", "--only", "burst,key-apart", "--html", page, "--json", "--seed", "7",
			profileOf(t, allows)}
		if got := run(args, nil, &out, &errOut); got != code {
			t.Errorf("%d allowed: exit code %d, want %d: %s%s", allows, got, code, &out, &errOut)
		}
		var report conform.Report
		if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Seed != 7 || len(report.Results) != 2 {
			t.Errorf("got %v, %+v", err, report)
		}
		if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<h1>weir</h1>") {
			t.Errorf("got %v, %s", err, text)
		}
	}
}

func TestConformRefusesWhatItCannotUse(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("name: x\nurl: http://127.0.0.1:1\nkey: address\nlimits: 3"), 0o666); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"conform":                              "name one profile",
		"conform --explain burst x.yaml":       "leave out",
		"conform --explain bursts":             `there is no check "bursts": the checks are burst, interval`,
		"conform " + bad:                       `bad.yaml:4:1: there is no field "limits": the fields are name`,
		"conform --only x " + profileOf(t, 3):  `there is no check "x"`,
		"conform --page x.html x.yaml":         "write --html",
		"conform --html /no/x.html " + bad:     "there is no directory",
		"conform " + filepath.Dir(bad) + "/no": "there is no file",
	} {
		var out, errOut bytes.Buffer
		if code := run(strings.Fields(args), nil, &out, &errOut); code != exitUnusable ||
			!strings.Contains(errOut.String(), want) {
			t.Errorf("weir %s: exit code %d, %s", args, code, &errOut)
		}
	}
}

func TestConformExplainsEachCheck(t *testing.T) {
	var list bytes.Buffer
	run([]string{"conform", "--list"}, nil, &list, &list)
	for _, c := range conform.Checks() {
		var out bytes.Buffer
		code := run([]string{"conform", "--explain", c.Name}, nil, &out, &out)
		if code != exitDone || !strings.Contains(out.String(), "Source: "+c.Source) ||
			!strings.Contains(list.String(), c.Name+" ") {
			t.Errorf("%s: exit code %d, %s", c.Name, code, &out)
		}
	}
}
