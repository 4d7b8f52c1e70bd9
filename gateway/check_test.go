package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// proxied are the fields of a check as nginx, Traefik and Caddy send them.
func proxied(more ...string) http.Header {
	h := http.Header{
		"X-Forwarded-Method": {"POST"}, "X-Forwarded-Host": {"shop.example"},
		"X-Forwarded-Uri": {"/login?next=%2F"}, "X-Forwarded-For": {"203.0.113.7"},
		"Accept": {"application/json"},
	}
	for i := 0; i < len(more); i += 2 {
		if more[i+1] == "" {
			delete(h, more[i])
			continue
		}
		h[more[i]] = strings.Split(more[i+1], "|") // lines
	}
	return h
}

// checkOf returns a request as net/http would read it from a proxy, which asks by GET and
// HTTP/1.0.
func checkOf(peer string, h http.Header) *http.Request {
	r := httptest.NewRequest("GET", "/check", nil)
	r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	r.RemoteAddr, r.Header = peer, h
	return r
}

func answerOf(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// newSeeing returns a check whose limiter notes the original request, and allows one request of each key.
func newSeeing(t *testing.T, o gateway.Options) (check http.Handler, seen func() *http.Request) {
	t.Helper()
	var last *http.Request
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "one", Limit: limits.SlidingWindow(limits.PerHour(1)),
		Key: func(r *http.Request) (string, error) {
			last = r
			return keyfuncs.Address(keyfuncs.Peer)(r)
		},
	}}})
	return gateway.MustNew(limiter, []string{"10.0.0.0/8", "192.0.2.1"}, o), func() *http.Request { return last }
}

func TestACheckIsDecidedAsTheOriginalRequest(t *testing.T) {
	for _, c := range []struct {
		name                                 string
		h                                    http.Header
		method, host, uri, path, addr, chain string
	}{
		{"nginx, Traefik, Caddy", proxied(), "POST", "shop.example", "/login?next=%2F", "/login", "203.0.113.7:0", ""},
		{"X-Original", proxied("X-Forwarded-Method", "", "X-Original-Method", "PUT", "X-Forwarded-Uri", "", "X-Original-Uri", "/a"), "PUT", "shop.example", "/a", "/a", "203.0.113.7:0", ""},
		{"the ingress of nginx", proxied("X-Forwarded-Uri", "", "X-Forwarded-Host", "", "X-Original-Url", "https://b.example:8443/x?y"), "POST", "b.example:8443", "/x?y", "/x", "203.0.113.7:0", ""},
		{"fields that agree", proxied("X-Original-Uri", "/login?next=%2F", "X-Original-Url", "http://shop.example/login?next=%2F"), "POST", "shop.example", "/login?next=%2F", "/login", "203.0.113.7:0", ""},
		{"hops further out", proxied("X-Forwarded-For", "198.51.100.1, 192.0.2.9 , 203.0.113.7"), "POST", "shop.example", "/login?next=%2F", "/login", "203.0.113.7:0", "198.51.100.1, 192.0.2.9"},
		{"IPv6", proxied("X-Forwarded-For", "2001:db8::7"), "POST", "shop.example", "/login?next=%2F", "/login", "[2001:db8::7]:0", ""},
		{"two slashes", proxied("X-Forwarded-Uri", "//evil.example/x"), "POST", "shop.example", "//evil.example/x", "//evil.example/x", "203.0.113.7:0", ""},
		{"a percent sign for itself", proxied("X-Forwarded-Uri", "/a%zz/%4g%%41%2F%?%zz"), "POST", "shop.example", "/a%zz/%4g%%41%2F%?%zz", "/a%zz/%4g%A/%", "203.0.113.7:0", ""},
		{"a star", proxied("X-Forwarded-Method", "OPTIONS", "X-Forwarded-Uri", "*"), "OPTIONS", "shop.example", "*", "*", "203.0.113.7:0", ""},
	} {
		check, seen := newSeeing(t, gateway.Options{})
		if w := answerOf(check, checkOf("10.1.2.3:40000", c.h)); w.Code != 204 || w.Body.Len() > 0 ||
			w.Header().Get("RateLimit") == "" {
			t.Errorf("%s: %d %q, fields %v", c.name, w.Code, w.Body, w.Header())
			continue
		}
		r := seen()
		if r.Method != c.method || r.Host != c.host || r.RequestURI != c.uri || r.URL.Path != c.path ||
			r.RemoteAddr != c.addr ||
			r.Header.Get("X-Forwarded-For") != c.chain {
			t.Errorf("%s: %s %s %s (path %s) from %s, hops %q",
				c.name, r.Method, r.Host, r.RequestURI, r.URL.Path, r.RemoteAddr, r.Header.Get("X-Forwarded-For"))
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Original-") ||
				strings.HasPrefix(name, "X-Forwarded-") && name != "X-Forwarded-For" {
				t.Errorf("%s: the rules see %s", c.name, name)
			}
		}
	}
}

