// Probes shows what a denied probe costs: it starts balancers and programs before a server whose
// limit counts probes like all other requests, and before one that counts them under a limit of
// their own. probes.sh beside it installs the programs. Arguments are the rows to run.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// row is a program and the probes that it sends.
type row struct {
	name   string
	probes []string // for nethttp.Probes
	run    func(s *server, dir string) (string, error)
}

var rows = []row{
	{"haproxy", []string{"/"}, haproxy},
	{"envoy", []string{"/healthz"}, envoy},
	{"varnish", []string{"/healthz"}, varnish},
	{"skopeo", []string{"/v2/"}, skopeo},
	{"gem", []string{"/", "GET /versions", "GET /info/{name}"}, gem},
	{"rclone", []string{"HEAD /{path...}"}, rclone},
	{"restic", []string{"HEAD /config"}, restic},
	{"gdal", []string{"HEAD /{path...}"}, gdal},
}

func main() {
	fmt.Println("| program | probes | counted like other requests | with a limit of their own |")
	fmt.Println("|---|---|---|---|")
	failed := false
	var all sync.WaitGroup
	lines := make([]string, len(rows))
	for i, r := range rows {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], r.name) {
			continue
		}
		all.Go(func() {
			line, err := r.line()
			lines[i] = line
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s is left out: %v\n", r.name, err)
				failed = failed || !errors.Is(err, exec.ErrNotFound)
			}
		})
	}
	all.Wait()
	fmt.Print(strings.Join(lines, ""))
	if failed {
		os.Exit(1)
	}
}

// line runs r with both limits at once, and returns its line of the table.
func (r row) line() (string, error) {
	command := r.name
	switch r.name {
	case "varnish":
		command = "varnishd"
	case "gdal":
		command = python
	}
	if _, err := exec.LookPath(command); err != nil {
		return "", err
	}
	var cells [2]string
	var errs [2]error
	var both sync.WaitGroup
	for i := range cells {
		both.Go(func() {
			dir, err := os.MkdirTemp(".", r.name)
			if err == nil {
				dir, err = filepath.Abs(dir)
			}
			if err == nil {
				os.Chmod(dir, 0o755) // Varnish has a user of its own
				cells[i], err = r.run(newServer(r.probes, i == 1), dir)
			}
			errs[i] = err
		})
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return "", err
	}
	probes := "`" + strings.Join(r.probes, "`, `") + "`"
	return fmt.Sprintf("| %s %s | %s | %s | %s |\n", r.name, release(r.name), probes, cells[0], cells[1]), nil
}

// release returns the version that a program says it has.
func release(name string) string {
	flag := "--version"
	switch name {
	case "gdal":
		said, _ := exec.Command(python, "-c", "import rasterio; print(rasterio.__gdal_version__)").Output()
		return strings.TrimSpace(string(said))
	case "haproxy":
		flag = "-v"
	case "varnish":
		name, flag = "varnishd", "-V"
	case "restic", "rclone":
		flag = "version"
	}
	said, _ := exec.Command(name, flag).CombinedOutput()
	between := func(r rune) bool { return strings.ContainsRune(" -\n/+", r) }
	for _, word := range strings.FieldsFunc(string(said), between) {
		if word = strings.TrimPrefix(word, "v"); len(word) > 2 && word[0] >= '0' && word[0] <= '9' &&
			strings.Contains(word, ".") {
			return word
		}
	}
	return "(unknown)"
}

// server is a server with a limit, on loopback.
type server struct {
	*httptest.Server
	limiter *nethttp.Limiter
	behind  http.Handler

	mu       sync.Mutex
	requests []string
}

