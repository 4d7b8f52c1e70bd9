package examples

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPolicyFollowsItsFile(t *testing.T) {
	text, err := os.ReadFile("policy/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(string(text))
	url := start(t, "policy", "POLICY="+file)
	get := func() answer { return send(t, "GET", url, "", "X-API-Key", "k-alice") }
	get().want(t, http.StatusOK).field(t, "Ratelimit-Policy", `"per-customer";q=100;w=60`)

	write(strings.Replace(string(text), "pro: 100/minute", "pro: 100000/minute", 1))
	changed := get() // uses up the limit of before, and is denied
	applied := func() bool {
		return strings.HasPrefix(changed.Header.Get("Ratelimit-Policy"), `"per-customer";q=100000;`)
	}
	for deadline := time.Now().Add(time.Minute); !applied(); changed = get() {
		if time.Now().After(deadline) {
			t.Fatalf("a minute after the change: %s", changed.Header.Get("Ratelimit-Policy"))
		}
	}
	if left := changed.want(t, http.StatusOK).Header.Get("Ratelimit"); strings.HasPrefix(left,
		`"per-customer";r=99999;`) {
		t.Errorf("the change has forgotten what was used: %s", left)
	}
	send(t, "POST", url+"/upload", "", "X-API-Key", "k-bob").want(t, http.StatusOK)
	for range 9 {
		logIn(t, url, "ann", "guess").want(t, http.StatusUnauthorized)
	}
}

func TestPolicyHasRulesOfEveryKind(t *testing.T) {
	text, err := os.ReadFile("policy/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	lasting := strings.Replace(string(text), "until: 2031-01-01", "until: 9999-12-31", 1)
	if err := os.WriteFile(file, []byte(lasting), 0o666); err != nil {
		t.Fatal(err)
	}
	url := start(t, "policy", "POLICY="+file)
	as := func(key, method, path string) answer { return send(t, method, url+path, "", "X-API-Key", key) }

	as("k-alice", "GET", "/").want(t, http.StatusOK).
		field(t, "Ratelimit-Policy", `"per-customer";q=100;w=60`)
	as("k-bob", "GET", "/").want(t, http.StatusOK).field(t, "Ratelimit-Policy", `"per-customer";q=20;w=60`)
	as("k-carol", "GET", "/").want(t, http.StatusOK).field(t, "Ratelimit-Policy", `"per-customer";q=200;w=60`)
	as("unknown", "GET", "/").want(t, http.StatusOK).field(t, "Ratelimit-Policy", `"per-customer";q=10;w=60`)
	as("k-alice", "GET", "/healthz").want(t, http.StatusOK).field(t, "Ratelimit-Policy", "")

	for range 4 { // 400 estimated, 1000 spent
		as("k-alice", "POST", "/chat").want(t, http.StatusOK)
	}
	if a := denied(t, func() answer { return as("k-alice", "POST", "/chat") }); !strings.Contains(a.body,
		`["tokens"]`) {
		t.Errorf("tokens: %s", a.body)
	}
	report := denied(t, func() answer { return as("k-bob", "GET", "/reports/7") })
	fields := report.Header.Get("Ratelimit")
	for _, name := range []string{"tomorrow", "emergency", "service"} {
		if strings.Contains(fields, name) {
			t.Errorf("a shadow, a disabled or a hidden rule shows: %s", fields)
		}
	}
}
