package examples

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"
)

var frameworks = []string{"chi", "gin", "echo"}

func TestTheFrameworksAnswerAlike(t *testing.T) {
	first := "" // how the first answered
	for _, name := range frameworks {
		t.Run(name, func(t *testing.T) {
			allows := name != "gin" || ginAllows()
			transcript := visit(t, start(t, name), allows)
			if first == "" {
				first = transcript
			}
			want := first
			if !allows {
				want = allow.ReplaceAllString(first, "")
			}
			if diff := cmp.Diff(want, transcript); diff != "" {
				t.Errorf("differs from the first, -first +this:\n%s", diff)
			}
		})
		t.Run(name+" on Redis", func(t *testing.T) {
			server := miniredis.RunT(t)
			countInRedis(t, start(t, name, "REDIS_URL=redis://"+server.Addr()), server)
		})
	}
}

// countInRedis asks until every limiter has counted something in Redis: a
// decision that a busy machine holds up for too long is counted elsewhere.
func countInRedis(t *testing.T, at string, server *miniredis.Miniredis) {
	t.Helper()
	counted := func(scope string) bool {
		return slices.ContainsFunc(server.Keys(), func(key string) bool { return strings.Contains(key, ":"+scope+":") })
	}
	routes := [][3]string{{"GET", "/search", "search"}, {"GET", "/users/1", "users"}, {"POST", "/login", "login"}, {"GET", "/none", "per-client"}}
	for range 20_000 {
		for _, route := range routes {
			a := send(t, route[0], at+route[1], "")
			switch a.StatusCode {
			case 200, 404, 429:
			default:
				t.Fatalf("%s %s: %s", route[0], route[1], a.Status)
			}
		}
		if !slices.ContainsFunc(routes, func(route [3]string) bool { return !counted(route[2]) }) {
			return
		}
	}
	t.Errorf("Redis has nothing of some limiters: %q", server.Keys())
}

var allow = regexp.MustCompile("(?m)^Allow: .*\n")

// ginAllows reports whether gin says which methods are allowed, as it does from
// 1.10 on.
func ginAllows() bool {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.GET("/", func(*gin.Context) {})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
	return w.Header().Get("Allow") != ""
}

// visit goes through the API of the examples and writes down the answers. allows
// says whether a 405 names the methods that are allowed.
func visit(t *testing.T, at string, allows bool) string {
	t.Helper()
	var transcript strings.Builder
	ask := func(status int, method, path string, fields ...string) answer {
		t.Helper()
		a := send(t, method, at+path, "", fields...).want(t, status)
		transcript.WriteString(describe(a))
		return a
	}
	for range 100 { // more than any limit
		ask(200, "GET", "/healthz").field(t, "RateLimit", "")
	}
	a := ask(200, "GET", "/users/1")
	a.field(t, "RateLimit", `"per-client";r=59;t=59, "users";r=29;t=58`)
	a.field(t, "RateLimit-Policy", `"per-client";q=60;w=60, "users";q=30;w=60`)
	if a.body != "User 1.\n" {
		t.Errorf("body %q", a.body)
	}
	ask(200, "GET", "/users/2").field(t, "RateLimit", `"per-client";r=5`)
	ask(404, "GET", "/no/such/page").field(t, "RateLimit", `"per-client";r=5`)
	ask(200, "HEAD", "/healthz").field(t, "RateLimit", "")
	for _, path := range []string{"/", "//search", "/SEARCH", "/healthz/", "/search/", "/users/", "/users/1/", "/users/1/2", "/users//"} {
		ask(404, "GET", path).field(t, "RateLimit", `"per-client";r=`)
	}
	ask(404, "POST", "/login/")
	for _, request := range [][3]string{
		{"POST", "/healthz", "GET"}, {"GET", "/login", "POST"}, {"HEAD", "/login", "POST"},
		{"OPTIONS", "/search", "GET"}, {"DELETE", "/users/1", "GET"}, {"HEAD", "/users/1", "GET"},
	} {
		a := ask(405, request[0], request[1])
		if allows && !strings.Contains(strings.Join(a.Header.Values("Allow"), ", "), request[2]) {
			t.Errorf("%s %s: Allow %q, want %s", request[0], request[1], a.Header.Values("Allow"), request[2])
		}
	}
	for _, path := range []string{"/users/%41", "/users/a%2Fb", "/users/a%20b", "/users/100%25", "/users/%2541"} {
		ask(200, "GET", path)
	}
	for range 2 {
		for _, key := range []string{"k1", "k2", "forged"} {
			a = ask(200, "GET", "/search", "X-API-Key", key)
			a.field(t, "RateLimit-Policy", `"per-client";q=60;w=60, "search";q=20;w=2`)
		}
	}
	for range 5 {
		ask(200, "POST", "/login").field(t, "RateLimit-Policy", `"per-client";q=60;w=60, "login";q=5;w=60`)
	}
	a = ask(429, "POST", "/login")
	a.field(t, "Content-Type", "application/problem+json")
	a.field(t, "Cache-Control", "no-store")
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 60 {
		t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
	}
	if !strings.HasSuffix(a.body, `"violated-policies":["login"]}`+"\n") {
		t.Errorf("body %s", a.body)
	}
	ask(200, "GET", "/users/3") // the rest goes on

	last := denied(t, func() answer { return send(t, "GET", at+"/search", "", "X-API-Key", "k1") })
	if !strings.Contains(last.body, `"violated-policies":["`) {
		t.Errorf("body %s", last.body)
	}
	return transcript.String()
}

var numbers = regexp.MustCompile(`(;[rt]=|in )[0-9]+`)

// describe returns an answer without what depends on the time. The methods of
// Allow are a list, which may be in any order and on one line or several.
func describe(a answer) string {
	var fields []string
	for name, values := range a.Header {
		switch {
		case name == "Date", a.StatusCode == 429 && (name == "Retry-After" || name == "Content-Length"):
			continue
		case name == "Allow":
			values = strings.Split(strings.Join(values, ", "), ", ")
			slices.Sort(values)
		}
		fields = append(fields, fmt.Sprintf("%s: %s", name, strings.Join(values, " | ")))
	}
	slices.Sort(fields)
	text := fmt.Sprintf("%s %s %d\n%s\n%s\n", a.Request.Method, a.Request.URL.RequestURI(), a.StatusCode, strings.Join(fields, "\n"), a.body)
	return numbers.ReplaceAllString(text, "${1}N")
}