// newServer returns a server that counts probes apart, or like all other requests. It allows
// 10 requests a minute by address, and 100 probes.
func newServer(probes []string, apart bool) *server {
	client := keyfuncs.Address(keyfuncs.OrPeer(keyfuncs.MustSingleHeader("X-Client", "127.0.0.1")))
	isProbe := nethttp.MustProbes(probes...)
	requests := nethttp.Rule{Name: "requests", Limit: limits.AnchoredWindow(limits.PerMinute(10)), Key: client}
	rules := []nethttp.Rule{requests}
	if apart {
		rules[0].Key = core.Unless(isProbe, client)
		rules = append(rules, nethttp.Rule{
			Name: "probes", Limit: limits.AnchoredWindow(limits.PerMinute(100)), Key: core.When(isProbe, client),
		})
	}
	s := &server{limiter: nethttp.MustNew(nethttp.Config{Rules: rules})}
	limited := s.limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-App", "1")
		s.behind.ServeHTTP(w, r)
	}))
	s.behind = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") })
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noted := &statusWriter{ResponseWriter: w}
		limited.ServeHTTP(noted, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, fmt.Sprintf("%s %s %d", r.Method, r.URL.Path, noted.status))
	}))
	return s
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (s *server) port() string { return s.URL[strings.LastIndexByte(s.URL, ':')+1:] }

// without asks a balancer ten times a second for a minute, each time from another address, and
// returns for how long it had no server.
func (s *server) without(balancer string) (string, error) {
	defer s.Close()
	until := time.Now().Add(time.Minute)
	for {
		if up, err := ask(balancer, 0); err == nil && up {
			break
		} else if time.Now().After(until) {
			return "", fmt.Errorf("it serves nothing within a minute: %v, %v", err, s.requests)
		}
		time.Sleep(50 * time.Millisecond)
	}
	tenths := 0
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for i := range 600 {
		<-ticks.C
		up, err := ask(balancer, i)
		if err != nil {
			return "", err
		}
		if !up {
			tenths++
		}
	}
	return fmt.Sprintf("%d of 60 s without a server", (tenths+5)/10), nil
}

// ask reports whether a balancer has a server for a request.
func ask(balancer string, i int) (up bool, err error) {
	r, _ := http.NewRequest("GET", fmt.Sprintf("%s/page/%d", balancer, i), nil)
	r.Header.Set("X-Client", fmt.Sprintf("192.0.%d.%d", 2+i/250, i%250))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err
	}
	response.Body.Close()
	return response.Header.Get("X-App") == "1", nil
}

// balancer runs a balancer with a configuration, and counts the seconds without a server.
func (s *server) balancer(dir, file, config string, command ...string) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	fill := strings.NewReplacer("@front@", fmt.Sprint(port), "@back@", s.port(), "@dir@", dir,
		"@extensions@", "envoy.extensions").Replace
	if err := os.WriteFile(filepath.Join(dir, file), []byte(fill(config)), 0o644); err != nil {
		return "", err
	}
	for i := range command {
		command[i] = fill(command[i])
	}
	ctx, stop := context.WithCancel(context.Background())
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	if err := cmd.Start(); err != nil {
		stop()
		return "", err
	}
	cell, err := s.without(fmt.Sprintf("http://127.0.0.1:%d", port))
	stop()
	cmd.Wait()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, said.String())
	}
	return cell, nil
}

func haproxy(s *server, dir string) (string, error) {
	return s.balancer(dir, "haproxy.cfg", `
defaults
  mode http
  timeout connect 1s
  timeout client 10s
  timeout server 10s
frontend web
  bind 127.0.0.1:@front@
  default_backend app
backend app
  option httpchk
  server app 127.0.0.1:@back@ check
`, "haproxy", "-db", "-f", "haproxy.cfg")
}

func envoy(s *server, dir string) (string, error) {
	return s.balancer(dir, "envoy.yaml", `
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: @front@}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/@extensions@.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: web
                route_config:
                  virtual_hosts:
                    - {name: app, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: app}}]}
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/@extensions@.filters.http.router.v3.Router
  clusters:
    - name: app
      common_lb_config: {healthy_panic_threshold: {value: 0}}
      health_checks:
        - timeout: 1s
          interval: 2s
          no_traffic_interval: 2s
          unhealthy_threshold: 3
          healthy_threshold: 1
          http_health_check: {path: /healthz}
      load_assignment:
        cluster_name: app
        endpoints:
          - lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: @back@}}}}]
`, "envoy", "-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error")
}

