//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

const (
	deploy     = "../../deploy"
	guide      = "../../docs/gateway.md"
	unit       = deploy + "/systemd/weir.service"
	compose    = deploy + "/compose"
	kubernetes = deploy + "/kubernetes/weir.yaml"
)

// asCommand has this binary run as the command itself.
const asCommand = "WEIR_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is the command, or another program, that runs.
type process struct {
	*exec.Cmd
	log   journal
	ended chan error
}

// begin starts a program, which ends with the test.
func begin(t *testing.T, dir string, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: testrun.Command(t, name, args...), ended: make(chan error, 1)}
	p.Dir, p.Stdout, p.Stderr, p.Env = dir, &p.log, &p.log, append(os.Environ(), env...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.Wait() }()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s:\n%s", name, &p.log)
		}
	})
	return p
}

// end sends signals, and waits for the end.
func (p *process) end(t *testing.T, signals ...os.Signal) {
	t.Helper()
	for _, s := range signals {
		p.Process.Signal(s)
	}
	err := <-p.ended
	p.ended <- err
	if err != nil {
		t.Errorf("%s ends with %v", p.Path, err)
	}
}

// deployment is what a file of deploy says about the service.
type deployment struct {
	args            []string
	policy          []byte
	delay, drain    time.Duration // of args
	grace           time.Duration // how long the service has to end
	unready, alive  string        // paths of probes
	noticed         time.Duration // how long the probes take to see that it is not ready
	redis, reloaded bool
}

