package serve

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
)

// change sends a change to the operator's port, and returns status and body of the answer.
func (r *running) change(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, "http://"+r.operator+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestAnOperatorGivesOneClientMore(t *testing.T) {
	for _, where := range []string{"memory", "Redis", "Redis with leases"} {
		t.Run(where, func(t *testing.T) {
			config := Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, OperatorChanges: true}
			if where != "memory" {
				config.Redis, config.Budget = "redis://"+startRedis(t), time.Minute // however slow the machine is
			}
			if where == "Redis with leases" {
				config.Lease = 100 * time.Millisecond
			}
			r := start(t, config)
			count := func(client string, times int) (allowed int) {
				for range times {
					status, _ := ask(t, http.DefaultClient, "http://"+r.check+"/check",
						func(h http.Header) { h.Set("X-Forwarded-For", client) })
					if status == 204 {
						allowed++
					}
				}
				return allowed
			}
			if got := count("203.0.113.7", 3); got != 1 {
				t.Errorf("%d are allowed before, want 1", got)
			}
			path := "/api/overrides/checks/per-client/" + keyfuncs.Digest("203.0.113.7")
			status, text := r.change(t, "PUT", path, `{"Key":"203.0.113.7","Limit":"4/day","Until":"1h","Why":"ticket 7"}`)
			if status != 201 || !strings.Contains(text, `"Limit":"sliding-window 4/1d"`) {
				t.Fatalf("%d %s", status, text)
			}
			if one, other := count("203.0.113.7", 5), count("203.0.113.8", 5); one != 3 || other != 1 {
				t.Errorf("%d and %d are allowed under the override, want 3 and 1", one, other)
			}
			if status, text := r.change(t, "DELETE", path, ""); status != 204 {
				t.Errorf("%d %s", status, text)
			}
			if got := count("203.0.113.7", 3); got != 0 {
				t.Errorf("%d are allowed after it", got)
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
			log := r.log.String()
			if strings.Contains(log, "203.0.113.7") || strings.Count(log, "weir: admin: change") != 2 ||
				!strings.Contains(log, "who=operator action=override-key limiter=checks rule=per-client") {
				t.Errorf("%s", log)
			}
		})
	}
}

// startRedis starts a server, which ends with the test, and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	server := testrun.Command(t, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	for answers := false; !answers; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if answers = err == nil; answers {
			conn.Close()
		}
	}
	return address
}

func TestAServiceChangesNothingUnlessItsFlagSaysSo(t *testing.T) {
	r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}})
	for _, one := range []struct{ method, path, body string }{
		{"PUT", "/api/overrides/checks/per-client", `{"Limit":"4/day"}`},
		{"DELETE", "/api/overrides/checks/per-client", ""},
		{"POST", "/api/limit", `{"Rule":"per-client","Limit":"4/day"}`},
	} {
		status, text := r.change(t, one.method, one.path, one.body)
		if status != 403 || !strings.Contains(text, "--operator-changes") {
			t.Errorf("%s %s: %d %s", one.method, one.path, status, text)
		}
	}
	if _, text := get(t, "http://"+r.operator+"/api/overrides"); text != `{"Overrides":[]}` {
		t.Error(text)
	}
}

// A policy file hides a rule from clients while the service runs.
func TestAHiddenRuleIsSeenByOperatorsAlone(t *testing.T) {
	const shown = "version: 1\nclient: {peer: true}\nrules:\n" +
		"  - {name: per-client, key: address, limit: token-bucket 9/day}\n" +
		"  - {name: all, key: everybody, limit: token-bucket 2/day}\n"
	path := fileOf(t, "weir.yaml", shown)
	r := start(t, Config{Paths: []string{path}})
	want := func(status int, policy string) {
		t.Helper()
		got, h := ask(t, http.DefaultClient, "http://"+r.check+"/check")
		if got != status || h.Get("RateLimit-Policy") != policy ||
			strings.Contains(h.Get("RateLimit"), `"all"`) != strings.Contains(policy, `"all"`) {
			t.Errorf("%d with %v, want %d with %s", got, h, status, policy)
		}
	}
	const own = `"per-client";q=9;w=86400`
	want(http.StatusNoContent, own+`, "all";q=2;w=86400`)
	hidden := strings.Replace(shown, "limit: token-bucket 2/day", "hidden: true, limit: token-bucket 2/day", 1)
	if err := os.WriteFile(path, []byte(hidden), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the second is handed on once the first is done, and the third received after that
		r.reload <- struct{}{}
	}
	want(http.StatusNoContent, own)
	want(http.StatusTooManyRequests, own)
	for place, text := range map[string]string{
		"/metrics":      `weir_rule_binding_total{limiter="checks",rule="all"} 1`,
		"/api/snapshot": `"Name":"all"`,
	} {
		if _, said := get(t, "http://"+r.operator+place); !strings.Contains(said, text) {
			t.Errorf("%s has no %s:\n%.4000s", place, text, said)
		}
	}
	r.end()
	if change := `hidden: false → true`; !strings.Contains(r.log.String(), change) {
		t.Errorf("no line says %s:\n%s", change, r.log)
	}
}