// Rules and the Denied of a program get a request of their own: whatever they set is not in the check.
func TestWhatRulesSetIsNotInTheCheck(t *testing.T) {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "one", Limit: limits.SlidingWindow(limits.PerHour(1)),
		Key: func(r *http.Request) (string, error) {
			r.Header.Set("Accept", "text/html")
			r.Header.Add("Cookie", "b=2")
			r.Header.Del("User-Agent")
			r.Header.Set("X-New", "1")
			return "", nil
		},
	}}})
	check := gateway.MustNew(limiter, []string{"10.0.0.0/8"}, gateway.Options{})
	h := proxied("User-Agent", "curl", "Cookie", "a=1")
	h["Cookie"] = h["Cookie"][:1:1] // as net/http reads it
	before := h.Clone()
	if w := answerOf(check, checkOf("10.1.2.3:40000", h)); w.Code != 204 {
		t.Fatalf("%d %q", w.Code, w.Body)
	}
	if !reflect.DeepEqual(h, before) {
		t.Errorf("fields of the check are %v, want %v", h, before)
	}
}

func TestWhatIsNotBelievedLetsNothingPass(t *testing.T) {
	for _, c := range []struct {
		name, peer string
		h          http.Header
	}{
		{"another peer", "192.0.2.2:1", proxied()},
		{"a peer without a port", "10.0.0.1", proxied()},
		{"no peer", "@", proxied()},
		{"no method", "10.0.0.1:1", proxied("X-Forwarded-Method", "")},
		{"no method at all", "10.0.0.1:1", proxied("X-Forwarded-Method", "G T")},
		{"no path", "10.0.0.1:1", proxied("X-Forwarded-Uri", "")},
		{"no host", "10.0.0.1:1", proxied("X-Forwarded-Host", "")},
		{"two hosts in one", "10.0.0.1:1", proxied("X-Forwarded-Host", "a.example, b.example")},
		{"no address", "10.0.0.1:1", proxied("X-Forwarded-For", "")},
		{"no address at the end", "10.0.0.1:1", proxied("X-Forwarded-For", "203.0.113.7, unix:")},
		{"an empty last hop", "10.0.0.1:1", proxied("X-Forwarded-For", "203.0.113.7,")},
		{"two lines of the path", "10.0.0.1:1", proxied("X-Forwarded-Uri", "/a|/b")},
		{"two equal lines", "10.0.0.1:1", proxied("X-Forwarded-Uri", "/a|/a")},
		{"two lines of the method", "10.0.0.1:1", proxied("X-Forwarded-Method", "GET|POST")},
		{"two lines of the address", "10.0.0.1:1", proxied("X-Forwarded-For", "203.0.113.7|203.0.113.8")},
		{"X-Original-Uri against X-Forwarded-Uri", "10.0.0.1:1", proxied("X-Original-Uri", "/free")},
		{"X-Original-Url against X-Forwarded-Uri", "10.0.0.1:1", proxied("X-Original-Url", "http://shop.example/free")},
		{"X-Original-Url against X-Forwarded-Host", "10.0.0.1:1", proxied("X-Original-Url", "http://b.example/login?next=%2F")},
		{"X-Original-Method against X-Forwarded-Method", "10.0.0.1:1", proxied("X-Original-Method", "GET")},
		{"no URL", "10.0.0.1:1", proxied("X-Original-Url", "shop.example")},
		{"a path that is a URL", "10.0.0.1:1", proxied("X-Forwarded-Uri", "http://shop.example/")},
		{"two paths in one", "10.0.0.1:1", proxied("X-Forwarded-Uri", "/a, /b")},
		{"a fragment", "10.0.0.1:1", proxied("X-Forwarded-Uri", "/a#b")},
	} {
		check, seen := newSeeing(t, gateway.Options{DeniedStatus: 403, Logger: slog.New(slog.DiscardHandler)})
		if w := answerOf(check, checkOf(c.peer, c.h)); w.Code != 503 || w.Header().Get("RateLimit") != "" ||
			seen() != nil {
			t.Errorf("%s: %d, fields %v", c.name, w.Code, w.Header())
		}
	}
}