// deployments reads all files of deploy.
func deployments(t *testing.T) map[string]deployment {
	t.Helper()
	policy := read(t, compose+"/policy/weir.yaml")
	all := map[string]deployment{
		"systemd": {args: strings.Fields(setting(t, "ExecStart")), policy: policy, reloaded: true,
			grace: duration(t, setting(t, "TimeoutStopSec")+"s")},
	}
	var file struct {
		Services map[string]struct {
			Command []string
			Grace   string `yaml:"stop_grace_period"`
		}
	}
	decode(t, read(t, compose+"/compose.yaml"), &file)
	weir := file.Services["weir"]
	all["compose"] = deployment{args: append([]string{"weir"}, weir.Command...), policy: policy,
		grace: duration(t, weir.Grace)}

	type probe struct {
		HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
		PeriodSeconds    int                         `yaml:"periodSeconds"`
		FailureThreshold int                         `yaml:"failureThreshold"`
	}
	var k deployment
	for decoder := yaml.NewDecoder(bytes.NewReader(read(t, kubernetes))); ; {
		var object struct {
			Kind string
			Data map[string]string
			Spec struct {
				Template struct {
					Spec struct {
						Grace      int `yaml:"terminationGracePeriodSeconds"`
						Containers []struct {
							Args      []string
							Readiness probe `yaml:"readinessProbe"`
							Liveness  probe `yaml:"livenessProbe"`
						}
					}
				}
			}
		}
		if err := decoder.Decode(&object); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch object.Kind {
		case "ConfigMap":
			k.policy = []byte(object.Data["weir.yaml"])
		case "Deployment":
			c := object.Spec.Template.Spec.Containers[0]
			k.args, k.redis = append([]string{"weir"}, c.Args...), true
			k.grace = time.Duration(object.Spec.Template.Spec.Grace) * time.Second
			k.unready, k.alive = c.Readiness.HTTPGet.Path, c.Liveness.HTTPGet.Path
			k.noticed = time.Duration(c.Readiness.PeriodSeconds*c.Readiness.FailureThreshold) * time.Second
		}
	}
	all["kubernetes"] = k
	for name, d := range all {
		d.delay, d.drain = flagOf(t, d.args, "--drain-delay"), flagOf(t, d.args, "--drain")
		all[name] = d
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// setting returns one of the unit.
func setting(t *testing.T, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindSubmatch(read(t, unit))
	if m == nil {
		t.Fatalf("%s has no %s", unit, name)
	}
	return string(m[1])
}

// flagOf returns a flag, as in "--drain 10s" or "--drain=10s", 0 if it is not there.
func flagOf(t *testing.T, args []string, name string) time.Duration {
	t.Helper()
	for i, arg := range args {
		if arg == name {
			return duration(t, args[i+1])
		}
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return duration(t, value)
		}
	}
	return 0
}

// serve starts the command as a deployment does, on free ports and with its policy in a directory.
func (d deployment) serve(t *testing.T) *process {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), d.policy, 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(d.args[1:])
	for i, arg := range args {
		args[i] = strings.ReplaceAll(strings.Trim(arg, `"`), "/etc/weir", dir)
	}
	args = append(args, "--check", "127.0.0.1:0", "--operator", "127.0.0.1:0", "--proxy", "127.0.0.1")
	if !slices.Contains(args, "--grpc") {
		args = append(args, "--grpc", "127.0.0.1:0")
	}
	env := []string{asCommand + "=1"}
	if d.redis {
		env = append(env, "WEIR_REDIS_URL=redis://127.0.0.1:1") // no server
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := begin(t, dir, env, self, args...)
	p.log.wait(t, "serve: ready")
	return p
}

// at returns where the service listens.
func (p *process) at(t *testing.T, what string) string {
	t.Helper()
	return p.log.wait(t, `"?for"?[=:]"?`+what+`"?,? ?"?address"?[=:]"?([0-9.:]+)`)
}

func get(t *testing.T, method, url, from string) (*http.Response, string) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	base := &http.Transport{DialContext: dialer.DialContext}
	defer base.CloseIdleConnections()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := base.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestTheServiceRunsAsEachDeploymentSays(t *testing.T) {
	for name, d := range deployments(t) {
		t.Run(name, func(t *testing.T) {
			p := d.serve(t)
			for _, probe := range []string{d.unready, d.alive} {
				if probe == "" {
					continue
				}
				if r, _ := get(t, "GET", "http://"+p.at(t, "operator")+probe, "127.0.0.1"); r.StatusCode != 200 {
					t.Errorf("%s: %s", probe, r.Status)
				}
			}
			if d.reloaded {
				p.Process.Signal(syscall.SIGHUP)
				p.log.wait(t, "files are read again")
			}
			if d.delay == 0 {
				p.end(t, syscall.SIGTERM)
				return
			}
			p.Process.Signal(syscall.SIGTERM)
			p.log.wait(t, "not ready, listeners stay open")
			if r, _ := get(t, "GET", "http://"+p.at(t, "operator")+d.unready, "127.0.0.1"); r.StatusCode != 503 {
				t.Errorf("%s of a service that ends: %s", d.unready, r.Status)
			}
			p.end(t, syscall.SIGTERM) // at once
		})
	}
}

func TestADeploymentLetsTheServiceDrain(t *testing.T) {
	for name, d := range deployments(t) {
		if d.drain == 0 || d.grace <= d.delay+d.drain {
			t.Errorf("%s: %v to end, and the service takes up to %v and %v", name, d.grace, d.delay, d.drain)
		}
		if d.noticed >= d.delay && d.unready != "" {
			t.Errorf("%s: probes take %v to see that it is not ready, and it stays for %v",
				name, d.noticed, d.delay)
		}
	}
}

func TestPoliciesOfDeploymentsHaveNoMistakes(t *testing.T) {
	for name, d := range deployments(t) {
		var said bytes.Buffer
		path := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(path, d.policy, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := run([]string{"check", "--strict", path}, strings.NewReader(""), &said, &said); code != 0 {
			t.Errorf("%s: %d\n%s", name, code, &said)
		}
	}
}

// block returns a file that the guide shows.
func block(t *testing.T, name string) string {
	t.Helper()
	_, text, found := strings.Cut(string(read(t, guide)), "```text\n# "+name+"\n")
	if !found {
		t.Fatalf("%s has no %s", guide, name)
	}
	text, _, _ = strings.Cut(text, "```")
	return text
}

func TestFilesOfComposeAreThoseOfTheGuide(t *testing.T) {
	for path, want := range map[string]string{
		"nginx.conf": regexp.MustCompile(`(?m)^pid nginx.pid;.*$`).ReplaceAllString(strings.NewReplacer(
			"127.0.0.1:8080", "weir:8080", "127.0.0.1:9000", "app:9000").Replace(block(t, "nginx.conf")),
			"pid /run/nginx.pid;"),
		"policy/weir.yaml": block(t, "weir.yaml"),
	} {
		_, got, _ := strings.Cut(string(read(t, filepath.Join(compose, path))), "\n") // after a comment
		if got != want {
			t.Errorf("%s differs from %s:\n%s\nwant\n%s", path, guide, got, want)
		}
	}
}

// The three programs of compose, without containers.
func TestNginxPythonAndWeirServeAsComposeSays(t *testing.T) {
	nginx, python := testrun.Program(t, "nginx"), testrun.Program(t, "python3")
	weir := deployments(t)["compose"].serve(t)
	free := func() string {
		t.Helper()
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
	dir, web, app := t.TempDir(), free(), free()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := net.SplitHostPort(app)
	write("app.py", strings.ReplaceAll(string(read(t, compose+"/app.py")), "9000", port))
	write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+strings.NewReplacer(
		"weir:8080", weir.at(t, "check"), "app:9000", app, "listen 8000", "listen "+web,
		"pid /run/nginx.pid;", "pid nginx.pid;").Replace(string(read(t, compose+"/nginx.conf"))))
	await := func(p *process, address string) {
		t.Helper()
		for {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
				return
			}
			select {
			case err := <-p.ended:
				p.ended <- err
				t.Fatalf("%s has ended: %v", p.Path, err)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	await(begin(t, dir, nil, python, "-u", "app.py"), app)
	await(begin(t, dir, nil, nginx, "-p", dir, "-c", "nginx.conf"), web)

	want := func(from, method, path string, status int) {
		t.Helper()
		r, body := get(t, method, "http://"+web+path, from)
		if r.StatusCode != status || r.Header.Get("RateLimit") == "" ||
			status == 200 && body != "Hello from Python.\n" ||
			status == 429 && r.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s from %s: %s, want %d, %v\n%s", method, path, from, r.Status, status, r.Header, body)
		}
	}
	want("127.0.0.1", "POST", "/login", 200)
	want("127.0.0.1", "POST", "/login", 200)
	want("127.0.0.1", "POST", "/login", 429)
	for range 8 {
		want("127.0.0.1", "GET", "/", 200)
	}
	want("127.0.0.1", "GET", "/", 429)
	want("127.0.0.2", "GET", "/", 200)
	weir.end(t, syscall.SIGTERM)
}

func TestSystemdTakesTheUnit(t *testing.T) {
	systemd := testrun.Program(t, "systemd-analyze")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "weir.service")
	verify := func(text string, args ...string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := testrun.Command(t, systemd, append(args, path)...).CombinedOutput()
		if err != nil {
			return fmt.Sprintf("%v\n%s", err, out)
		}
		return string(out)
	}
	text := strings.ReplaceAll(string(read(t, unit)), "/usr/local/bin/weir", self)
	if said := verify(text, "verify", "--man=no"); said != "" {
		t.Error(said)
	}
	if said := verify(text+"\n[Service]\nProtectSistem=yes\n", "verify", "--man=no"); said == "" {
		t.Error("systemd-analyze says nothing about a mistake")
	}
	// From 0 to 100, least exposed first.
	if said := verify(text, "security", "--offline=true", "--threshold=15"); strings.Contains(said, "exit status") {
		t.Error(said)
	}
}

// calls returns the system calls of filters of systemd, each of which may name others.
func calls(t *testing.T, systemd string, filters ...string) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	for len(filters) > 0 {
		out, err := testrun.Command(t, systemd, append([]string{"syscall-filter"}, filters...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		filters = nil
		for line := range strings.Lines(string(out)) {
			switch name := strings.TrimSpace(line); {
			case !strings.HasPrefix(line, " "), strings.HasPrefix(name, "#"), all[name]:
			case name[0] == '@':
				filters = append(filters, name)
				fallthrough
			default:
				all[name] = true
			}
		}
	}
	return all
}

// A call that the unit forbids would fail there alone: no test runs systemd itself.
func TestTheUnitAllowsWhatTheServiceCalls(t *testing.T) {
	systemd, strace := testrun.Program(t, "systemd-analyze"), testrun.Program(t, "strace")
	allowed := make(map[string]bool) // each line adds to those before, or takes from them
	lines := regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.*)$`).FindAllSubmatch(read(t, unit), -1)
	for _, line := range lines {
		for call := range calls(t, systemd, strings.Fields(string(line[2]))...) {
			allowed[call] = len(line[1]) == 0
		}
	}
	if !allowed["accept4"] || allowed["setpriority"] {
		t.Fatalf("filters are not understood: %q", lines)
	}
	dir := t.TempDir()
	policy, trace := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "trace")
	if err := os.WriteFile(policy, read(t, compose+"/policy/weir.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := begin(t, dir, []string{asCommand + "=1"}, strace, "-f", "-qq", "-o", trace, self, "serve",
		"--check", "unix:check", "--socket-group", fmt.Sprint(os.Getgid()), "--grpc", "127.0.0.1:0",
		"--operator", "127.0.0.1:0", "--redis", "redis://localhost:1", policy)
	p.log.wait(t, "serve: ready")
	get(t, "GET", "http://"+p.at(t, "operator")+"/metrics", "127.0.0.1")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Sscan(string(children), &child); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(child, syscall.SIGHUP)
	p.log.wait(t, "files are read again")
	syscall.Kill(child, syscall.SIGTERM)
	p.end(t)
	called := regexp.MustCompile(`(?m)^[0-9]+ +(\w+)\(`).FindAllSubmatch(read(t, trace), -1)
	for _, call := range called {
		if name := string(call[1]); !allowed[name] {
			t.Errorf("the unit forbids %s", name)
			allowed[name] = true // said once
		}
	}
	if len(called) < 100 {
		t.Errorf("the trace has %d calls", len(called))
	}
}

func TestComposeTakesItsFile(t *testing.T) {
	testrun.FullOnly(t, "installs the parser of Docker Compose")
	dir := t.TempDir()
	install := testrun.Command(t, "go", "install", "github.com/compose-spec/compose-go/v2/cmd@v2.16.2")
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(read(t, compose+"/compose.yaml"))
	for change, fine := range map[string]bool{"": true, "stop_grace_periods": false} {
		path := filepath.Join(dir, "compose.yaml")
		changed := text
		if change != "" {
			changed = strings.Replace(text, "stop_grace_period", change, 1)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := testrun.Command(t, filepath.Join(dir, "cmd"), path).CombinedOutput()
		if (err == nil) != fine {
			t.Errorf("with %q: %v\n%s", change, err, out)
		}
	}
}

func TestKubernetesTakesTheManifest(t *testing.T) {
	testrun.FullOnly(t, "installs schemas of Kubernetes")
	dir := t.TempDir()
	install := testrun.Command(t, "python3", "-m", "pip", "install", "-q", "--target", dir, "kubernetes-validate==1.37.0")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("pip: %v\n%s", err, out)
	}
	text := string(read(t, kubernetes))
	for change, fine := range map[string]bool{"": true, "replicsa: 2": false} {
		path := filepath.Join(dir, "weir.yaml")
		changed := text
		if change != "" {
			changed = strings.Replace(text, "replicas: 2", change, 1)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		check := testrun.Command(t, "python3", "-m", "kubernetes_validate", "--strict", path)
		check.Env = append(os.Environ(), "PYTHONPATH="+dir)
		out, err := check.CombinedOutput()
		if (err == nil) != fine || fine && bytes.Count(out, []byte(" passed ")) != 5 {
			t.Errorf("with %q: %v\n%s", change, err, out)
		}
	}
}
