package serve

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// wholes counts a page or a download once, whatever its proxy fetches for it: further requests
// have the secret.
func wholes(secret string) nethttp.Rule {
	want := sha256.Sum256([]byte(secret))
	counts := func(r *http.Request) bool {
		part := sha256.Sum256([]byte(r.Header.Get("X-Part")))
		return secret == "" || subtle.ConstantTimeCompare(part[:], want[:]) == 0
	}
	return nethttp.Rule{
		Name:  "per-client",
		Limit: limits.SlidingWindow(limits.PerHour(10)),
		Key:   core.When(counts, keyfuncs.Address(keyfuncs.MustTrustedProxies("127.0.0.1"))),
	}
}

func TestTheRuleBehindCachesIsThatOfTheGuide(t *testing.T) {
	shown, own := text(t, guide), text(t, "caches_test.go")
	from := strings.Index(own, "// wholes counts")
	to := from + strings.Index(own[from:], "\n}\n") + len("\n}\n")
	if !strings.Contains(shown, own[from:to]) {
		t.Errorf("%s has another rule than this file", guide)
	}
	if !strings.Contains(shown, secret) {
		t.Errorf("%s has another secret", guide)
	}
}

const secret = "4f0c2a61e7d94b58"

func text(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// behind returns a limited program behind a proxy, and the address of the proxy.
func behind(t *testing.T, app http.Handler) *system {
	t.Helper()
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	proxy, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	return &system{
		t: t, dir: t.TempDir(), files: blocks(t), url: "http://" + proxy,
		ports: strings.NewReplacer("8000", port(proxy), "9000", port(server.URL)),
	}
}

// nginx starts nginx with these lines in http and in its server.
func (s *system) nginx(inHTTP, inServer string) {
	s.t.Helper()
	temp := ""
	for i, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("  %s_temp_path t%d;\n", name, i)
	}
	s.write("nginx.conf", s.ports.Replace(`
daemon off; master_process off; error_log stderr crit; pid nginx.pid;
events {}
http {
  access_log off;
`+temp+inHTTP+`
  upstream app { server 127.0.0.1:9000; }
  server {
    listen 127.0.0.1:8000;
`+inServer+`
  }
}
`))
	s.run(testrun.Program(s.t, "nginx"), "-p", s.dir, "-c", "nginx.conf")
}

// from asks as a client of its own address.
func (s *system) from(client, path string, fields ...string) (*http.Response, []byte, error) {
	s.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	base := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}
	defer base.CloseIdleConnections()
	r, err := http.NewRequest("GET", s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	response, err := base.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

// download is a file of four slices.
var download = bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)

// storage serves download under the rule, and counts the requests that come.
type storage struct {
	limiter *nethttp.Limiter
	asked   atomic.Int64
}

func newStorage(rule nethttp.Rule) *storage {
	return &storage{limiter: nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{rule}, Headers: headers.Options{NotOnStorable: true},
	})}
}

func (s *storage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	s.limiter.Handler(http.HandlerFunc(serveDownload)).ServeHTTP(w, r)
}

