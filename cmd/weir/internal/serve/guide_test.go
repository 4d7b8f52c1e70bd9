package serve

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

const guide = "../../../../docs/gateway.md"

// blocks returns the files that the guide shows, by the names in their first lines.
func blocks(t *testing.T) map[string]string { return blocksOf(t, guide) }

func blocksOf(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for i, part := range strings.Split(string(text), "\n```") {
		body, ok := strings.CutPrefix(part, "text\n")
		first, _, _ := strings.Cut(body, "\n")
		fields := strings.Fields(first)
		if i%2 == 1 && ok && len(fields) > 1 && (fields[0] == "#" || fields[0] == "--") {
			files[fields[1]] = body + "\n"
		}
	}
	return files
}

// system is weir, a proxy and a program behind it, set up as the guide says.
type system struct {
	t      *testing.T
	dir    string
	ports  *strings.Replacer // from those of the guide to those of the test
	url    string            // of the proxy
	weir   *running
	files  map[string]string
	passed chan *http.Request // to the program
}

func setUp(t *testing.T, deniedStatus int, files ...string) *system {
	t.Helper()
	return setUpBy(t, blocks(t), deniedStatus, files...)
}

// setUpBy is setUp with other files than those of the guide.
func setUpBy(t *testing.T, blocks map[string]string, deniedStatus int, files ...string) *system {
	t.Helper()
	s := &system{t: t, dir: t.TempDir(), files: blocks, passed: make(chan *http.Request, 1000)}
	for _, name := range []string{"weir.yaml", "limits.yaml"} {
		// a test does not wait for the turn of an hour
		s.write(name, strings.ReplaceAll(s.files[name], "unit: hour", "unit: year"))
	}
	config := Config{DeniedStatus: deniedStatus, Drain: time.Second}
	for _, name := range files {
		config.Paths = append(config.Paths, filepath.Join(s.dir, name))
	}
	s.weir = start(t, config)
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.passed <- r
		if r.URL.Path == "/forbidden" {
			w.WriteHeader(http.StatusForbidden)
		}
		if strings.HasPrefix(r.URL.Path, "/pages/") {
			w.Header().Set("Cache-Control", "public, max-age=3600")
			w.Header().Set("RateLimit", `"app";r=0;t=60`)
			w.Header().Set("RateLimit-Policy", `"app";q=1;w=60`)
		}
		fmt.Fprintln(w, "Hello.")
	}))
	app.Config.Protocols = new(http.Protocols)
	app.Config.Protocols.SetHTTP1(true)
	app.Config.Protocols.SetUnencryptedHTTP2(true)
	app.Start()
	t.Cleanup(app.Close)
	proxy, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + proxy
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	s.ports = strings.NewReplacer("8000", port(proxy), "9000", port(app.Listener.Addr().String()),
		"8080", port(s.weir.check), "8081", port(s.weir.grpc))
	return s
}

// write writes a file, and returns its path.
func (s *system) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// config writes a file as the guide shows it, with the ports of the test.
func (s *system) config(name string) string {
	s.t.Helper()
	text, ok := s.files[name]
	if !ok {
		s.t.Fatalf("%s has no %s", guide, name)
	}
	return s.write(name, s.ports.Replace(text))
}