func TestADenialHasItsFieldsAndTheStatusThatTheProxyNeeds(t *testing.T) {
	for _, c := range []struct{ option, want int }{{0, 429}, {403, 403}, {401, 401}} {
		check, _ := newSeeing(t, gateway.Options{DeniedStatus: c.option})
		answerOf(check, checkOf("192.0.2.1:9", proxied()))
		w := answerOf(check, checkOf("192.0.2.1:9", proxied()))
		var problem struct{ Status int }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.want || problem.Status != 429 || w.Header().Get("Retry-After") == "" ||
			w.Header().Get("RateLimit") == "" {
			t.Errorf("DeniedStatus %d: %d, document %d, fields %v", c.option, w.Code, problem.Status, w.Header())
		}
	}
}

// A proxy that takes the denied status for the client's fault must not take these for it.
func TestA503KeepsItsStatusWhateverADenialHas(t *testing.T) {
	all := func(*http.Request) (string, error) { return "all", nil }
	for name, rule := range map[string]nethttp.Rule{
		"short of capacity": {Limit: limits.FixedWindow(limits.PerDay(1)), Key: all, DenyAs503: true},
		"undecided": {Limit: limits.FixedWindow(limits.PerDay(1)),
			Key: func(*http.Request) (string, error) { return "", keyfuncs.ErrUnidentified }},
	} {
		rule.Name = "r"
		limiter := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{rule}, Logger: slog.New(slog.DiscardHandler),
		})
		check := gateway.MustNew(limiter, []string{"10.0.0.0/8"}, gateway.Options{DeniedStatus: 403})
		answerOf(check, checkOf("10.0.0.1:9", proxied()))
		if w := answerOf(check, checkOf("10.0.0.1:9", proxied())); w.Code != 503 {
			t.Errorf("%s: %d, want 503", name, w.Code)
		}
	}
}

// Traefik and Caddy ask by GET about a HEAD, and read the body that the answer announces.
func TestADeniedHEADAnnouncesNoBodyThatIsNotSent(t *testing.T) {
	check, _ := newSeeing(t, gateway.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = "10.0.0.1:1"
		check.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, method := range []string{"GET", "GET", "HEAD"} {
		r, err := http.NewRequest(method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = proxied("X-Forwarded-Method", "HEAD")
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || len(body) > 0 || method == "GET" && response.ContentLength != 0 {
			t.Errorf("%s: %d, %d bytes announced: %q, %v", method, response.StatusCode, response.ContentLength, body, err)
		}
	}
}

// nginx closes the connection of a check when its client leaves.
func TestACallerThatHasLeftIsAnsweredByABare503(t *testing.T) {
	check, _ := newSeeing(t, gateway.Options{})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if w := answerOf(check, checkOf("10.0.0.1:1", proxied()).WithContext(ctx)); w.Code != 503 {
		t.Errorf("%d", w.Code)
	}
}

func TestPeersOverAUnixSocketAreBelievedIfNamed(t *testing.T) {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "all", Limit: limits.SlidingWindow(limits.PerHour(9)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	over := &net.UnixAddr{Name: "/run/weir.sock", Net: "unix"}
	for _, c := range []struct {
		proxies []string
		want    int
	}{{[]string{"unix"}, 204}, {[]string{"10.0.0.0/8"}, 503}} {
		check := gateway.MustNew(limiter, c.proxies, gateway.Options{Logger: slog.New(slog.DiscardHandler)})
		r := checkOf("10.0.0.1:1", proxied()) // a name that the other end may choose
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, over))
		if w := answerOf(check, r); w.Code != c.want {
			t.Errorf("proxies %v: %d, want %d", c.proxies, w.Code, c.want)
		}
	}
}

func TestWhatIsNotBelievedIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		check, _ := newSeeing(t, gateway.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 121 { // at 0 s, and at 60 s, and at 120 s
			answerOf(check, checkOf("198.51.100.77:1", proxied()))
			time.Sleep(time.Second)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 3 || !strings.Contains(log.String(), "requests=60") ||
			strings.Contains(log.String(), "198.51.100.77") {
			t.Errorf("%d lines:\n%s", lines, &log)
		}
	})
}

