package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/gateway/envoy"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
)

// openEnvoy is the configuration of the guide for the rate limit filter, in Envoy's default failure
// mode: what the service refuses passes uncounted.
func (s *system) openEnvoy(actions string) string {
	s.t.Helper()
	text := s.files["envoy.yaml"]
	_, grpc, _ := net.SplitHostPort(s.weir.grpc)
	from := strings.Index(text, "                  - name: envoy.filters.http.ext_authz")
	to := strings.Index(text, "                  - name: envoy.filters.http.ratelimit")
	_, limited, _ := strings.Cut(text, "                      rate_limits:\n")
	limited, _, _ = strings.Cut(limited, "                      routes:\n")
	for _, change := range [][2]string{
		{text[from:to], ""},
		{"failure_mode_deny: true", "failure_mode_deny: false"},
		{limited, strings.TrimPrefix(actions, "\n")},
		{"8081", grpc},
	} {
		if !strings.Contains(text, change[0]) {
			s.t.Fatalf("envoy.yaml has no %q", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return s.ports.Replace(text)
}

// send sends a request as it is written, and returns the status and the fields of the answer.
func (s *system) send(message string) *http.Response {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s\r\nHost: shop.example\r\nConnection: close\r\n\r\n", message)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	return response
}

// In its default failure mode Envoy lets all pass that the service does not answer: so no client may
// bring that about.
func TestARealEnvoyCountsWhatAClientMakesOdd(t *testing.T) {
	path := testrun.Program(t, "envoy")
	s := setUp(t, 0, "weir.yaml", "limits.yaml")
	s.weir.end()
	file := s.write("limits.yaml", `domain: shop
descriptors:
  - {key: path, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: word, rate_limit: {unit: year, requests_per_unit: 2}}
`)
	s.weir = start(t, Config{Paths: []string{file}, Drain: time.Second})
	s.run(path, "-c", s.write("envoy.yaml", s.openEnvoy(`
                        - actions: [{request_headers: {header_name: ":path", descriptor_key: path}}]
                        - actions: [{request_headers: {header_name: x-word, descriptor_key: word}}]
`)), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	long := strings.Repeat("v", 50_000)
	for name, message := range map[string]string{
		"a long path":              "GET /" + long + " HTTP/1.1",
		"another long path":        "GET /" + long + "x HTTP/1.1",
		"a field of Latin-1":       "GET /@ HTTP/1.1\r\nX-Word: caf\xe9",
		"a long field of Latin-1":  "GET /@ HTTP/1.1\r\nX-Word: \xe9" + long,
		"a field of half a rune":   "GET /@ HTTP/1.1\r\nX-Word: \xf0\x9f",
		"an escape of half a rune": "GET /%e9 HTTP/1.1",
	} {
		for i, want := range []int{200, 200, 429} {
			another := fmt.Sprintf("%s-%d", strings.ReplaceAll(name, " ", "-"), i) // path, so that only the field counts
			response := s.send(strings.Replace(message, "@", another, 1))
			if response.StatusCode != want || response.Header.Get("X-Ratelimit-Remaining") == "" {
				t.Errorf("%s, request %d: %d, want %d: %v", name, i+1, response.StatusCode, want, response.Header)
			}
		}
	}
}

// Envoy 1.40 shows the window of a limit by several units, and older ones show one unit. It sends
// none itself: the metadata of an override may have a unit_multiplier, which Envoy leaves out.
func TestARealEnvoyShowsALimitBySeveralUnits(t *testing.T) {
	path := testrun.Program(t, "envoy")
	want := "2, 2;w=25920000"
	if minorOf(t, path) < 40 {
		want = "2, 2;w=86400"
	}
	s := setUp(t, 0, "weir.yaml", "limits.yaml")
	s.weir.end()
	file := s.write("limits.yaml", `domain: shop
descriptors:
  - {key: path, rate_limit: {unit: day, unit_multiplier: 300, requests_per_unit: 2}}
`)
	s.weir = start(t, Config{Paths: []string{file}, Drain: time.Second})
	s.run(path, "-c", s.write("envoy.yaml", s.openEnvoy(`
                        - actions: [{request_headers: {header_name: ":path", descriptor_key: path}}]
`)), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	for i, status := range []int{200, 200, 429} {
		response := s.send("GET /a HTTP/1.1")
		window := response.Header.Get("X-Ratelimit-Limit")
		if response.StatusCode != status || window != want {
			t.Errorf("request %d: %d, want %d, and the window %q, want %q", i+1, response.StatusCode, status, window,
				want)
		}
	}
}

// minorOf returns the minor version of Envoy.
func minorOf(t *testing.T, path string) int {
	t.Helper()
	said, err := testrun.Command(t, path, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`/1\.(\d+)\.\d+/`).FindSubmatch(said)
	if found == nil {
		t.Fatalf("%s --version: %s", path, said)
	}
	minor, _ := strconv.Atoi(string(found[1]))
	return minor
}

// away is a backend that fails.
type away struct{ backends.Backend }

func (away) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return io.ErrUnexpectedEOF
}

// Each failure mode of Envoy applies to what the service failed to decide, and to nothing that a
// client can bring about or that a rule closes.
func TestARealEnvoyLetsOnlyAFailureOfTheServicePass(t *testing.T) {
	path := testrun.Program(t, "envoy")
	type keyOf = func(*http.Request) (string, error)
	at := func(path string, key keyOf) keyOf {
		return func(r *http.Request) (string, error) {
			if r.URL.Path != path {
				return "", core.ErrDoesNotApply
			}
			return key(r)
		}
	}
	anyone := func(*http.Request) (string, error) { return "k", nil }
	none := func(*http.Request) (string, error) { return "", io.ErrUnexpectedEOF }
	limit := limits.FixedWindow(limits.PerHour(9))
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "failed", Limit: limit, Key: at("/failed", anyone)},
			{Name: "closed", Limit: limit, Key: at("/closed", anyone), OnFailure: core.FailClosed},
			{Name: "keyless", Limit: limit, Key: at("/keyless", none)},
		},
		Backend: away{}, Fallback: away{}, Logger: slog.New(slog.DiscardHandler),
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := envoy.MustNewServer(envoy.ServerOptions{})
	envoy.RegisterAuthorization(server, limiter, envoy.AuthorizationOptions{Logger: slog.New(slog.DiscardHandler)})
	go server.Serve(listener)
	defer server.Stop()
	for _, mode := range []string{"false", "true"} {
		s := setUp(t, 0, "weir.yaml")
		s.weir.grpc = listener.Addr().String()
		text, err := os.ReadFile(s.envoyWithout("ratelimit"))
		if err != nil {
			t.Fatal(err)
		}
		config := strings.Replace(string(text), "failure_mode_allow: false", "failure_mode_allow: "+mode, 1)
		s.run(path, "-c", s.write("envoy.yaml", config), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
		failed := map[string]int{"false": 503, "true": 200}[mode]
		for path, status := range map[string]int{"/": 200, "/failed": failed, "/closed": 503, "/keyless": 503} {
			response := s.send("GET " + path + " HTTP/1.1")
			if response.StatusCode != status ||
				status == 503 && response.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("failure_mode_allow: %s, %s: %d, want %d: %v", mode, path, response.StatusCode, status, response.Header)
			}
		}
	}
}
