package convert_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/convert"
	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

// proofs are configurations of nginx with requests, and what nginx and the policy both do with each: a
// (allowed), d (denied) or w (waits). At 1r/m a unit returns after 62.5 seconds, so no answer
// depends on how long the test takes.
//
// A step is how often, method and target, and fields: ip and host, or the name of a header. "hold"
// begins a request that runs until "release".
var proofs = []struct {
	name, http string // within http { }
	steps      []step
	ingress    string // converted in place of the configuration
}{
	{name: "no burst", http: `
		limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
		server {
			location / { limit_req zone=one; proxy_pass http://app; }
		}`, steps: []step{
		{"3 GET / ip=192.0.2.1", "add"}, {"2 GET /x ip=192.0.2.2", "ad"}, {"1 GET /y ip=192.0.2.1", "d"},
		{"2 GET / ip=2001:db8::1", "ad"}, {"2 GET / ip=2001:db8::2", "ad"},
	}},
	{name: "burst without delay in one location", http: `
		limit_req_zone $remote_addr zone=log-in:1m rate=2r/m;
		server {
			location = /login { limit_req zone=log-in burst=3 nodelay; limit_req_status 429; proxy_pass http://app; }
			location / { proxy_pass http://app; }
		}`, steps: []step{
		{"6 POST /login ip=192.0.2.1", "aaaadd"}, {"3 GET / ip=192.0.2.1", "aaa"},
		{"2 GET /login/x ip=192.0.2.1", "aa"}, {"1 POST /login?again=1 ip=192.0.2.1", "d"},
	}},
	{name: "burst with delay", http: `
		limit_req_zone "$binary_remote_addr" zone=one:1m rate=1r/m;
		server {
			location / { limit_req zone=one burst=2; proxy_pass http://app; }
		}`, steps: []step{
		{"5 GET / ip=192.0.2.1", "awwdd"}, {"1 GET / ip=192.0.2.9", "a"},
	}},
	{name: "burst with a delay behind the first", http: `
		limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
		server {
			limit_req zone=one burst=5 delay=3;
			location / { proxy_pass http://app; }
		}`, steps: []step{
		{"8 GET / ip=192.0.2.1", "aaaawwdd"},
	}},
	{name: "two zones, all or nothing", http: `
		limit_req_zone $binary_remote_addr zone=client:1m rate=1r/m;
		limit_req_zone $server_name zone=site:1m rate=1r/m;
		server {
			server_name shop.example;
			location / {
				limit_req zone=client burst=1 nodelay;
				limit_req zone=site burst=3 nodelay;
				proxy_pass http://app;
			}
		}`, steps: []step{
		{"3 GET / ip=192.0.2.1", "aad"}, {"1 GET / ip=192.0.2.2", "a"}, {"2 GET / ip=192.0.2.3", "ad"},
		{"1 GET / ip=192.0.2.4", "d"},
	}},
	{name: "networks that are not limited", http: `
		geo $limited { default 1; 192.0.2.0/24 0; 192.0.2.128/25 1; 192.0.2.200 0; 2001:db8::/32 0; }
		map $limited $client { 0 ""; 1 $binary_remote_addr; }
		limit_req_zone $client zone=one:1m rate=1r/m;
		server {
			location / { limit_req zone=one; proxy_pass http://app; }
		}`, steps: []step{
		{"3 GET / ip=192.0.2.1", "aaa"}, {"2 GET / ip=192.0.2.130", "ad"}, {"2 GET / ip=192.0.2.200", "aa"},
		{"2 GET / ip=192.0.2.201", "ad"}, {"2 GET / ip=198.51.100.1", "ad"}, {"2 GET / ip=2001:db8:1::1", "aa"},
	}},
	{name: "headers and cookies as keys", http: `
		map $http_x_api_key $who { default $http_x_api_key; "" $binary_remote_addr; }
		limit_req_zone $http_x_tenant zone=tenant:1m rate=1r/m;
		limit_req_zone $cookie_sid zone=session:1m rate=1r/m;
		limit_req_zone $who zone=who:1m rate=1r/m;
		server {
			location /tenant/ { limit_req zone=tenant; proxy_pass http://app; }
			location /session/ { limit_req zone=session burst=1 nodelay; proxy_pass http://app; }
			location /who/ { limit_req zone=who; proxy_pass http://app; }
		}`, steps: []step{
		{"2 GET /tenant/ X-Tenant=acme", "ad"}, {"3 GET /tenant/", "aaa"}, {"1 GET /tenant/ X-Tenant=other", "a"},
		{"3 GET /session/ Cookie=sid=1", "aad"}, {"3 GET /session/", "aaa"},
		{"2 GET /who/ ip=192.0.2.1", "ad"}, {"2 GET /who/ ip=192.0.2.1 X-Api-Key=k", "ad"},
		{"1 GET /who/ ip=192.0.2.2 X-Api-Key=k", "d"},
	}},
	{name: "what locations inherit", http: `
		limit_req_zone $binary_remote_addr zone=all:1m rate=1r/m;
		limit_req_zone $binary_remote_addr zone=api:1m rate=1r/m;
		limit_req zone=all burst=1 nodelay;
		server {
			location / { proxy_pass http://app; }
			location /api/ {
				limit_req zone=api burst=2 nodelay;
				proxy_pass http://app;
				location /api/free/ { proxy_pass http://app; }
				location /api/all/ { limit_req zone=all burst=1 nodelay; proxy_pass http://app; }
			}
			location = /api/ping { limit_req zone=all burst=1 nodelay; proxy_pass http://app; }
			location ~ ^/exactly$ { limit_req zone=api burst=2 nodelay; proxy_pass http://app; }
			location ~ ^/kept/ { limit_req zone=api burst=2 nodelay; proxy_pass http://app; }
			location ^~ /kept/in/ { proxy_pass http://app; }
			location = /kept/ { proxy_pass http://app; }
		}`, steps: []step{
		{"1 GET /x ip=192.0.2.1", "a"}, {"4 GET /api/x ip=192.0.2.1", "aaad"}, {"1 GET /api/free/x ip=192.0.2.1", "d"},
		{"2 GET /api/all/x ip=192.0.2.1", "ad"}, {"1 GET /api/ping ip=192.0.2.1", "d"},
		{"1 GET /exactly ip=192.0.2.1", "d"}, {"2 GET /exactly/x ip=192.0.2.2", "aa"}, {"1 GET / ip=192.0.2.2", "d"},
		{"4 GET /kept/x ip=192.0.2.3", "aaad"}, {"3 GET /kept/in/x ip=192.0.2.3", "aad"},
		{"4 GET /kept/x ip=192.0.2.4", "aaad"}, {"3 GET /kept/ ip=192.0.2.4", "aad"},
	}},
	{name: "servers by host", http: `
		limit_req_zone $binary_remote_addr zone=shop:1m rate=1r/m;
		limit_req_zone $binary_remote_addr$server_name zone=each:1m rate=1r/m;
		server {
			listen LISTEN;
			server_name shop.example www.shop.example;
			location / { limit_req zone=shop burst=1 nodelay; proxy_pass http://app; }
			location /free/ { proxy_pass http://app; limit_req zone=each; }
		}
		server {
			listen LISTEN default_server;
			location / { limit_req zone=each; proxy_pass http://app; }
		}
		server { listen LISTEN; server_name old.example; return 200; }
		server { listen LISTEN; server_name open.example; location / { proxy_pass http://app; } }`, steps: []step{
		{"2 GET / ip=192.0.2.1", "ad"}, {"2 GET / host=shop.example ip=192.0.2.1", "aa"},
		{"1 GET / host=www.shop.example ip=192.0.2.1", "d"}, {"2 GET /free/ host=shop.example ip=192.0.2.1", "ad"},
		{"1 GET / host=other.example ip=192.0.2.1", "d"}, {"2 GET / host=open.example ip=192.0.2.1", "aa"},
		{"1 GET /free/ ip=192.0.2.9", "a"},
	}},
	{name: "a name that two servers have", http: `
		limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
		server { listen LISTEN; server_name open.example open.example; location / { proxy_pass http://app; } }
		server { listen LISTEN; server_name shop.example; location / { limit_req zone=one; proxy_pass http://app; } }
		server {
			listen LISTEN;
			server_name SHOP.example more.example;
			location / { limit_req zone=one; proxy_pass http://app; }
			location /free/ { proxy_pass http://app; }
		}`, steps: []step{
		{"2 GET /free/ host=shop.example ip=192.0.2.1", "ad"}, {"1 GET / host=more.example ip=192.0.2.1", "d"},
		{"2 GET /free/ host=more.example ip=192.0.2.1", "aa"}, {"2 GET / host=open.example ip=192.0.2.1", "aa"},
		{"2 GET / host=other.example ip=192.0.2.1", "aa"},
	}},
	{name: "connections", http: `
		limit_conn_zone $binary_remote_addr zone=addr:1m;
		limit_conn_zone $http_x_tenant zone=tenant:1m;
		server {
			location / { limit_conn addr 2; limit_conn tenant 1; proxy_pass http://app; }
		}`, steps: []step{
		{"hold GET / ip=192.0.2.1", "a"}, {"hold GET / ip=192.0.2.1", "a"}, {"2 GET / ip=192.0.2.1", "dd"},
		{"hold GET / ip=192.0.2.2 X-Tenant=t", "a"}, {"1 GET / ip=192.0.2.3 X-Tenant=t", "d"},
		{"1 GET / ip=192.0.2.3", "a"}, {"release", ""}, {"3 GET / ip=192.0.2.1 X-Tenant=t", "aaa"},
	}},
	{name: "dry runs", http: `
		limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
		limit_req_zone $binary_remote_addr zone=two:1m rate=1r/m;
		server {
			location / { limit_req zone=one burst=1 nodelay; proxy_pass http://app; }
			location /new/ { limit_req zone=one burst=1 nodelay; limit_req_dry_run on; proxy_pass http://app; }
			location /wait/ { limit_req zone=two burst=3; limit_req_dry_run on; proxy_pass http://app; }
		}`, steps: []step{
		{"1 GET /new/ ip=192.0.2.1", "a"}, {"2 GET / ip=192.0.2.1", "ad"}, {"2 GET /new/ ip=192.0.2.1", "aa"},
		{"6 GET /wait/ ip=192.0.2.1", "aaaaaa"},
	}},
	{name: "methods, and proxies in a row", http: `
		map $request_method $writes { default $binary_remote_addr; GET ""; HEAD ""; OPTIONS ""; }
		map $request_method $log_ins { POST $binary_remote_addr; }
		limit_req_zone $writes zone=writes:1m rate=1r/m;
		limit_req_zone $log_ins zone=log-ins:1m rate=1r/m;
		server {
			location / { limit_req zone=writes burst=1 nodelay; proxy_pass http://app; }
			location ^~ /login/ { limit_req zone=log-ins; proxy_pass http://app; }
		}`, steps: []step{
		{"3 GET / ip=192.0.2.1", "aaa"}, {"1 HEAD / ip=192.0.2.1", "a"}, {"1 POST / ip=192.0.2.1", "a"},
		{"2 PUT / ip=192.0.2.1", "ad"}, {"2 POST /login/ ip=192.0.2.1", "ad"}, {"2 PUT /login/ ip=192.0.2.1", "aa"},
		{"1 DELETE / ip=198.51.100.7,192.0.2.1", "d"}, {"1 DELETE / ip=192.0.2.1,127.0.0.1", "d"},
	}},
	{name: "ingress-nginx", ingress: `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  namespace: web
  annotations:
    nginx.ingress.kubernetes.io/limit-rpm: "1"
    nginx.ingress.kubernetes.io/limit-connections: "2"
    nginx.ingress.kubernetes.io/limit-burst-multiplier: "3"
    nginx.ingress.kubernetes.io/limit-whitelist: 198.51.100.0/24, 203.0.113.7
spec:
  rules:
    - host: shop.example
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: health
  namespace: web
spec:
  rules:
    - host: shop.example
      http:
        paths:
          - {path: /health, pathType: Exact, backend: {service: {name: shop, port: {number: 80}}}}
          - {path: /static, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ingress-nginx-controller}
data:
  use-forwarded-headers: "true"
  proxy-real-ip-cidr: 127.0.0.1
  limit-req-status-code: "429"
`, http: `
		# as its template writes it
		limit_req_status 429;
		limit_conn_status 503;
		geo $remote_addr $allowlist_d2Vi { default 0; 198.51.100.0/24 1; 203.0.113.7 1; }
		map $allowlist_d2Vi $limit_d2Vi { 0 $binary_remote_addr; 1 ""; }
		limit_conn_zone $limit_d2Vi zone=web_shop_1_conn:5m;
		limit_req_zone $limit_d2Vi zone=web_shop_1_rpm:5m rate=1r/m;
		server {
			server_name _;
			listen LISTEN default_server;
			location "/" { proxy_pass http://app; }
		}
		server {
			server_name shop.example;
			listen LISTEN;
			location "/static/" { proxy_pass http://app; }
			location = "/static" { proxy_pass http://app; }
			location = "/health" { proxy_pass http://app; }
			location "/" {
				limit_conn web_shop_1_conn 2;
				limit_req zone=web_shop_1_rpm burst=3 nodelay;
				proxy_pass http://app;
			}
		}`, steps: []step{
		{"6 GET / host=shop.example ip=192.0.2.1", "aaaadd"}, {"3 GET /health host=shop.example ip=192.0.2.1", "aaa"},
		{"1 GET /static host=shop.example ip=192.0.2.1", "a"}, {"1 GET /static/a.css host=shop.example ip=192.0.2.1", "a"},
		{"1 GET /staticky host=shop.example ip=192.0.2.1", "d"}, {"1 GET / host=other.example ip=192.0.2.1", "a"},
		{"6 GET / host=shop.example ip=203.0.113.7", "aaaaaa"}, {"5 GET / host=shop.example ip=198.51.100.9", "aaaaa"},
		{"hold GET /x host=shop.example ip=192.0.2.2", "a"}, {"hold GET /x host=shop.example ip=192.0.2.2", "a"},
		{"1 GET /x host=shop.example ip=192.0.2.2", "d"}, {"release", ""},
	}},
}