// run starts a proxy, and waits until it listens. It returns what kills it.
func (s *system) run(name string, args ...string) (kill func()) {
	s.t.Helper()
	var log bytes.Buffer
	cmd := testrun.Command(s.t, name, args...)
	cmd.Dir, cmd.Stderr, cmd.Stdout, cmd.Cancel = s.dir, &log, &log, nil
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	kill = func() {
		cmd.Process.Kill()
		<-ended
	}
	s.t.Cleanup(func() {
		kill()
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", name, &log)
		}
	})
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			conn.Close()
			return kill
		}
		select {
		case <-ended:
			s.t.Fatalf("%s %s has ended: %s", name, strings.Join(args, " "), &log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask sends a request, as a client that claims another address each time.
func (s *system) ask(method, path string) *http.Response {
	s.t.Helper()
	claims++
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", claims%250))
	r.Header.Set("X-Forwarded-Uri", "/free")
	r.Header.Set("X-Original-Uri", "/free")
	r.Header.Set("X-Original-Url", "http://free.example/free")
	r.Header.Set("X-Forwarded-Method", "OPTIONS")
	r.Header.Set("X-Original-Method", "OPTIONS")
	r.Header.Set("X-Forwarded-Host", "free.example")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response
}

var claims int

// want asks, and compares status and fields.
func (s *system) want(method, path string, status int, fields ...string) {
	s.t.Helper()
	response := s.ask(method, path)
	if response.StatusCode != status {
		body, _ := io.ReadAll(response.Body)
		s.t.Errorf("%s %s: %d, want %d, %v\n%s", method, path, response.StatusCode, status, response.Header, body)
	}
	for _, name := range fields {
		if got := response.Header.Values(name); len(got) != 1 || got[0] == "" {
			s.t.Errorf("%s %s: %d, %s is %q", method, path, response.StatusCode, name, got)
		} else if strings.HasPrefix(name, "RateLimit") && got[0][0] != '"' {
			s.t.Errorf("%s %s: %s is %q, which begins with no name of a rule", method, path, name, got)
		}
	}
}

// limited asks as often as weir.yaml allows, and once more.
func (s *system) limited(onAllowed ...string) {
	s.t.Helper()
	denied := []string{"RateLimit", "RateLimit-Policy", "Retry-After"}
	s.want("POST", "/login", 200, onAllowed...)
	s.want("POST", "/login?a=b%20c", 200, onAllowed...)
	s.want("POST", "/login", 429, denied...)
	s.want("POST", "//login", 429) // some spellings are refused before
	for range 8 {
		s.want("GET", "/login", 200, onAllowed...)
	}
	s.want("GET", "/", 429, denied...)
	if passed := len(s.passed); passed != 10 {
		s.t.Errorf("%d requests have passed", passed)
	}
	s.innocent("GET", "/", 10)
}

// innocent asks from another address, between requests of the limited client, which are denied. None
// of the n requests that this address may send is refused.
func (s *system) innocent(method, path string, n int) {
	s.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	base := &http.Transport{DialContext: dialer.DialContext}
	defer base.CloseIdleConnections()
	for i := range n {
		for range 3 {
			s.want(method, path, 429)
		}
		r, err := http.NewRequest(method, s.url+path, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		response, err := base.RoundTrip(r)
		if err != nil {
			s.t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 {
			s.t.Errorf("request %d of an innocent client: %s", i+1, response.Status)
		}
	}
}

// closed asks once weir has ended.
func (s *system) closed(status int) {
	s.t.Helper()
	for len(s.passed) > 0 {
		<-s.passed
	}
	s.weir.end()
	s.want("GET", "/", status)
	if len(s.passed) > 0 {
		s.t.Error("a request has passed without weir")
	}
}

func TestNginxAsTheGuideSetsItUp(t *testing.T) {
	nginx := testrun.Program(t, "nginx")
	s := setUp(t, http.StatusForbidden, "weir.yaml")
	s.config("nginx.conf")
	temp := ""
	for i, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path t%d; ", name, i)
	}
	text := strings.Replace(s.ports.Replace(s.files["nginx.conf"]), "http {", "http { access_log off; "+temp, 1)
	s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+text)
	s.run(nginx, "-p", s.dir, "-c", "nginx.conf")
	s.limited("RateLimit", "RateLimit-Policy")
	s.closed(500)
}

// What the guide says for those who let requests pass while weir is away lets nothing pass that weir
// has answered, such as a 503 for a path that no client of good will sends.
func TestNginxLetsPassOnlyWhatWeirDoesNotAnswer(t *testing.T) {
	nginx := testrun.Program(t, "nginx")
	s := setUp(t, http.StatusForbidden, "weir.yaml")
	text := strings.Replace(s.ports.Replace(s.files["nginx.conf"]), "internal;",
		"internal; error_page 502 504 = @weir-away;", 1)
	text = strings.Replace(text, "location @denied {", "location @weir-away { return 204; }\n    location @denied {", 1)
	s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+text)
	s.run(nginx, "-p", s.dir, "-c", "nginx.conf")
	odd := func() int {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /login HTTP/1.1\r\nHost: x,y\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if got := odd(); got != 500 {
		t.Errorf("an odd host: %d", got)
	}
	s.want("POST", "/login", 200)
	s.want("POST", "/login", 200)
	s.innocent("POST", "/login", 2)
	s.weir.end()
	s.want("GET", "/", 200)
	if passed := len(s.passed); passed != 5 {
		t.Errorf("%d requests have passed", passed)
	}
}

func TestA403OfTheProgramBehindNginxStays(t *testing.T) {
	nginx := testrun.Program(t, "nginx")
	s := setUp(t, http.StatusForbidden, "weir.yaml")
	s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+
		s.ports.Replace(s.files["nginx.conf"]))
	s.run(nginx, "-p", s.dir, "-c", "nginx.conf")
	s.want("GET", "/forbidden", 403, "RateLimit")
}

func TestA403StaysThoughNginxInterceptsErrors(t *testing.T) {
	nginx := testrun.Program(t, "nginx")
	s := setUp(t, http.StatusForbidden, "weir.yaml")
	text := strings.NewReplacer(
		"proxy_pass http://app;", "proxy_pass http://app; proxy_intercept_errors on; "+
			"auth_request_set $weir_status $upstream_status;",
		"location @denied {", "location @denied { if ($weir_status != 403) { return 403; }",
	).Replace(s.files["nginx.conf"])
	s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+
		s.ports.Replace(text))
	s.run(nginx, "-p", s.dir, "-c", "nginx.conf")
	s.want("GET", "/forbidden", 403, "RateLimit")
	s.want("POST", "/login", 200)
	s.want("POST", "/login", 200)
	s.want("POST", "/login", 429, "RateLimit", "RateLimit-Policy", "Retry-After")
}