func varnish(s *server, dir string) (string, error) {
	return s.balancer(dir, "default.vcl", `vcl 4.1;
backend app {
  .host = "127.0.0.1";
  .port = "@back@";
  .probe = { .url = "/healthz"; .interval = 2s; }
}
sub vcl_recv { return (pass); }
`, "varnishd", "-F", "-n", "@dir@/work", "-f", "@dir@/default.vcl", "-a", "127.0.0.1:@front@", "-s", "malloc,16m")
}

// after runs a program once ten others at its address have sent a probe, and returns how it ended,
// its requests and its last words.
func (s *server) after(probe, dir string, command ...string) (string, error) {
	defer s.Close()
	method, path, _ := strings.Cut(probe, " ")
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = "127.0.0.1:1"
	for range 10 {
		s.limiter.Decide(r)
	}
	s.requests = nil
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	begun := time.Now()
	code, said, err := s.tell(ctx, dir, command...)
	if err != nil {
		return "", err
	}
	took := time.Since(begun)
	s.mu.Lock()
	defer s.mu.Unlock()
	if os.Getenv("VERBOSE") != "" {
		fmt.Fprintf(os.Stderr, "%v\n%s\n%s\n", command, strings.Join(s.requests, "\n"), said)
	}
	denied := 0
	for _, request := range s.requests {
		if strings.HasSuffix(request, " 429") {
			denied++
		}
	}
	cell := fmt.Sprintf("exit %d after %.1f s, %d requests, %d denied", code, took.Seconds(), len(s.requests), denied)
	if code != 0 {
		last := s.words(said)
		cell += ": `" + last + "`"
	}
	return cell, nil
}

// words returns what a program said of its failure, in few words.
func (s *server) words(said string) string {
	said = strings.Join(strings.Fields(said), " ")
	for _, begin := range []string{"Fatal:", "ERROR:", "Failed to"} {
		if i := strings.Index(said, begin); i >= 0 {
			said = said[i:]
			break
		}
	}
	host := strings.TrimPrefix(s.URL, "http://")
	said = strings.NewReplacer(s.URL, "URL", host, "HOST", "`", "'", "|", "¦").Replace(said)
	if len(said) > 150 {
		said = said[:150] + "…"
	}
	return said
}

// tell runs a program, and returns how it ended and what it said.
func (s *server) tell(ctx context.Context, dir string, command ...string) (code int, said string, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "RESTIC_PASSWORD=x", "RESTIC_CACHE_DIR="+dir+"/cache")
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); failed {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), string(out), err
}

// before starts a server of another program, which listens on the port that it is told, and puts
// weir before it.
func (s *server) before(dir string, command func(addr string) []string) (stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	listener.Close()
	words := command(addr)
	cmd := exec.Command(words[0], words[1:]...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	target, _ := url.Parse("http://" + addr)
	s.behind = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // the registry tells clients where to go
	}}
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return stop, nil
		}
	}
	stop()
	return nil, fmt.Errorf("%s does not listen: %s", words[0], said.String())
}

func skopeo(s *server, dir string) (string, error) {
	config := filepath.Join(dir, "registry.yml")
	stop, err := s.before(dir, func(addr string) []string {
		text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nhttp: {addr: %q}\n"+
			"storage: {filesystem: {rootdirectory: %q}}\n", addr, filepath.Join(dir, "blobs"))
		os.WriteFile(config, []byte(text), 0o644)
		return []string{"docker-registry", "serve", config}
	})
	if err != nil {
		return "", err
	}
	defer stop()
	if err := push(s.behind); err != nil {
		return "", err
	}
	return s.after("GET /v2/", dir, "skopeo", "--insecure-policy", "inspect", "--tls-verify=false", "--raw",
		"docker://"+strings.TrimPrefix(s.URL, "http://")+"/app:1")
}