// step is a step with what is expected of each of its requests.
type step struct{ do, want string }

// realIP makes nginx take addresses from the tests.
const realIP = "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; real_ip_recursive on;\n"

func TestThePolicyAnswersAsTheRealNginx(t *testing.T) {
	for _, proof := range proofs {
		t.Run(proof.name, func(t *testing.T) {
			text := realIP + proof.http
			result := convert.Nginx("nginx.conf", []byte(text), nginxconf.Files{})
			if proof.ingress != "" {
				result = convert.Ingress(convert.Input{Name: "ingress.yaml", Text: []byte(proof.ingress)})
			}
			for _, f := range result.Findings {
				if !f.Warning {
					t.Errorf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Text)
				}
			}
			decided := newDecider(t, result.Policy)
			real := startNginx(t, text)
			for _, s := range proof.steps {
				byNginx, byPolicy := real.perform(s.do), decided.perform(s.do)
				if byNginx != s.want || byPolicy != s.want {
					t.Errorf("%s: nginx %s, policy %s, want %s", s.do, byNginx, byPolicy, s.want)
				}
			}
			if t.Failed() {
				t.Logf("\n%s", result.Policy)
			}
		})
	}
}

// The warning of limit_conn beside limit_req says so.
func TestNginxCountsARequestThatLimitConnDenies(t *testing.T) {
	const text = realIP + `
		limit_conn_zone $binary_remote_addr zone=addr:1m;
		limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
		server {
			location / { limit_conn addr 1; limit_req zone=one burst=1 nodelay; proxy_pass http://app; }
		}`
	decided := newDecider(t, convertText(t, text).Policy)
	real := startNginx(t, text)
	for _, s := range []struct{ do, byNginx, byPolicy string }{
		{"hold GET / ip=192.0.2.1", "a", "a"}, {"1 GET / ip=192.0.2.1", "d", "d"}, {"release", "", ""},
		{"1 GET / ip=192.0.2.1", "d", "a"},
	} {
		if byNginx, byPolicy := real.perform(s.do), decided.perform(s.do); byNginx != s.byNginx || byPolicy != s.byPolicy {
			t.Errorf("%s: nginx %s, policy %s, want %s and %s", s.do, byNginx, byPolicy, s.byNginx, s.byPolicy)
		}
	}
}