func TestEachClientOfACacheInNginxHasItsOwnNumbers(t *testing.T) {
	nginx := testrun.Program(t, "nginx")
	s := setUp(t, http.StatusForbidden, "weir.yaml")
	s.config("pages.conf")
	text := s.ports.Replace(s.files["nginx.conf"])
	for after, line := range map[string]string{
		"\nhttp {\n":     "proxy_cache_path cache keys_zone=pages:10m use_temp_path=off;\n",
		"\n  server {\n": "include pages.conf;\n",
	} {
		text = strings.Replace(text, after, after+line, 1)
	}
	s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+text)
	s.run(nginx, "-p", s.dir, "-c", "nginx.conf")
	get := func(client string) (status int, left string) {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
		base := &http.Transport{DialContext: dialer.DialContext}
		defer base.CloseIdleConnections()
		response, err := (&http.Client{Transport: base}).Get(s.url + "/pages/1")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		left, _, _ = strings.Cut(strings.Join(response.Header.Values("RateLimit"), "\n"), ";t=")
		return response.StatusCode, left
	}
	for left := 9; left >= 0; left-- {
		if status, got := get("127.0.0.1"); status != 200 || got != fmt.Sprintf(`"per-client";r=%d`, left) {
			t.Errorf("%d with %s, want %d left", status, got, left)
		}
		if left < 8 {
			continue
		}
		if status, got := get("127.0.0.2"); status != 200 || got != fmt.Sprintf(`"per-client";r=%d`, left) {
			t.Errorf("the other client: %d with %s, want %d left", status, got, left)
		}
	}
	if status, got := get("127.0.0.1"); status != 429 || got != `"per-client";r=0` {
		t.Errorf("%d with %s, though the page is stored", status, got)
	}
	if status, got := get("127.0.0.2"); status != 200 || got != `"per-client";r=7` {
		t.Errorf("the other client: %d with %s, while the first is denied", status, got)
	}
	if passed := len(s.passed); passed != 1 {
		t.Errorf("%d requests have passed, and one is stored", passed)
	}
}

