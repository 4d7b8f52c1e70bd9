package nethttp_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/nethttp"
)

func TestAProbeIsAMethodAndAPathOfTheList(t *testing.T) {
	isProbe := nethttp.MustProbes("/healthz", "/v2/", "/", "GET /versions", "GET /info/{name}",
		"HEAD /files/{path...}", "OPTIONS /rpc/{$}", "POST /grpc.health.v1.Health/Check", "GET /{name}/ping/")
	for _, request := range []string{
		"GET /healthz", "HEAD /healthz", "OPTIONS /healthz", "GET /healthz?verbose=1",
		"GET /v2/", "HEAD /v2/", "GET /", "OPTIONS /",
		"GET /versions", "HEAD /versions", "GET /info/rack", "HEAD /info/rack",
		"HEAD /files/", "HEAD /files/a", "HEAD /files/a/b.tif", "HEAD /files/a/",
		"OPTIONS /rpc/", "POST /grpc.health.v1.Health/Check", "GET /db/ping/",
	} {
		method, target, _ := strings.Cut(request, " ")
		if !isProbe(httptest.NewRequest(method, target, nil)) {
			t.Errorf("%s is no probe", request)
		}
	}
	for _, request := range []string{
		"POST /healthz", "GET /healthz/", "GET /healthz/x", "GET /HEALTHZ", "get /healthz",
		"GET /v2", "GET /v2/_catalog", "GET /v2/app/manifests/1", "PUT /v2/", "GET /x",
		"OPTIONS /versions", "GET /info", "GET /info/", "GET /info/a/b", "POST /info/rack",
		"GET /files/a", "HEAD /files", "HEAD /filesystem/a", "GET /rpc/", "OPTIONS /rpc",
		"POST /grpc.health.v1.Health/List", "GET /db/ping", "GET //ping/",
	} {
		method, target, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, "/", nil)
		r.URL.Path = target
		if isProbe(r) {
			t.Errorf("%s is a probe", request)
		}
	}
}

// A router or a server behind may take these for another path.
func TestNoSpellingOfAPathMakesAProbe(t *testing.T) {
	isProbe := nethttp.MustProbes("/v2/", "/healthz", "GET /info/{name}", "HEAD /files/{path...}",
		"GET /{name}/ping")
	for _, request := range []string{
		"GET /v2%2F", "GET /%76%32/", "GET //v2/", "GET /v2//", "GET /v2/.", "GET /x/../v2/", "GET /v2/../login",
		"GET /healthz;a=b", "GET /healthz%23", "GET /info/..", "GET /info/.", "GET /info/%2e%2e", "GET /info/a%2Fb",
		"GET /info/..;a", "GET /info/a%5Cb", "GET /info/a%23b", "HEAD /files/../login", "HEAD /files//a",
		"HEAD /files/a/../b", "HEAD /files/./a", "HEAD /files/..;/login", "HEAD /files/..%2flogin",
		"GET /info/%252e%252e", "GET /info/a%252F..%252F..%252Flogin", "HEAD /files/%252e%252e/login",
		"GET /login%3F/ping", "GET /login%00/ping", "GET /login%09/ping",
	} {
		method, target, _ := strings.Cut(request, " ")
		if isProbe(httptest.NewRequest(method, "http://example.com"+target, nil)) {
			t.Errorf("%s is a probe", request)
		}
	}
}

func TestAnEscapeThatAPathNeedsIsNoSpelling(t *testing.T) {
	isProbe := nethttp.MustProbes("/ä", "HEAD /files/{path...}")
	for _, request := range []string{"GET /%C3%A4", "HEAD /files/a%20b"} {
		method, target, _ := strings.Cut(request, " ")
		if !isProbe(httptest.NewRequest(method, target, nil)) {
			t.Errorf("%s is no probe", request)
		}
	}
}

func TestProbesReportsEveryMistakeAtOnce(t *testing.T) {
	wrong := map[string]string{
		"":                     "must be a path such as /healthz",
		"healthz":              "must be a path such as /healthz",
		"/a?b":                 "must be a path such as /healthz",
		"/a/../b":              "must be a path such as /healthz",
		"//a":                  "must be a path such as /healthz",
		"GET  /a":              "must be a path such as /healthz",
		"GET example.com/a":    "must be a path such as /healthz",
		"get /a":               "a method has capital letters",
		" /a":                  "a method has capital letters",
		"/info/{}":             "a wildcard is a whole segment",
		"/info/x{name}":        "a wildcard is a whole segment",
		"/info/{name":          "a wildcard is a whole segment",
		"/info/na}me":          "a wildcard is a whole segment",
		"/info/{...}":          "a wildcard is a whole segment",
		"HEAD /{rest...}/info": "{name...} is the rest of a path",
		"/files/{path...}":     "only HEAD probes a whole tree",
		"GET /files/{path...}": "only HEAD probes a whole tree",
	}
	var paths []string
	for text := range wrong {
		paths = append(paths, text)
	}
	isProbe, err := nethttp.Probes(append(paths, "/healthz")...)
	if err == nil || isProbe != nil {
		t.Fatalf("got %v", err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(wrong) {
		t.Errorf("%d lines for %d mistakes", len(lines), len(wrong))
	}
	for i, text := range paths {
		if want := "nethttp: Probes: " + wrong[text]; !strings.HasPrefix(lines[i], want) {
			t.Errorf("%q: %s, want %s", text, lines[i], want)
		}
	}
	if _, err := nethttp.Probes(); err == nil {
		t.Error("no path at all is no mistake")
	}
}

func TestADecisionAboutAProbeAllocatesNothing(t *testing.T) {
	isProbe := nethttp.MustProbes("/v2/", "GET /info/{name}", "HEAD /files/{path...}")
	for _, target := range []string{"/v2/", "/info/rack", "/v2/app/manifests/1"} {
		r := httptest.NewRequest("GET", target, nil)
		if n := testing.AllocsPerRun(100, func() { isProbe(r) }); n != 0 {
			t.Errorf("GET %s: %v allocations", target, n)
		}
	}
}