// The warning of a return within an if says so.
func TestNginxCountsNoRequestThatItAnswersItself(t *testing.T) {
	const text = realIP + `
		limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
		server {
			location / {
				if ($http_x_bad) { return 503; }
				limit_req zone=one burst=1 nodelay;
				proxy_pass http://app;
			}
		}`
	decided := newDecider(t, convertText(t, text).Policy)
	real := startNginx(t, text)
	for _, s := range []struct{ do, byNginx, byPolicy string }{
		{"3 GET / ip=192.0.2.1 X-Bad=1", "ddd", "aad"}, {"3 GET / ip=192.0.2.1", "aad", "ddd"},
	} {
		if byNginx, byPolicy := real.perform(s.do), decided.perform(s.do); byNginx != s.byNginx || byPolicy != s.byPolicy {
			t.Errorf("%s: nginx %s, policy %s, want %s and %s", s.do, byNginx, byPolicy, s.byNginx, s.byPolicy)
		}
	}
}

// perform calls send for each request of a step, and returns what it returns.
func perform(t *testing.T, do string, send func(*http.Request) byte) string {
	t.Helper()
	words := strings.Fields(do)
	n, err := strconv.Atoi(words[0])
	if words[0] == "hold" {
		n, err = 1, nil
	}
	if err != nil || len(words) < 3 {
		t.Fatalf("%q is no step", do)
	}
	var verdicts []byte
	for range n {
		r := httptest.NewRequest(words[1], words[2], nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1234", "localhost"
		for _, field := range words[3:] {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "ip":
				r.Header.Set("X-Forwarded-For", strings.ReplaceAll(value, ",", ", "))
			case "host":
				r.Host = value
			default:
				r.Header.Set(name, value)
			}
		}
		verdicts = append(verdicts, send(r))
	}
	return string(verdicts)
}