func TestAProgramAsksInJSONAsTheGuideDoes(t *testing.T) {
	s := setUp(t, 0, "limits.yaml")
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("8080/json -d '"))
	body, _, found := bytes.Cut(text, []byte("'"))
	if !found {
		t.Fatalf("%s has no question in JSON", guide)
	}
	innocent := bytes.Replace(body, []byte(`"key": "path", "value": "/reports/7"`),
		[]byte(`"key": "remote_address", "value": "192.0.2.7"`), 1)
	for i, status := range []int{200, 200, 429, 200} {
		url := s.ports.Replace("http://127.0.0.1:8080/json")
		if i == 3 {
			body = innocent
		}
		const form = "application/x-www-form-urlencoded" // as curl -d
		response, err := http.Post(url, form, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%s: %d, want %d", body, response.StatusCode, status)
		}
	}
}

func TestCaddyAsTheGuideSetsItUp(t *testing.T) {
	caddy := testrun.Program(t, "caddy")
	s := setUp(t, 0, "weir.yaml")
	t.Setenv("HOME", s.dir)
	s.run(caddy, "run", "--adapter", "caddyfile", "--config", s.config("Caddyfile"))
	s.limited("RateLimit", "RateLimit-Policy")
	const rule = "{name: per-client,"
	s.write("weir.yaml", strings.Replace(s.files["weir.yaml"], rule, rule+" match: GET /counted,", 1))
	free := s.ask("GET", "/")
	deadline := time.Now().Add(30 * time.Second)
	for free.StatusCode != 200 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond) // polls until weir has read the file
		free = s.ask("GET", "/")
	}
	if got := free.Header.Values("RateLimit"); free.StatusCode != 200 || got != nil {
		t.Errorf("without a rule: %d, RateLimit is %q", free.StatusCode, got)
	}
	s.closed(502)
}

func TestHAProxyAsTheGuideSetsItUp(t *testing.T) {
	haproxy := testrun.Program(t, "haproxy")
	s := setUp(t, 0, "weir.yaml")
	// a busy machine does not make it ask again
	s.files["weir.lua"] = strings.Replace(s.files["weir.lua"], "timeout = 500", "timeout = 30000", 1)
	s.config("weir.lua")
	s.run(haproxy, "-f", s.config("haproxy.cfg"))
	s.limited("RateLimit", "RateLimit-Policy")
	s.closed(503)
}

