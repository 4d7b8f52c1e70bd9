package policy

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func request(method, target string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Method = method
	if u, err := url.ParseRequestURI(target); err == nil {
		r.URL = u
		if u.Host != "" {
			r.Host = u.Host
		}
	}
	return r
}

func mustPattern(t testing.TB, text string) *pattern {
	t.Helper()
	p, err := parsePattern(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return p
}

func TestPatternsMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, method, target string
		matches, excepts        bool
	}{
		{"/", "GET", "/", true, true},
		{"/", "GET", "/a/b", true, true},
		{"/{$}", "GET", "/", true, true},
		{"/{$}", "GET", "/a", false, false},
		{"/login", "POST", "/login", true, true},
		{"/login", "POST", "/logi", false, false},
		{"/login", "POST", "/login/x", false, false},
		{"POST /login", "POST", "/login", true, true},
		{"POST /login", "GET", "/login", false, false},
		{"POST /login", "post", "/login", false, false},
		{"GET /login", "HEAD", "/login", true, true},
		{"HEAD /login", "GET", "/login", false, false},
		{"/users/{id}", "GET", "/users/7", true, true},
		{"/users/{id}", "GET", "/users/", false, false},
		{"/users/{id}", "GET", "/users/7/posts", false, false},
		{"/users/{id}/posts", "GET", "/users/7/posts", true, true},
		{"/files/{path...}", "GET", "/files/a/b", true, true},
		{"/files/{path...}", "GET", "/files/", true, true},
		{"/api/", "GET", "/api/", true, true},
		{"/api/", "GET", "/api/x/y", true, true},
		{"/api/", "GET", "/apis", false, false},
		{"/%2F/", "GET", "/", false, false}, // found by fuzzing
		{"/caf%C3%A9", "GET", "/caf%C3%A9", true, true},
		{"/a%20b", "GET", "/a%20b", true, true},
		{"/.well-known/x", "GET", "/.well-known/x", true, true},
		{"/a/", "GET", "/a/.b", true, true},
		{"/a/", "GET", "/a/...", true, true},
		{"/a/", "GET", "/a/..b/.", true, false},
		{"example.com/x", "GET", "http://example.com/x", true, true},
		{"example.com/x", "GET", "http://example.com:8080/x", true, true},
		{"example.com/x", "GET", "http://EXAMPLE.com./x", true, false},
		{"example.com/x", "GET", "http://example.org/x", false, false},

		// What only some routers read so: always a match, never an exception.
		{"/api/", "GET", "/api", true, false},
		{"/login", "POST", "/login/", true, false},
		{"/login", "POST", "//login", true, false},
		{"/login", "POST", "/./login", true, false},
		{"/login", "POST", "/x/../login", true, false},
		{"/login", "POST", "/../login", true, false},
		{"/api/login", "POST", "/api%2Flogin", true, false},
		{"/api/login", "POST", "/api/%2e%2e/api/login", true, false},
		{"/login", "POST", "/%6Cogin", true, false},
		{"/api/", "GET", "/api/../x", true, false},
		{"/api/{x}", "GET", "/api/a%2Fb", true, false},
		{"/api/{x}", "GET", "/api/%2F", true, false},
	} {
		p := mustPattern(t, test.pattern)
		r := request(test.method, test.target)
		if got := p.matches(r); got != test.matches {
			t.Errorf("%q matches %s %s: %v, want %v", test.pattern, test.method, test.target, got, test.matches)
		}
		if got := p.excepts(r); got != test.excepts {
			t.Errorf("%q excepts %s %s: %v, want %v", test.pattern, test.method, test.target, got, test.excepts)
		}
	}
}

func TestPatternsThatNeverMatchAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "login", "PO ST /x", "POST login", "(/) /x", "//", "//x", "/a/../b", "/a/./b", "/{", "/{}", "/a{x}",
		"/{x}a", "/{x y}",
		"/{$}/a", "/{x...}/a", "/{x}/{x}", "{host}/a", "/{1a}", "/" + strings.Repeat("a/", 40),
	} {
		if _, err := parsePattern(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	patterns := []*pattern{mustPattern(t, "POST /oauth/{provider}/token"), mustPattern(t, "/api/")}
	for _, target := range []string{
		"/oauth/x/token", "/%6Fauth/x/token", "//oauth/./x/../y/token", "/api%2F" + strings.Repeat("x/../", 1000),
	} {
		r := request("POST", target)
		if n := testing.AllocsPerRun(100, func() {
			for _, p := range patterns {
				p.matches(r)
				p.excepts(r)
			}
		}); n > 0 {
			t.Errorf("%.20s: %v allocations", target, n)
		}
	}
}

// muxPattern returns the pattern by which a ServeMux with one pattern routes r, and
// whether the mux accepts the pattern.
func muxPattern(text string, r *http.Request) (pattern string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	mux := http.NewServeMux()
	mux.Handle(text, http.NotFoundHandler())
	_, pattern = mux.Handler(r)
	return pattern, true
}

// FuzzPatternsAgreeWithServeMux compares with a ServeMux that has one pattern. A request
// that ServeMux routes by it always matches. One whose path has only one reading matches
// if and only if ServeMux, or ServeMux for the path with the slash at its end dropped,
// routes it.
func FuzzPatternsAgreeWithServeMux(f *testing.F) {
	for _, seed := range [][3]string{
		{"/", "GET", "/a"}, {"POST /login", "POST", "//login"}, {"/a/{$}", "GET", "/a/"}, {"/a/{$}", "GET", "/a"},
		{"/a/{x...}", "GET", "/a"}, {"/a/{x}/b", "GET", "/a/%2F/b"}, {"/a/%2F", "GET", "/a/"},
		{"example.com/", "GET", "http://example.com:1/"},
		{"/a/{$}", "GET", "/a/%2F"}, {"GET /%zz", "HEAD", "/%25zz"}, {"/a/../b", "GET", "/b"},
		{"CONNECT /a/", "CONNECT", "/a"},
		{"/é", "GET", "/%c3%a9"}, {"/a", "GET", "/a/."}, {"/{a}", "GET", "/.."}, {"/a/{b}/", "GET", "/a/./b"},
		{"/*", "OPTIONS", "*"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, text, method, target string) {
		r := request(method, target)
		routed, known := muxPattern(text, r)
		p, err := parsePattern(text)
		if !known || err != nil {
			if known && len(strings.Split(text, "/")) <= maxSegments {
				place := text // without its method
				if i := strings.IndexAny(text, " \t"); i >= 0 {
					place = strings.TrimLeft(text[i:], " \t")
				}
				if i := strings.IndexByte(place, '/'); isClean(place[i:]) && !strings.ContainsAny(place[:i], "} \t") &&
					strings.TrimLeft(text, " \t") == text {
					t.Fatalf("%q is refused, and ServeMux accepts it: %v", text, err)
				}
			} else if err == nil {
				t.Fatalf("%q is accepted, and ServeMux refuses it", text)
			}
			return
		}
		matches, excepts := p.matches(r), p.excepts(r)
		if routed != "" && !matches {
			t.Fatalf("%q does not match %s %q of %q, and ServeMux routes it by %q", text, method, target, r.Host,
				routed)
		}
		if excepts && (routed == "" || !matches) {
			t.Fatalf("%q excepts %s %q of %q, matches %v, and ServeMux routes it by %q", text, method, target, r.Host,
				matches, routed)
		}
		if !matches || routed != "" || isAmbiguous(r) || method == http.MethodConnect ||
			r.Host != strings.ToLower(hostOf(r.Host)) || strings.ToLower(p.host) != p.host ||
			strings.HasSuffix(r.Host, ".") || strings.HasSuffix(p.host, ".") {
			return
		}
		short := *r.URL
		short.Path = strings.TrimSuffix(short.Path, "/")
		r.URL = &short
		if routed, _ := muxPattern(text, r); routed == "" {
			t.Fatalf("%q matches %s %q of %q, and ServeMux does not route it", text, method, target, r.Host)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for _, bench := range []struct{ name, pattern, method, target string }{
		{"hit", "POST /oauth/{provider}/token", "POST", "/oauth/github/token"},
		{"miss by method", "POST /oauth/{provider}/token", "GET", "/oauth/github/token"},
		{"miss by path", "/api/", "GET", "/static/css/main.css"},
		{"miss late", "/api/v1/users/{id}/posts", "GET", "/api/v1/users/1234/comments"},
	} {
		p, r := mustPattern(b, bench.pattern), request(bench.method, bench.target)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.matches(r)
			}
		})
	}
}
