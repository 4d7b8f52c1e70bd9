// Package examples tests the example programs by running them.
package examples

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
)

var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// build returns the path of an example's program. All are built at once. In a full run they wait
// for Redis for as long as a call may take, more than a second, and not for 50 ms: a machine that
// stalls for those would have them decide without Redis.
func build(t testing.TB, name string) string {
	t.Helper()
	testrun.DependsOnSource(t, "..")
	built.once.Do(func() { built.dir, built.err = buildAll(t) })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, name)
}

func buildAll(t testing.TB) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "examples"); err != nil {
		return dir, err
	}
	var flags []string
	if testrun.Full() {
		overlay, err := patience(dir)
		if err != nil {
			return dir, err
		}
		flags = append(flags, "-overlay="+overlay)
	}
	mains, err := filepath.Glob("*/main.go")
	if err != nil {
		return dir, err
	}
	var ofThisModule []string
	for _, main := range mains {
		path := filepath.Dir(main)
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err != nil {
			ofThisModule = append(ofThisModule, "./"+path)
		}
	}
	err = goBuild(t, ".", dir, ofThisModule, flags...)
	if testrun.Full() {
		err = cmp.Or(err, goBuild(t, "echo5", dir, []string{"."}), goBuild(t, "fiber", dir, []string{"."}))
	}
	return dir, cmp.Or(err, goBuild(t, ".", filepath.Join(dir, "systems"), []string{"./systems/..."}, flags...),
		goBuild(t, "systems/crawlers", filepath.Join(dir, "systems"), []string{"."}, flags...)) // of its own module
}

// goBuild builds programs of the module at a path, and puts them into dir.
func goBuild(t testing.TB, module, dir string, programs []string, flags ...string) error {
	args := append([]string{"build", "-ldflags=-s -w", "-o", dir + "/"}, flags...)
	build := testrun.Command(t, "go", append(args, programs...)...)
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// patience writes to dir how go build replaces the time that package remote gives a decision,
// besides what GOFLAGS have it replace (.ci/stalls).
func patience(dir string) (overlay string, err error) {
	var files struct{ Replace map[string]string }
	for _, flag := range strings.Fields(os.Getenv("GOFLAGS")) {
		if path, ok := strings.CutPrefix(flag, "-overlay="); ok {
			text, err := os.ReadFile(path)
			if err := cmp.Or(err, json.Unmarshal(text, &files)); err != nil {
				return "", err
			}
		}
	}
	file, err := filepath.Abs("../remote/breaker.go")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	impatient := []byte(`cmp.Or(options.Budget, defaultBudget)`)
	if err != nil || bytes.Count(text, impatient) != 1 {
		return "", fmt.Errorf("%s does not have %s once (%v)", file, impatient, err)
	}
	patient := bytes.Replace(text, impatient, []byte(`cmp.Or(options.Budget, 10*time.Second)`), 1)
	if files.Replace == nil {
		files.Replace = make(map[string]string)
	}
	files.Replace[file] = filepath.Join(dir, "breaker.go")
	all, err := json.Marshal(files)
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, cmp.Or(err, os.WriteFile(files.Replace[file], patient, 0o600), os.WriteFile(overlay, all, 0o600))
}

// start builds and runs an example and returns its URL. env adds to the environment.
func start(t *testing.T, name string, env ...string) string {
	t.Helper()
	return launch(t, build(t, name), env...)
}

// launch runs a program and returns its URL. When the test ends, launch stops the program, which
// must not have ended before, and must then end without an error.
func launch(t testing.TB, program string, env ...string) string {
	t.Helper()
	name := filepath.Base(program)
	cmd := testrun.Command(t, program)
	cmd.Env = append(append(os.Environ(), "ADDR=127.0.0.1:0", "ADMIN=127.0.0.1:0", "REDIS_URL="), env...)
	log, logged, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = logged
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	logged.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stuck := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	lines := bufio.NewReader(log)
	t.Cleanup(func() {
		defer log.Close()
		defer stuck.Stop()
		when, err := "before it was stopped", error(nil)
		select {
		case err = <-ended:
			err = cmp.Or(err, errors.New("it has ended"))
		default:
			cmd.Process.Signal(syscall.SIGTERM)
			when, err = "after SIGTERM", <-ended
		}
		if rest, _ := io.ReadAll(lines); err != nil {
			t.Errorf("%s, %s: %v\n%s", name, when, err, rest)
		}
	})
	var said strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if _, addr, ok := strings.Cut(strings.TrimSpace(line), "listening on "); ok {
			return "http://" + addr
		}
		if said.WriteString(line); err != nil {
			t.Fatalf("%s logged %q (%v), want the address", name, said.String(), err)
		}
	}
}

type answer struct {
	*http.Response
	body string
}

func send(t *testing.T, method, url, body string, fields ...string) answer {
	t.Helper()
	return sendBy(t, http.DefaultClient, method, url, body, fields...)
}

func sendBy(t *testing.T, client *http.Client, method, url, body string, fields ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(text)}
}