func TestEnvoyAsTheGuideSetsItUp(t *testing.T) {
	envoy := testrun.Program(t, "envoy")
	s := setUp(t, 0, "weir.yaml", "limits.yaml")
	s.run(envoy, "-c", s.config("envoy.yaml"), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	s.want("GET", "/reports/1", 200, "X-Ratelimit-Remaining", "RateLimit")
	s.want("GET", "/reports/2", 200, "X-Ratelimit-Remaining", "RateLimit")
	s.want("GET", "/reports/3", 429, "X-Ratelimit-Remaining") // by the descriptor path
	s.want("GET", "/", 200, "RateLimit")
	s.want("GET", "/", 200, "RateLimit")
	s.want("GET", "/", 429) // by the descriptor remote_address
	s.innocent("GET", "/", 5)
	s.weir.end()
	s.want("GET", "/", 503)

	s = setUp(t, 0, "weir.yaml") // without limits by descriptors, the second filter is left out
	text := s.ports.Replace(s.files["envoy.yaml"])
	from := strings.Index(text, "                  - name: envoy.filters.http.ratelimit")
	to := strings.Index(text, "                  - name: envoy.filters.http.router")
	s.run(envoy, "-c", s.write("envoy.yaml", text[:from]+text[to:]),
		"--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	s.limited("RateLimit", "RateLimit-Policy")
	s.closed(503)
}

func TestTraefikAsTheGuideSetsItUp(t *testing.T) {
	s := setUp(t, 0, "weir.yaml")
	s.traefik()
	s.limited()
	s.closed(500)
}

// traefik starts Traefik, and waits until it has read its file.
func (s *system) traefik() {
	s.t.Helper()
	program := testrun.Program(s.t, "traefik")
	const routers = "  routers:\n"
	s.files["dynamic.yaml"] = strings.Replace(s.files["dynamic.yaml"], routers,
		routers+"    ready: {rule: Path(`/ready`), priority: 1000, service: noop@internal}\n", 1)
	s.run(program, "--entryPoints.web.address="+strings.TrimPrefix(s.url, "http://"),
		"--providers.file.filename="+s.config("dynamic.yaml"),
		"--global.checkNewVersion=false", "--global.sendAnonymousUsage=false", "--log.level=ERROR")
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(s.url + "/ready")
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound { // of a router that is not there yet
			return
		}
	}
	s.t.Fatal("Traefik has not read its file")
}

// A program that hangs accepts connections, and says nothing. Clients leave after less than
// the 30 s of Traefik, for which Traefik has no setting.
func TestProxiesDoNotWaitForAServiceThatHangs(t *testing.T) {
	for name, run := range map[string]func(s *system, program string){
		"nginx": func(s *system, program string) {
			s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+
				s.ports.Replace(s.files["nginx.conf"]))
			s.run(program, "-p", s.dir, "-c", "nginx.conf")
		},
		"caddy": func(s *system, program string) {
			s.run(program, "run", "--adapter", "caddyfile", "--config", s.config("Caddyfile"))
		},
		"haproxy": func(s *system, program string) {
			s.config("weir.lua")
			s.run(program, "-f", s.config("haproxy.cfg"))
		},
		"envoy": func(s *system, program string) {
			s.run(program, "-c", s.config("envoy.yaml"), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := testrun.Program(t, name)
			hangs, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer hangs.Close()
			s := &system{t: t, dir: t.TempDir(), files: blocks(t)}
			proxy, err := freeport.Address()
			if err != nil {
				t.Fatal(err)
			}
			_, silent, _ := net.SplitHostPort(hangs.Addr().String())
			s.url = "http://" + proxy
			s.ports = strings.NewReplacer("8000", proxy[strings.LastIndexByte(proxy, ':')+1:],
				"9000", silent, "8080", silent, "8081", silent)
			run(s, program)
			response, err := (&http.Client{Timeout: 25 * time.Second}).Get(s.url + "/")
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			want := map[string]int{"nginx": 500, "caddy": 504, "haproxy": 503, "envoy": 503}[name]
			if response.StatusCode != want {
				t.Errorf("%d, want %d", response.StatusCode, want)
			}
		})
	}
}

func TestTheFilesOfTheGuideHaveNoMistakes(t *testing.T) {
	files := blocks(t)
	for _, name := range []string{"weir.yaml", "limits.yaml", "nginx.conf", "pages.conf", "Caddyfile", "dynamic.yaml",
		"weir.lua", "haproxy.cfg", "envoy.yaml"} {
		if files[name] == "" {
			t.Errorf("%s has no %s", guide, name)
		}
	}
	var paths []string
	for _, name := range []string{"weir.yaml", "limits.yaml"} {
		paths = append(paths, fileOf(t, name, files[name]))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Run(ctx, Config{Paths: paths, GRPC: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Error(err)
	}
}