func serveDownload(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=3600")
	w.Header().Set("ETag", `"download"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(download))
}

const pages = "  proxy_cache_path cache keys_zone=pages:10m use_temp_path=off;\n"

// inSlices is nginx before the storage, which fetches downloads in slices.
func inSlices(t *testing.T, rule nethttp.Rule, inServer string) (*system, *storage) {
	t.Helper()
	storage := newStorage(rule)
	s := behind(t, storage)
	s.nginx(pages+s.files["map.conf"], inServer)
	return s, storage
}

func TestADownloadInSlicesCountsOnce(t *testing.T) {
	s, storage := inSlices(t, wholes(secret), blocks(t)["slices.conf"])
	for i := range 10 {
		r, body, err := s.from("127.0.0.2", fmt.Sprint("/files/", i))
		if r.StatusCode != 200 || err != nil || !bytes.Equal(body, download) {
			t.Errorf("download %d: %d, %d bytes, %v", i, r.StatusCode, len(body), err)
		}
	}
	if asked := storage.asked.Load(); asked != 40 {
		t.Errorf("%d requests for 40 slices", asked)
	}
	r, _, _ := s.from("127.0.0.2", "/files/10")
	if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" || r.Header.Get("RateLimit") == "" {
		t.Errorf("after ten downloads: %d, %v", r.StatusCode, r.Header)
	}
	r, body, err := s.from("127.0.0.3", "/files/10")
	if r.StatusCode != 200 || err != nil || !bytes.Equal(body, download) {
		t.Errorf("another client: %d, %d bytes, %v", r.StatusCode, len(body), err)
	}
}

// Each of these asks for something else than the first slice, or claims to be a part.
func TestARangeThatAClientChoosesCounts(t *testing.T) {
	s, _ := inSlices(t, wholes(secret), blocks(t)["slices.conf"]+
		"location / { proxy_set_header X-Forwarded-For $remote_addr; proxy_pass http://app; }")
	for i, fields := range [][]string{
		{"Range", "bytes=1048576-"},
		{"Range", "bytes=1048576-2097151"},
		{"Range", "bytes=-1048576"},
		{"Range", "bytes=0-1,1048576-2097151"},
		{"Range", "Bytes=1048576-"},
		{"Range", "bytes= 1048576-"},
		{"Range", "0"},
		{"Range", ""},
		{"Range", "", "Range", "bytes=1048576-"},
		{"Range", "0", "Range", "bytes=1048576-"},
		{"Range", "bytes=1048576-", "If-Range", `"download"`},
		{"If-Range", `"download"`},
		{"X-Part", "4f0c2a61e7d94b59"},
		{"X-Part", ""},
		{"Range", "bytes=1048576-", "X-Part", "1"},
	} {
		for j, folder := range []string{"/files/", "/"} {
			passed := 0
			for n := range 12 {
				client := fmt.Sprintf("127.0.%d.%d", j+1, i+1)
				r, _, _ := s.from(client, fmt.Sprint(folder, i, "/", n), fields...)
				if r.StatusCode != 429 {
					passed++
				}
			}
			if passed != 10 {
				t.Errorf("%s, %q: %d of 12 have passed, want 10", folder, fields, passed)
			}
		}
	}
}

// The guide warns of it: such a client has all downloads from their second slice on.
func TestWithoutItsOtherLocationRangesWouldBeFree(t *testing.T) {
	lines := strings.Replace(blocks(t)["slices.conf"], `if ($http_range != "") { return 418; }`, "", 1)
	s, _ := inSlices(t, wholes(secret), lines)
	for i := range 15 {
		r, body, err := s.from("127.0.0.2", fmt.Sprint("/files/", i), "Range", "bytes=1048576-")
		if r.StatusCode != 206 || err != nil || len(body) != 3<<20 {
			t.Errorf("%d: %d, %d bytes, %v: the warning is wrong", i, r.StatusCode, len(body), err)
		}
	}
}

func TestWithoutASecretSlicesCount(t *testing.T) {
	lines := blocks(t)["slices.conf"]
	unmarked := strings.Replace(lines, "proxy_set_header X-Part $part;", "", 1)
	for name, use := range map[string]struct {
		rule  nethttp.Rule
		lines string
	}{
		"of nginx":       {wholes(secret), unmarked},
		"of the program": {wholes(""), lines},
	} {
		s, _ := inSlices(t, use.rule, use.lines)
		for i := range 4 {
			r, body, _ := s.from("127.0.0.2", fmt.Sprint("/files/", i))
			switch whole := len(body) == len(download); {
			case i < 2 && !whole:
				t.Errorf("%s: download %d has %d bytes", name, i, len(body))
			case i == 2 && (r.StatusCode != 200 || len(body) != len(download)/2):
				t.Errorf("%s: download %d: %d, %d bytes, want half of it", name, i, r.StatusCode, len(body))
			case i == 3 && r.StatusCode != 429:
				t.Errorf("%s: download %d: %d", name, i, r.StatusCode)
			}
		}
	}
}

func TestALimitOfBytesNeedsNoSecretForSlices(t *testing.T) {
	rule := wholes("")
	rule.Limit = limits.SlidingWindow(limits.PerHour(int64(len(download)) * 2))
	rule.FinalCost = func(r core.Result) int64 { return r.Bytes }
	s, _ := inSlices(t, rule, blocks(t)["slices.conf"])
	for i := range 2 {
		r, body, err := s.from("127.0.0.2", fmt.Sprint("/files/", i))
		if !bytes.Equal(body, download) || err != nil {
			t.Errorf("download %d: %d, %d bytes, %v", i, r.StatusCode, len(body), err)
		}
	}
	if r, _, _ := s.from("127.0.0.2", "/files/2"); r.StatusCode != 429 {
		t.Errorf("after two downloads: %d", r.StatusCode)
	}
	for i := range 8 { // a range is as dear as it is long
		r, body, err := s.from("127.0.0.3", fmt.Sprint("/files/", 3+i), "Range", "bytes=3145728-")
		if r.StatusCode != 206 || err != nil || len(body) != 1<<20 {
			t.Errorf("range %d: %d, %d bytes, %v", i, r.StatusCode, len(body), err)
		}
	}
	if r, _, _ := s.from("127.0.0.3", "/files/11", "Range", "bytes=0-0"); r.StatusCode != 429 {
		t.Errorf("after eight ranges: %d", r.StatusCode)
	}
}

func TestWeirInFrontOfACacheChecksADownloadInSlicesOnce(t *testing.T) {
	nginx := testrun.Program(t, "nginx")
	s := setUp(t, http.StatusForbidden, "weir.yaml")
	unlimited := httptest.NewServer(http.HandlerFunc(serveDownload))
	t.Cleanup(unlimited.Close)
	address := strings.TrimPrefix(unlimited.URL, "http://")
	conf := strings.Replace(s.files["nginx.conf"], "127.0.0.1:9000", address, 1)
	conf = s.ports.Replace(conf)
	const cache = "proxy_cache pages;"
	lines := strings.Replace(s.files["pages.conf"], cache, cache+"\n"+s.files["slice.conf"], 1)
	conf = strings.Replace(conf, "\nhttp {\n", "\nhttp {\n"+pages, 1)
	conf = strings.Replace(conf, "\n  server {\n", "\n  server {\n"+lines, 1)
	s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+conf)
	s.run(nginx, "-p", s.dir, "-c", "nginx.conf")
	for i := range 9 {
		r, body, err := s.from("127.0.0.2", fmt.Sprint("/pages/", i))
		if r.StatusCode != 200 || err != nil || !bytes.Equal(body, download) {
			t.Errorf("download %d: %d, %d bytes, %v", i, r.StatusCode, len(body), err)
		}
	}
	r, body, err := s.from("127.0.0.2", "/pages/9", "Range", "bytes=1048576-")
	if r.StatusCode != 206 || err != nil || len(body) != 3<<20 {
		t.Errorf("a range: %d, %d bytes, %v", r.StatusCode, len(body), err)
	}
	if r, _, _ := s.from("127.0.0.2", "/pages/9", "Range", "bytes=1048576-"); r.StatusCode != 429 {
		t.Errorf("the second range: %d", r.StatusCode)
	}
}

// pagesOfParts answers pages with a part, under the rule. limited limits the parts apart.
func pagesOfParts(limited func(http.Handler) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "private")
		fmt.Fprintf(w, `<p>page</p><esi:include src="/part%s"/><p>end</p>`, r.URL.Path)
	})
	mux.Handle("/part/", limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<p>part</p>")
	})))
	return nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{wholes(secret)}}).Handler(mux)
}

func (s *system) varnish(vcl string) {
	s.t.Helper()
	path := s.write("default.vcl", s.ports.Replace(vcl))
	s.run(testrun.Program(s.t, "varnishd"), "-F", "-j", "none", "-n", s.dir, "-a",
		strings.TrimPrefix(s.url, "http://"), "-T", "none", "-s", "malloc,16m", "-f", path)
}

func TestThePartsOfAPageOfVarnishAreNotCounted(t *testing.T) {
	s := behind(t, pagesOfParts(func(part http.Handler) http.Handler { return part }))
	s.varnish(s.files["default.vcl"])
	for i := range 12 {
		r, body, err := s.from("127.0.0.2", fmt.Sprint("/", i), "X-Part", secret)
		whole := string(body) == "<p>page</p><p>part</p><p>end</p>"
		if i < 10 && (r.StatusCode != 200 || err != nil || !whole) || i >= 10 && r.StatusCode != 429 {
			t.Errorf("page %d: %d, %s, %v", i, r.StatusCode, body, err)
		}
	}
	if r, body, _ := s.from("127.0.0.3", "/12"); r.StatusCode != 200 {
		t.Errorf("another client: %d, %s", r.StatusCode, body)
	}
}

func TestADeniedPartIsLeftOutOfAPageOfVarnish(t *testing.T) {
	app := pagesOfParts(nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name:  "parts",
		Limit: limits.SlidingWindow(limits.PerHour(1)),
		Key:   keyfuncs.Constant[*http.Request]("all"),
		Cost:  func(*http.Request) int64 { return 2 },
	}}}).Handler)
	s := behind(t, app)
	vcl := s.files["default.vcl"]
	s.varnish(vcl)
	r, body, err := s.from("127.0.0.2", "/1")
	if r.StatusCode != 200 || err != nil || string(body) != "<p>page</p><p>end</p>" {
		t.Errorf("%d, %s, %v", r.StatusCode, body, err)
	}
	// What the guide warns of.
	from, to := strings.Index(vcl, "sub vcl_deliver"), strings.Index(vcl, "sub vcl_synth")
	s = behind(t, app)
	s.varnish(vcl[:from] + vcl[to:])
	r, body, err = s.from("127.0.0.2", "/1")
	if r.StatusCode != 200 || err != nil || !strings.Contains(string(body), "violated-policies") {
		t.Errorf("without these lines: %d, %s, %v: the warning is wrong", r.StatusCode, body, err)
	}
}

// errorPages are programs with a page of their own for denials: with the line that loses the fields
// of a denial, with the line of the guide that keeps them, and with the file around it.
var errorPages = map[string]struct {
	spoils, keeps string
	run           func(s *system, line string)
}{
	"nginx": {"error_page 429", "error_page 429 = @sorry;", func(s *system, line string) {
		lines := s.files["sorry.conf"]
		if line == "error_page 429" {
			lines = strings.Replace(lines, "= @sorry;", "/sorry;", 1)
		}
		s.nginx("", lines+"location = /sorry { return 429; }")
	}},
	"apache2": {"ProxyErrorOverride On", "ProxyErrorOverride On 404 500 502",
		func(s *system, line string) {
			config := "ServerRoot DIR\nPidFile DIR/pid\nMutex file:DIR\nDefaultRuntimeDir DIR\n"
			for _, name := range []string{"mpm_event", "authz_core", "proxy", "proxy_http"} {
				const module = "LoadModule %s_module /usr/lib/apache2/modules/mod_%[1]s.so\n"
				config += fmt.Sprintf(module, name)
			}
			config += "User www-data\nGroup www-data\nServerName example.com\nErrorLog /dev/stderr\n" +
				"Listen 127.0.0.1:8000\nProxyPass / http://127.0.0.1:9000/\n" + line + "\n"
			config = strings.ReplaceAll(s.ports.Replace(config), "DIR", s.dir)
			s.run(testrun.Program(s.t, "apache2"), "-X", "-f", s.write("apache.conf", config))
		}},
	"traefik": {`status: ["400-599"]`, `status: ["400-428", "430-502", "504-599"]`,
		func(s *system, line string) {
			s.files["dynamic.yaml"] = strings.Replace(`
http:
  middlewares: {pages: {errors: {LINE, service: app, query: /free}}}
  routers:
    app: {rule: "PathPrefix(`+"`/`"+`)", middlewares: [pages], service: app}
  services: {app: {loadBalancer: {servers: [{url: "http://127.0.0.1:9000"}]}}}
`, "LINE", line, 1)
			s.traefik()
		}},
	"haproxy": {"http-response return status 429",
		"http-response set-var(txn.retry) res.fhdr(Retry-After)", func(s *system, line string) {
			lines, fields := "", ""
			if strings.Contains(line, "set-var") {
				for variable, name := range map[string]string{
					"retry": "Retry-After", "limit": "RateLimit", "policy": "RateLimit-Policy",
				} {
					set := strings.NewReplacer("retry", variable, "Retry-After", name).Replace(line)
					lines += "  " + set + "\n"
					fields += fmt.Sprintf("hdr %s %%[var(txn.%s)] ", name, variable)
				}
			}
			path := s.write("haproxy.cfg", s.ports.Replace(`
defaults
  mode http
  timeout client 30s
  timeout connect 5s
  timeout server 30s
frontend web
  bind 127.0.0.1:8000
`+lines+`  http-response return status 429 content-type text/plain string No. `+fields+`if { status 429 }
  default_backend app
backend app
  server app 127.0.0.1:9000
`))
			s.run(testrun.Program(s.t, "haproxy"), "-db", "-f", path)
		}},
	"caddy": {"handle_response",
		"copy_response_headers { include Retry-After RateLimit RateLimit-Policy Cache-Control }",
		func(s *system, line string) {
			s.t.Setenv("HOME", s.dir)
			line = strings.NewReplacer("handle_response", "", "{ ", "{\n", " }", "\n}").Replace(line)
			path := s.write("Caddyfile", s.ports.Replace(`
{
	admin off
	auto_https off
}
:8000 {
	reverse_proxy 127.0.0.1:9000 {
		@denied status 429
		handle_response @denied {
`+line+`
			respond Sorry. 429
		}
	}
}
`))
			s.run(testrun.Program(s.t, "caddy"), "run", "--adapter", "caddyfile", "--config", path)
		}},
}

func TestAnErrorPageKeepsTheFieldsOfADenial(t *testing.T) {
	for name, page := range errorPages {
		t.Run(name, func(t *testing.T) {
			testrun.Program(t, name)
			for line, want := range map[string]bool{page.keeps: true, page.spoils: false} {
				if !strings.Contains(text(t, guide), line) {
					t.Errorf("%s does not have the line %s", guide, line)
				}
				limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
					Name:  "all",
					Limit: limits.SlidingWindow(limits.PerHour(1)),
					Key:   keyfuncs.Constant[*http.Request]("all"),
				}}})
				mux := http.NewServeMux()
				mux.Handle("/", limiter.Handler(http.HandlerFunc(serveDownload)))
				mux.HandleFunc("/free", serveDownload)
				s := behind(t, mux)
				page.run(s, line)
				s.want("GET", "/free", 200)
				s.want("GET", "/", 200, "RateLimit")
				r, _, _ := s.from("127.0.0.1", "/")
				if r.StatusCode != 429 {
					t.Errorf("%s: %d", line, r.StatusCode)
				}
				for _, field := range []string{"Retry-After", "RateLimit", "RateLimit-Policy"} {
					if has := r.Header.Get(field) != ""; has != want {
						t.Errorf("%s: a denial has %s: %t, want %t", line, field, has, want)
					}
				}
			}
		})
	}
}