func TestEveryMistakeOfAConfigurationIsReported(t *testing.T) {
	_, err := gateway.New(nil,
		[]string{"10.0.0.0/33", "0.0.0.0/0", "proxy.example", "::ffff:10.0.0.0/104"},
		gateway.Options{DeniedStatus: 500})
	for _, want := range []string{"limiter", "10.0.0.0/33", "0.0.0.0/0", "proxy.example", "::ffff:10.0.0.0/104", "500"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := gateway.New(nil, nil, gateway.Options{}); err == nil || !strings.Contains(err.Error(), "proxies") {
		t.Error(err)
	}
}

func TestRulesThatNeedTheEndOfARequestDoNotSuit(t *testing.T) {
	key := func(*http.Request) (string, error) { return "", nil }
	err := gateway.Suits([]nethttp.Rule{
		{Name: "fine", Limit: limits.SlidingWindow(limits.PerSecond(1)), Key: key},
		{Name: "uploads", Limit: limits.Concurrent(3), Key: key},
		{Name: "log-in", Limit: limits.SlidingWindow(limits.PerSecond(1)), Key: key, FinalCost: core.SpentCost},
		{Name: "off", Limit: limits.Concurrent(3), Key: key, Mode: core.Disabled},
	})
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "uploads") ||
		!strings.Contains(err.Error(), `"log-in": a check sees no answer`) ||
		!strings.HasSuffix(err.Error(), "whose proxy can tell the cost") {
		t.Error(err)
	}
}

func TestADeniedCallOfGRPCHasItsCode(t *testing.T) {
	for _, status := range []int{0, 403} {
		check, _ := newSeeing(t, gateway.Options{DeniedStatus: status})
		ask := func(more ...string) *httptest.ResponseRecorder {
			return answerOf(check, checkOf("10.0.0.1:1", proxied(append(more, "Content-Type", "application/grpc")...)))
		}
		if w := ask(); w.Code != http.StatusNoContent || w.Header().Get("Grpc-Status") != "" {
			t.Errorf("%d, %v", w.Code, w.Header())
		}
		want := status
		if want == 0 {
			want = 429
		}
		for timeout, pushback := range map[string]string{"": "", "1n": "-1"} {
			w := ask("Grpc-Timeout", timeout)
			h := w.Header()
			if w.Code != want || w.Body.Len() > 0 || h.Get("Grpc-Status") != "8" ||
				!strings.HasPrefix(h.Get("Grpc-Message"), "Too many requests: retry in ") ||
				h.Get("Content-Type") != "application/grpc" || h.Get("Content-Length") != "" ||
				h.Get("Retry-After") == "" || h.Get("Grpc-Retry-Pushback-Ms") == "" ||
				pushback != "" && h.Get("Grpc-Retry-Pushback-Ms") != pushback {
				t.Errorf("%d %q, %v", w.Code, w.Body, h)
			}
		}
		w := answerOf(check, checkOf("10.0.0.1:1", proxied("Content-Type", "application/grpc-web")))
		if w.Code != want || w.Header().Get("Content-Type") != "application/grpc-web" ||
			w.Header().Get("Grpc-Status") != "8" {
			t.Errorf("%d, %v", w.Code, w.Header())
		}
	}
}

// What a program answers itself becomes the message if it is text.
func TestAnAnswerOfTheProgramBecomesTheMessageOfACall(t *testing.T) {
	for _, tt := range []struct{ contentType, body, want string }{
		{"text/plain; charset=utf-8", "Slow down: 50%.\n", "Slow down: 50%25."},
		{"text/plain", "", "Too Many Requests: retry in "},
		{"application/json", `{"detail":"no"}`, "Too Many Requests: retry in "},
		{"application/problem+json", "garbage", "Too Many Requests: retry in "},
		{"application/json", `{"type":"https://example.com/full","detail":"Too full."}`, "Too full."},
	} {
		limiter := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name: "one", Limit: limits.SlidingWindow(limits.PerHour(1)), Key: keyfuncs.Constant[*http.Request]("k"),
			}},
			Denied: func(w http.ResponseWriter, _ *http.Request, o core.Outcome) {
				w.Header().Set("Content-Type", tt.contentType)
				w.WriteHeader(o.Status())
				io.WriteString(w, tt.body)
			},
		})
		check := gateway.MustNew(limiter, []string{"10.0.0.0/8"}, gateway.Options{})
		var h http.Header
		for range 2 {
			fields := proxied("Content-Type", "application/grpc+proto")
			h = answerOf(check, checkOf("10.0.0.1:1", fields)).Header()
		}
		if got := h.Get("Grpc-Message"); !strings.HasPrefix(got, tt.want) || h.Get("Grpc-Status") != "8" {
			t.Errorf("%q: %q, %v", tt.body, got, h)
		}
	}
}
