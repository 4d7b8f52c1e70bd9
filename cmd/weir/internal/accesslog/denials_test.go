package accesslog_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// denier allows each user, whom X-User names, two requests below / and below /full/. A denial is a
// 429 or, below /full/, a 503.
func denier(t *testing.T) *httptest.Server {
	limited := func(as503 bool) http.Handler {
		return nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
			Name:      "per-user",
			Limit:     limits.SlidingWindow(limits.PerHour(2)),
			Key:       keyfuncs.Header("X-User"),
			DenyAs503: as503,
		}}}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "hello\n")
		}))
	}
	mux := http.NewServeMux()
	mux.Handle("/", limited(false))
	mux.Handle("/full/", limited(true))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// line is what a log says of a request.
type line struct {
	method, target string
	status         int
}

// Each proxy has a program behind it that denies, and one that is away, below /away/: what it
// answers for that is its own.
var limitedProxies = map[string]func(t *testing.T, app string) *server{
	"nginx": func(t *testing.T, app string) *server {
		dir, addr := t.TempDir(), freeAddr(t)
		writeFiles(t, dir, map[string]string{"nginx.conf": fmt.Sprintf(`
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3;
  uwsgi_temp_path t4; scgi_temp_path t5;
  log_format json escape=json '{"time":"$time_iso8601","remote_addr":"$remote_addr",'
    '"request":"$request","status":$status}';
  access_log combined.log combined; access_log json.log json;
  server {
    listen %s;
    location / { proxy_pass http://%s; }
    location /away/ { proxy_pass http://127.0.0.1:1; }
  }
}
`, addr, app)})
		s := &server{addr: addr}
		s.end = start(t, addr, dir, syscall.SIGQUIT, "nginx", "-p", dir, "-c", "nginx.conf")
		return s.addLogs(dir, "combined.log", "json.log")
	},
	"Apache": func(t *testing.T, app string) *server {
		dir, addr := t.TempDir(), freeAddr(t)
		config := "ServerRoot DIR\nPidFile DIR/pid\nMutex file:DIR\nDefaultRuntimeDir DIR\n" +
			"User www-data\nGroup www-data\nServerName example.com\nErrorLog /dev/stderr\n" +
			"Listen " + addr + "\n"
		for _, name := range []string{"mpm_event", "authz_core", "proxy", "proxy_http"} {
			config += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%[1]s.so\n", name)
		}
		config += `LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" combined
CustomLog DIR/combined.log combined
ProxyPass /away/ http://127.0.0.1:1/
ProxyPass / http://` + app + "/\n"
		writeFiles(t, dir, map[string]string{"apache.conf": strings.ReplaceAll(config, "DIR", dir)})
		for _, dir := range []string{dir, filepath.Dir(dir)} { // for its user
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		config = filepath.Join(dir, "apache.conf")
		end := start(t, addr, dir, syscall.SIGTERM, "apache2", "-X", "-f", config)
		s := &server{addr: addr, end: func() {
			awaitLines(filepath.Join(dir, "combined.log"), func() {})
			end()
		}}
		return s.addLogs(dir, "combined.log")
	},
	"HAProxy": func(t *testing.T, app string) *server {
		dir, addr := t.TempDir(), freeAddr(t)
		to, received := syslog(t, filepath.Join(dir, "haproxy.log"))
		writeFiles(t, dir, map[string]string{"haproxy.cfg": fmt.Sprintf(`
defaults
  mode http
  timeout client 30s
  timeout connect 5s
  timeout server 30s
  retries 0
frontend web
  bind %s
  log %s format rfc3164 local0
  option httplog
  use_backend away if { path_beg /away/ }
  default_backend app
backend app
  server app %s
backend away
  server away 127.0.0.1:1
`, addr, to, app)})
		end := start(t, addr, dir, syscall.SIGUSR1, "haproxy", "-db", "-f", "haproxy.cfg")
		s := &server{addr: addr, end: func() {
			end()
			received()
		}}
		return s.addLogs(dir, "haproxy.log")
	},
	"Envoy": func(t *testing.T, app string) *server {
		dir, addr := t.TempDir(), freeAddr(t)
		cluster := func(name, addr string) string {
			host, port, _ := net.SplitHostPort(addr)
			return fmt.Sprintf(`
  - name: %s
    type: STATIC
    load_assignment:
      cluster_name: %[1]s
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: %s, port_value: %s}}}
`, name, host, port)
		}
		_, port, _ := net.SplitHostPort(addr)
		writeFiles(t, dir, map[string]string{"envoy.yaml": fmt.Sprintf(`
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          use_remote_address: true
          access_log:
          - name: file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: %s/envoy.log
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - {match: {prefix: "/away/"}, route: {cluster: away}}
              - {match: {prefix: "/"}, route: {cluster: app}}
          http_filters:
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:`, port, dir) + cluster("app", app) + cluster("away", "127.0.0.1:1")})
		s := &server{addr: addr}
		s.end = start(t, addr, dir, syscall.SIGTERM, "envoy", "-c", "envoy.yaml",
			"--use-dynamic-base-id", "--concurrency", "1")
		return s.addLogs(dir, "envoy.log")
	},
	"Caddy": func(t *testing.T, app string) *server {
		dir, addr := t.TempDir(), freeAddr(t)
		writeFiles(t, dir, map[string]string{"Caddyfile": fmt.Sprintf(`
{
	admin off
	auto_https off
}
http://:%s {
	log {
		output file %s/caddy.log
	}
	reverse_proxy /away/* 127.0.0.1:1
	reverse_proxy %s
}
`, addr[strings.LastIndexByte(addr, ':')+1:], dir, app)})
		s := &server{addr: addr}
		s.end = start(t, addr, dir, syscall.SIGTERM, "caddy", "run",
			"--config", "Caddyfile", "--adapter", "caddyfile")
		return s.addLogs(dir, "caddy.log")
	},
	"Traefik": func(t *testing.T, app string) *server {
		return startLimitedTraefik(t, app, "json")
	},
	"Traefik as common": func(t *testing.T, app string) *server {
		return startLimitedTraefik(t, app, "common")
	},
	"Varnish": func(t *testing.T, app string) *server {
		testrun.Program(t, "varnishncsa")
		dir, addr := t.TempDir(), freeAddr(t)
		host, port, _ := net.SplitHostPort(app)
		writeFiles(t, dir, map[string]string{"default.vcl": fmt.Sprintf(`
vcl 4.1;
backend app { .host = "%s"; .port = "%s"; }
backend away { .host = "127.0.0.1"; .port = "1"; }
sub vcl_recv {
  if (req.url ~ "^/away/") { set req.backend_hint = away; }
  return (pass);
}
`, host, port)})
		end := start(t, addr, dir, syscall.SIGTERM, "varnishd", "-F", "-j", "none", "-n", dir,
			"-a", addr, "-T", "none", "-s", "malloc,16m", "-f", filepath.Join(dir, "default.vcl"))
		s := &server{addr: addr, end: func() {
			awaitLines(filepath.Join(dir, "varnish.log"), func() {
				// It writes what is in the memory of varnishd, and ends.
				args := []string{"-n", dir, "-w", filepath.Join(dir, "varnish.log"), "-d"}
				testrun.Command(t, "varnishncsa", args...).Run()
			})
			end()
		}}
		return s.addLogs(dir, "varnish.log")
	},
	"Squid": func(t *testing.T, app string) *server {
		dir, addr := t.TempDir(), freeAddr(t)
		host, port, _ := net.SplitHostPort(app)
		writeFiles(t, dir, map[string]string{"squid.conf": fmt.Sprintf(`
http_port %s accel defaultsite=example.com no-vhost
cache_peer %s parent %s 0 no-query originserver name=app
cache_peer 127.0.0.2 parent 1 0 no-query originserver name=away
acl away urlpath_regex ^/away/
cache_peer_access app deny away
cache_peer_access away allow away
http_access allow all
access_log stdio:%[4]s/squid.log
cache_log %[4]s/cache.log
pid_filename %[4]s/squid.pid
coredump_dir %[4]s
cache deny all
strip_query_terms off
shutdown_lifetime 0 seconds
`, addr, host, port, dir)})
		for _, dir := range []string{dir, filepath.Dir(dir)} { // for its user
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		s := &server{addr: addr}
		config := filepath.Join(dir, "squid.conf")
		s.end = start(t, addr, dir, syscall.SIGTERM, "squid", "-N", "-f", config)
		return s.addLogs(dir, "squid.log")
	},
}

func startLimitedTraefik(t *testing.T, app, format string) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	writeFiles(t, dir, map[string]string{
		"traefik.yaml": fmt.Sprintf(`
entryPoints: {web: {address: "%s"}}
accessLog: {filePath: %s/traefik.log, format: %s}
providers: {file: {filename: %[2]s/dynamic.yaml}}
`, addr, dir, format),
		"dynamic.yaml": fmt.Sprintf(`
http:
  routers:
    ready: {rule: "Path(`+"`/ready`"+`)", priority: 1000, service: noop@internal}
    away: {rule: "PathPrefix(`+"`/away/`"+`)", service: away}
    app: {rule: "PathPrefix(`+"`/`"+`)", service: app}
  services:
    app: {loadBalancer: {servers: [{url: "http://%s"}]}}
    away: {loadBalancer: {servers: [{url: "http://127.0.0.1:1"}]}}
`, app)})
	s := &server{addr: addr}
	s.end = start(t, addr, dir, syscall.SIGTERM, "traefik", "--configFile=traefik.yaml")
	ready := line{"GET", "/ready", 0}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if ask(t, addr, "127.0.0.1", ready) != http.StatusNotFound { // it has read its file
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return s.addLogs(dir, "traefik.log")
}

// awaitLines waits for the lines of a program that writes them after its answers, once write is
// called.
func awaitLines(path string, write func()) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		write()
		if text, _ := os.ReadFile(path); bytes.Count(text, []byte("\n")) >= limitedRequests {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// limitedRequests is the number of requests that the test sends to a proxy.
const limitedRequests = 90

func TestDenialsInLogsOfRealProxiesAreRead(t *testing.T) {
	testrun.FullOnly(t, "starts eight proxies")
	for _, name := range slices.Sorted(maps.Keys(limitedProxies)) {
		t.Run(name, func(t *testing.T) {
			s := limitedProxies[name](t, strings.TrimPrefix(denier(t).URL, "http://"))
			sent, statuses := make(map[string][]line), make(map[int]int)
			for i := range 10 {
				peer, _ := clients(i)
				for _, r := range []line{
					{"GET", "/a?b=c", 0}, {"POST", "/a", 0}, {"GET", "/a", 0}, {"HEAD", "/a", 0},
					{"GET", "/full/a", 0}, {"GET", "/full/b", 0}, {"GET", "/full/c", 0}, {"GET", "/away/a", 0},
					{"GET", "/last", 0},
				} {
					r.status = ask(t, s.addr, peer.String(), r)
					sent[peer.String()] = append(sent[peer.String()], r)
					statuses[r.status]++
				}
			}
			if statuses[200] != 40 || statuses[429] != 30 || statuses[503] < 10 ||
				statuses[502]+statuses[503] != 20 {
				t.Errorf("answers by status: %v", statuses)
			}
			s.end()
			for path, o := range s.logs {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				l, read := open(t, string(text), o), make(map[string][]line)
				var e accesslog.Entry
				for l.Next(&e) {
					read[e.Address.String()] = append(read[e.Address.String()],
						line{strings.Clone(e.Method), strings.Clone(e.Target), e.Status})
				}
				for client, want := range sent {
					got := read[client]
					slices.SortFunc(got, compareLines) // some write a line when they please
					if slices.SortFunc(want, compareLines); !slices.Equal(got, want) {
						t.Errorf("%s: of %s got %v, want %v", filepath.Base(path), client, got, want)
					}
				}
				if c := l.Counts(); c.Requests < limitedRequests || c.Unread() > 0 || c.Incomplete {
					t.Errorf("%s: %+v", filepath.Base(path), c)
				}
			}
		})
	}
}

func compareLines(a, b line) int {
	return cmp.Or(strings.Compare(a.target+a.method, b.target+b.method), a.status-b.status)
}

// ask sends a request from an address, and returns the status of the answer.
func ask(t *testing.T, addr, from string, l line) int {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	base := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	r, err := http.NewRequest(l.method, "http://"+addr+l.target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "example.com"
	r.Header.Set("X-User", from)
	response, err := base.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	return response.StatusCode
}