// push puts an image without layers into a registry.
func push(registry http.Handler) error {
	const config = `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}`
	ask := func(method, target, kind, body string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		registry.ServeHTTP(w, r)
		return w
	}
	at := ask("POST", "/v2/app/blobs/uploads/", "", "").Header().Get("Location")
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(config)))
	w := ask("PUT", at+"&digest="+sum, "application/octet-stream", config)
	if w.Code != http.StatusCreated {
		return fmt.Errorf("the registry takes no blob: %d %s", w.Code, w.Body)
	}
	const kind = "application/vnd.oci.image.manifest.v1+json"
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":`+
		`"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]}`, kind, sum, len(config))
	if w = ask("PUT", "/v2/app/manifests/1", kind, manifest); w.Code != http.StatusCreated {
		return fmt.Errorf("the registry takes no manifest: %d %s", w.Code, w.Body)
	}
	return nil
}

// gem installs a gem from a folder with the files of both of RubyGems' indexes.
func gem(s *server, dir string) (string, error) {
	index := filepath.Join(dir, "index")
	build := exec.Command("sh", "-euc", `
mkdir -p index/gems lib
echo > lib/hello.rb
cat > hello.gemspec <<'S'
Gem::Specification.new do |s|
  s.name, s.version, s.summary = 'hello', '1.0', 's'
  s.authors, s.files = ['a'], ['lib/hello.rb']
end
S
gem build -q hello.gemspec -o index/gems/hello-1.0.gem 2>/dev/null
gem generate_index -q -d index >/dev/null
mkdir index/info
sum=$(sha256sum index/gems/hello-1.0.gem | cut -d' ' -f1)
printf -- '---\n1.0 |checksum:%s\n' "$sum" > index/info/hello
sum=$(md5sum index/info/hello | cut -d' ' -f1)
printf 'created_at: 2026-11-29T00:00:00Z\n---\nhello 1.0 %s\n' "$sum" > index/versions
`)
	build.Dir, build.Env = dir, append(os.Environ(), "HOME="+dir)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	s.behind = http.FileServer(http.Dir(index))
	return s.after("HEAD /", dir, "gem", "install", "hello", "--no-document", "--clear-sources", "--source", s.URL,
		"--install-dir", filepath.Join(dir, "installed"))
}

func rclone(s *server, dir string) (string, error) {
	for _, name := range []string{"a", "b", "c"} {
		os.MkdirAll(filepath.Join(dir, "files", "folder"), 0o755)
		os.WriteFile(filepath.Join(dir, "files", "folder", name), []byte(name), 0o644)
	}
	s.behind = http.FileServer(http.Dir(filepath.Join(dir, "files")))
	return s.after("HEAD /folder", dir, "rclone", "--config", "", "copy", "--http-url", s.URL,
		":http:folder", filepath.Join(dir, "copy"))
}

// python has GDAL, in the package rasterio.
var python, _ = filepath.Abs("venv/bin/python")

func gdal(s *server, dir string) (string, error) {
	made := exec.Command(python, "-c", `import rasterio
with rasterio.open('a.tif', 'w', driver='GTiff', width=1, height=1, count=1, dtype='uint8'): pass`)
	made.Dir = dir
	if out, err := made.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	s.behind = http.FileServer(http.Dir(dir))
	return s.after("HEAD /a.tif", dir, python, "-c", `import rasterio, sys, time
def opens():
    try: rasterio.open('/vsicurl/' + sys.argv[1] + '/a.tif').close()
    except rasterio.errors.RasterioIOError: return False
    return True
first = opens()
if first: sys.exit()
time.sleep(61)
again = opens()
print('opens the file:', first, 'and 61 s later:', again)
sys.exit(not again)`, s.URL)
}

func restic(s *server, dir string) (string, error) {
	stop, err := s.before(dir, func(addr string) []string {
		return []string{"rclone", "--config", "", "serve", "restic", "--addr", addr, filepath.Join(dir, "repository")}
	})
	if err != nil {
		return "", err
	}
	defer stop()
	direct := httptest.NewServer(s.behind)
	defer direct.Close()
	code, said, err := s.tell(context.Background(), dir, "restic", "-r", "rest:"+direct.URL+"/", "init")
	if code != 0 {
		return "", fmt.Errorf("restic init: %w %s", err, said)
	}
	return s.after("HEAD /config", dir, "restic", "-r", "rest:"+s.URL+"/", "snapshots")
}
