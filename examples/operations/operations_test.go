package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// begin builds the program, runs it with ports of its own and returns its addresses.
func begin(t *testing.T, args ...string) (api, operators string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "operations")
	if out, err := testrun.Command(t, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := testrun.Command(t, program, args...)
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "ADMIN=127.0.0.1:0", "REDIS_URL=")
	lines := run(t, cmd)
	for _, found := range []struct {
		after string
		to    *string
	}{{"listening on ", &api}, {"operators: http://", &operators}} {
		line, err := lines.ReadString('\n')
		_, address, ok := strings.Cut(strings.TrimSpace(line), found.after)
		if !ok {
			t.Fatalf("the program logged %q (%v), want an address", line, err)
		}
		*found.to = "http://" + strings.TrimSpace(address)
	}
	go io.Copy(io.Discard, lines)
	return api, operators
}

// run starts a command, which it ends with the test, and returns what it logs.
func run(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	return bufio.NewReader(log)
}

// get returns the status and the body of an answer.
func get(t *testing.T, url string, fields ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		if r.Header.Set(fields[i], fields[i+1]); fields[i] == "Host" {
			r.Host = fields[i+1]
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// ask sends requests of two clients and returns how many were allowed and denied.
func ask(t *testing.T, api string) (allowed, denied int) {
	t.Helper()
	for i := range 60 {
		key := "client-1"
		if i%10 == 0 {
			key = "client-2"
		}
		switch status, _ := get(t, api+"/items", "X-API-Key", key); status {
		case http.StatusOK:
			allowed++
		case http.StatusTooManyRequests:
			denied++
		default:
			t.Fatalf("GET /items: %d", status)
		}
	}
	if allowed == 0 || denied == 0 {
		t.Fatalf("%d requests were allowed and %d denied", allowed, denied)
	}
	return allowed, denied
}

func TestMetricsAndPageShowTheRequestsThatWereSent(t *testing.T) {
	api, operators := begin(t)
	allowed, denied := ask(t, api)
	if status, _ := get(t, api+"/reports?rows=3", "X-API-Key", "reader"); status != http.StatusOK {
		t.Fatalf("GET /reports: %d", status)
	}
	_, metrics := get(t, operators+"/metrics")
	for _, line := range []string{
		fmt.Sprintf(`weir_requests_total{limiter="api",verdict="allowed"} %d`, allowed+1),
		fmt.Sprintf(`weir_requests_total{limiter="api",verdict="denied"} %d`, denied),
		fmt.Sprintf(`weir_rule_binding_total{limiter="api",rule="per-client"} %d`, denied),
		`weir_rule_units_total{limiter="api",rule="reports"} 10`,
		`weir_settled_units_total{kind="returned",limiter="api",rule="reports"} 7`,
		`weir_held_units{limiter="api"} 0`,
		`weir_memory_displaced_total{memory="main"} 0`,
		fmt.Sprintf(`weir_shed_requests_total{class="interactive",shedder="api",verdict="admitted"} %d`,
			allowed+denied+1),
		`weir_shed_requests_total{class="searches",shedder="api",verdict="shed"} 0`,
		`weir_shed_max_limit_requests{shedder="api"} 16`,
		`weir_shed_mode{mode="enforce",shedder="api"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics has no %s", line)
		}
	}
	if strings.Contains(metrics, "client-") || strings.Contains(metrics, "127.0.0.1") {
		t.Error("/metrics has a key")
	}
	if status, page := get(t, operators+"/"); status != http.StatusOK || !strings.Contains(page, "<title>") {
		t.Errorf("the page: %d\n%s", status, page)
	}
	if status, snapshot := get(t, operators+"/api/snapshot"); status != http.StatusOK ||
		!strings.Contains(snapshot, "per-client") || !strings.Contains(snapshot, `"Shedders":[{"Name":"api"`) {
		t.Errorf("api/snapshot: %d\n%s", status, snapshot)
	}
}

func TestAnInventedKeyIsNoFreshBudget(t *testing.T) {
	api, _ := begin(t)
	denied := 0
	for i := range 200 { // 20 at once, and 10 a second
		status, _ := get(t, api+"/items", "X-API-Key", fmt.Sprint("invented-", i))
		if status == http.StatusTooManyRequests {
			denied++
		}
	}
	if denied == 0 {
		t.Error("200 requests at once with a key each: none is denied")
	}
}

// DNS rebinding: a page in an operator's browser asks by a name of its own, which leads here.
func TestOperatorsAreAnsweredUnderNoOtherName(t *testing.T) {
	_, operators := begin(t)
	for _, path := range []string{"/metrics", "/", "/api/snapshot"} {
		for host, want := range map[string]int{
			"rebound.example": http.StatusMisdirectedRequest, "rebound.example:8081": http.StatusMisdirectedRequest,
			"127.0.0.1.rebound.example": http.StatusMisdirectedRequest,
			"[::1].rebound.example":     http.StatusMisdirectedRequest,
			"localhost:8081":            http.StatusOK, "127.0.0.1": http.StatusOK, "[::1]:8081": http.StatusOK,
		} {
			if status, _ := get(t, operators+path, "Host", host); status != want {
				t.Errorf("%s of %s: %d, want %d", path, host, status, want)
			}
		}
	}
}

// What Prometheus has scraped and answers is what was sent.
func TestPrometheusCountsTheRequestsThatWereSent(t *testing.T) {
	testrun.Program(t, "prometheus")
	api, operators := begin(t)
	allowed, denied := ask(t, api)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: weir, static_configs: [{targets: [\"" +
		strings.TrimPrefix(operators, "http://") + "\"]}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	cmd := testrun.Command(t, "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	go io.Copy(io.Discard, run(t, cmd))
	for _, row := range []struct {
		query string
		want  int
	}{
		{`sum(weir_requests_total)`, allowed + denied},
		{`sum(weir_requests_total{verdict="allowed"})`, allowed},
		{`sum(weir_requests_total{verdict="denied"})`, denied},
		{`sum(weir_rule_decisions_total{rule="per-client",decision="denied"})`, denied},
		{`sum(weir_rule_decisions_total{rule="next-year"})`, allowed + denied},
		{`sum(weir_rule_units_total{rule="per-client"})`, allowed},
	} {
		awaitValue(t, "http://"+address, row.query, fmt.Sprint(row.want))
	}
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// awaitValue asks Prometheus until it has a value, and a minute at most.
func awaitValue(t *testing.T, prometheus, query, want string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		response, err := http.Get(prometheus + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			continue // it does not listen yet
		}
		var answer struct {
			Data struct {
				Result []struct{ Value [2]any }
			}
		}
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err == nil && len(answer.Data.Result) == 1 {
			if got = fmt.Sprint(answer.Data.Result[0].Value[1]); got == want {
				return
			}
		}
	}
	t.Errorf("%s is %q, want %s", query, got, want)
}

// The load is there to look at: it must reach every rule.
func TestLoadGivesSomethingToSee(t *testing.T) {
	_, operators := begin(t, "-load")
	missing := map[string]bool{
		`weir_rule_binding_total{limiter="api",rule="per-client"}`:                                                   true,
		`weir_rule_decisions_total{decision="denied",limiter="api",mode="shadow",rule="next-year",source="primary"}`: true,
		`weir_rule_units_total{limiter="api",rule="reports"}`:                                                        true,
		`weir_settlements_total{limiter="api",result="done",rule="at-once"}`:                                         true,
		`weir_shed_requests_total{class="searches",shedder="api",verdict="shed"}`:                                    true,
	}
	tick := time.Tick(100 * time.Millisecond)
	for deadline := time.Now().Add(time.Minute); len(missing) > 0 && time.Now().Before(deadline); <-tick {
		_, metrics := get(t, operators+"/metrics")
		for line := range strings.Lines(metrics) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			if value != "0" {
				delete(missing, series+"}")
			}
		}
	}
	for series := range missing {
		t.Errorf("after a minute, %s is 0", series)
	}
}

// The line of the guide for a program behind a proxy: one client is denied, another one is served.
func TestTheServiceBehindAProxyCountsClients(t *testing.T) {
	nginx := testrun.Program(t, "nginx")
	dir := t.TempDir()
	text, err := os.ReadFile("reload/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := strings.NewReplacer("{peer: true}", "{trusted-proxies: [127.0.0.1]}", "/minute", "/365d")
	proxy, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "reload")
	if out, err := testrun.Command(t, "go", "build", "-o", program, "./reload").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	service := testrun.Command(t, program)
	service.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "ADMIN=127.0.0.1:0",
		"POLICY="+write("weir.yaml", rules.Replace(string(text))))
	logged := run(t, service)
	line, err := logged.ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !found {
		t.Fatalf("the program logged %q (%v), want an address", line, err)
	}
	go io.Copy(io.Discard, logged)
	write("nginx.conf", fmt.Sprintf(`daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  server {
    listen %s;
    location / {
      proxy_pass http://%s;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }
  }
}
`, proxy, address))
	listens(t, testrun.Command(t, nginx, "-p", dir, "-c", "nginx.conf"), proxy)
	from := func(address string) func() int {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		base := &http.Transport{DialContext: dialer.DialContext}
		t.Cleanup(base.CloseIdleConnections)
		return func() int {
			r, err := http.NewRequest("GET", "http://"+proxy+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := base.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			return response.StatusCode
		}
	}
	limited, innocent := from("127.0.0.1"), from("127.0.0.2")
	for range 20 {
		if got := limited(); got != http.StatusOK {
			t.Fatalf("%d, want 200", got)
		}
	}
	for range 20 {
		if got := limited(); got != http.StatusTooManyRequests {
			t.Errorf("%d, want 429", got)
		}
		if got := innocent(); got != http.StatusOK {
			t.Errorf("an innocent client: %d", got)
		}
	}
}

// listens runs a command, which it ends with the test, and waits until it listens.
func listens(t *testing.T, cmd *exec.Cmd, address string) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		ended <- <-ended
	})
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%v has ended (%v): %s", cmd, err, &log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