func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d\n%v\n%s", a.Request.Method, a.Request.URL.Path, a.Status, status, a.Header, a.body)
	}
	if retry := a.Header.Get("Retry-After"); (status == http.StatusTooManyRequests) != (retry != "") {
		t.Errorf("%s with Retry-After %q", a.Status, retry)
	}
	return a
}

func (a answer) field(t *testing.T, name, want string) {
	t.Helper()
	if got := a.Header.Get(name); !strings.HasPrefix(got, want) || want == "" && got != "" {
		t.Errorf("%s %s, %s: %s %q, want %q", a.Request.Method, a.Request.URL.Path, a.Status, name, got, want)
	}
}

// A sliding window of a minute may regain a unit or two while a test runs, so these
// tests send requests beyond the limit until one is denied.
func denied(t *testing.T, ask func() answer) answer {
	t.Helper()
	for range 50 {
		if a := ask(); a.StatusCode == http.StatusTooManyRequests {
			return a.want(t, http.StatusTooManyRequests)
		}
	}
	t.Fatal("never denied")
	return answer{}
}

func TestAProgramThatCannotListenSaysSoAndFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	fails := func(name string, env ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := testrun.CommandContext(ctx, t, build(t, name))
		cmd.Dir = ".." // programs find their policies from the root
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if _, failed := err.(*exec.ExitError); !failed || !strings.Contains(string(out), "listen tcp") {
			t.Errorf("%s with %v: %v, said %q, want it to fail and say why", name, env, err, out)
		}
	}
	for _, name := range append(systems(t), "chi", "echo", "gin", "layers", "quickstart", "quota", "uploads") {
		fails(name, "ADDR="+taken.Addr().String(), "ADMIN=127.0.0.1:0")
	}
	for _, name := range []string{"systems/envoy", "systems/stripe"} { // with nobody able to switch or look
		fails(name, "ADDR=127.0.0.1:0", "ADMIN="+taken.Addr().String())
	}
}

func TestAProgramDoesNotLogThePasswordOfRedis(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := testrun.CommandContext(ctx, t, build(t, "redis"))
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "REDIS_URL=redis://:hunter2@host:port")
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); !failed || !strings.Contains(string(out), "REDIS_URL") ||
		strings.Contains(string(out), "hunter2") {
		t.Errorf("%v, said %q, want it to fail and name REDIS_URL", err, out)
	}
}

func TestQuickstart(t *testing.T) {
	at := start(t, "quickstart")
	first := send(t, "GET", at+"/", "").want(t, 200)
	if !strings.HasSuffix(first.body, "\n") {
		t.Errorf("body %q, want a line", first.body)
	}
	first.field(t, "RateLimit", `"per-address";r=9;t=54`)
	first.field(t, "RateLimit-Policy", `"per-address";q=10;w=60`)
	for range 9 {
		send(t, "GET", at+"/", "").want(t, 200)
	}
	last := denied(t, func() answer { return send(t, "GET", at+"/", "") })
	last.field(t, "RateLimit", `"per-address";r=0;t=`+last.Header.Get("Retry-After"))
	last.field(t, "Content-Type", "application/problem+json")
	if seconds, err := strconv.Atoi(last.Header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 60 {
		t.Errorf("Retry-After %q", last.Header.Get("Retry-After"))
	}
}

func TestLayers(t *testing.T) {
	at := start(t, "layers")
	a := send(t, "GET", at+"/anything", "").want(t, 200)
	a.field(t, "RateLimit", `"global";r=999;t=1, "anonymous";r=19;t=57`)
	a.field(t, "X-RateLimit-Limit", "20")
	a.field(t, "X-RateLimit-Remaining", "19")
	a = send(t, "POST", at+"/reports", "", "X-API-Key", "unknown").want(t, 200)
	if got := a.Header.Get("X-RateLimit-Remaining"); got != "9" && got != "10" {
		t.Errorf("a report left an anonymous caller %s, want 9", got)
	}
	denied(t, func() answer { return send(t, "POST", at+"/reports", "") })
	denied(t, func() answer { return send(t, "GET", at+"/anything", "", "X-API-Key", "another unknown") })

	a = send(t, "GET", at+"/", "", "X-API-Key", "free-1").want(t, 200)
	a.field(t, "X-RateLimit-Limit", "30")
	a = send(t, "GET", at+"/", "", "X-API-Key", "pro-1").want(t, 200)
	a.field(t, "X-RateLimit-Limit", "300")
	a = send(t, "GET", at+"/reports", "", "X-API-Key", "pro-1", "X-API-Key", "pro-1")
	a.field(t, "X-RateLimit-Limit", "20") // two lines of X-API-Key: choosing one would be a guess
	a = denied(t, func() answer { return send(t, "POST", at+"/reports", "", "X-API-Key", "free-1") })
	a.field(t, "X-RateLimit-Limit", "30")
	send(t, "POST", at+"/reports", "", "X-API-Key", "free-2").want(t, 200)
	for range 30 {
		send(t, "GET", at+"/healthz", "").want(t, 200).field(t, "RateLimit", "")
	}
}