// decider is a limiter with a policy, at an instant that does not pass.
type decider struct {
	t       *testing.T
	limiter *nethttp.Limiter
	held    []core.Outcome
}

func newDecider(t *testing.T, text []byte) *decider {
	t.Helper()
	p, err := policy.Parse("weir.yaml", text, policy.Names[*http.Request]{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	limiter, err := nethttp.New(nethttp.Config{Rules: p.Rules(), Backend: store})
	if err != nil {
		t.Fatal(err)
	}
	return &decider{t: t, limiter: limiter}
}

func (d *decider) perform(do string) string {
	d.t.Helper()
	if do == "release" {
		for _, o := range d.held {
			o.End(core.Result{Status: http.StatusOK})
		}
		d.held = nil
		return ""
	}
	return perform(d.t, do, func(r *http.Request) byte {
		o := d.limiter.Decide(r)
		if strings.HasPrefix(do, "hold") {
			d.held = append(d.held, o)
		} else {
			defer o.End(core.Result{Status: http.StatusOK})
		}
		switch {
		case o.Verdict() == core.Denied:
			return 'd'
		case o.Verdict() != core.Allowed:
			d.t.Errorf("%s: %v", do, o.Err())
			return '?'
		case o.Delay() > 0:
			return 'w'
		}
		return 'a'
	})
}

// nginx is a real nginx in front of a program.
type nginx struct {
	t      *testing.T
	dir    string
	url    string
	n      int
	passed chan string   // the number of each request that the program gets
	free   chan struct{} // closed: held requests end
	ended  []chan struct{}

	waiting int // requests that waited
}

// startNginx starts nginx with what is within http { }.
func startNginx(t *testing.T, within string) *nginx {
	t.Helper()
	x := &nginx{t: t, dir: t.TempDir(), passed: make(chan string, 100), free: make(chan struct{})}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.passed <- r.Header.Get("X-Number")
		if r.Header.Get("X-Hold") != "" {
			<-x.free
		}
	}))
	t.Cleanup(app.Close)
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	x.url = "http://" + address
	if !strings.Contains(within, "LISTEN") {
		within = strings.Replace(within, "server {", "server { listen "+address+";", 1)
	}
	conf := "pid nginx.pid;\nworker_processes 1;\ndaemon off;\nerror_log error.log warn;\n" +
		"events { worker_connections 64; }\nhttp {\naccess_log off;\n" +
		"upstream app { server " + app.Listener.Addr().String() + "; }\n" +
		"proxy_set_header X-Number $http_x_number;\n" + strings.ReplaceAll(within, "LISTEN", address) + "\n}\n"
	if err := os.WriteFile(filepath.Join(x.dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	cmd := testrun.CommandContext(ctx, t, "nginx", "-p", x.dir, "-c", "nginx.conf", "-e", "error.log")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		select {
		case <-x.free:
		default:
			close(x.free)
		}
		stop()
		<-ended
		if t.Failed() {
			t.Logf("error.log:\n%s", x.log())
		}
	})
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return x
		}
		select {
		case <-ended:
			t.Fatalf("nginx has ended:\n%s", x.log())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (x *nginx) log() string {
	text, _ := os.ReadFile(filepath.Join(x.dir, "error.log"))
	return string(text)
}

func (x *nginx) perform(do string) string {
	x.t.Helper()
	if do == "release" {
		close(x.free)
		for _, ended := range x.ended {
			<-ended
		}
		x.ended = nil
		return ""
	}
	return perform(x.t, do, func(r *http.Request) byte { return x.send(r, strings.HasPrefix(do, "hold")) })
}

// send sends a request, and returns what nginx does with it.
func (x *nginx) send(like *http.Request, hold bool) byte {
	x.t.Helper()
	x.n++
	number := fmt.Sprint(x.n)
	ctx, cancel := context.WithCancel(x.t.Context())
	x.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, like.Method, x.url+like.URL.RequestURI(), nil)
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header, r.Host = like.Header.Clone(), like.Host
	r.Header.Set("X-Number", number)
	if hold {
		r.Header.Set("X-Hold", "1")
	}
	answered := make(chan int, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			answered <- 0
			return
		}
		answered <- response.StatusCode
		response.Body.Close()
	}()
	if hold {
		x.ended = append(x.ended, ended)
	}
	for {
		select {
		case got := <-x.passed:
			if got != number {
				x.t.Errorf("request %s came as %s", number, got)
			}
			if !hold {
				<-ended
				cancel()
			}
			return 'a'
		case status := <-answered:
			cancel()
			<-ended
			select {
			case <-x.passed: // the program noted the request before nginx answered
				return 'a'
			default:
			}
			if status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
				x.t.Errorf("request %s: status %d", number, status)
			}
			return 'd'
		case <-time.After(5 * time.Millisecond):
		}
		// nginx says at once that a request waits
		if waiting := strings.Count(x.log(), "delaying request, excess"); waiting > x.waiting {
			x.waiting = waiting
			cancel()
			<-ended
			return 'w'
		}
	}
}
