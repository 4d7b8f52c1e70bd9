package examples

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/internal/proof/testrun"
)

func TestTheFrameworksAnswerAlike(t *testing.T) {
	frameworks := []string{"chi", "gin", "echo"}
	if testrun.Full() {
		frameworks = append(frameworks, "echo5", "fiber") // modules of their own
	}
	first := "" // the answers of the first framework
	for _, name := range frameworks {
		t.Run(name, func(t *testing.T) {
			transcript := visit(t, name, start(t, name))
			if first == "" {
				first = transcript
			}
			if diff := cmp.Diff(first, transcript); diff != "" {
				t.Errorf("differs from the first, -first +this:\n%s", diff)
			}
		})
	}
}

// ginAllows reports whether gin sends Allow with a 405, as it does from 1.10 on.
func ginAllows() bool {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.GET("/", func(*gin.Context) {})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
	return w.Header().Get("Allow") != ""
}

// visit sends requests to the API of the examples and returns the answers as text.
func visit(t *testing.T, name, at string) string {
	t.Helper()
	allows := name != "gin" || ginAllows()
	var transcript strings.Builder
	ask := func(status int, method, path string, fields ...string) answer {
		t.Helper()
		a := send(t, method, at+path, "", fields...).want(t, status)
		transcript.WriteString(describe(a))
		return a
	}
	for range 100 { // more than a client may ask for otherwise
		send(t, "GET", at+"/healthz", "").want(t, 200).field(t, "RateLimit-Policy", `"probes";q=600;w=60`)
	}
	a := ask(200, "GET", "/users/1")
	a.field(t, "RateLimit", `"per-client";r=59;t=59, "users";r=29;t=58`)
	a.field(t, "RateLimit-Policy", `"per-client";q=60;w=60, "users";q=30;w=60`)
	if a.body != "User 1.\n" {
		t.Errorf("body %q", a.body)
	}
	ask(200, "GET", "/users/2").field(t, "RateLimit", `"per-client";r=5`)
	ask(404, "GET", "/no/such/page").field(t, "RateLimit", `"per-client";r=5`)
	send(t, "HEAD", at+"/healthz", "").want(t, 200).field(t, "RateLimit", `"probes";r=`)
	for _, path := range []string{
		"/", "//search", "/SEARCH", "/healthz/", "/search/", "/users/", "/users/1/", "/users/1/2", "/users//",
	} {
		ask(404, "GET", path).field(t, "RateLimit", `"per-client";r=`)
	}
	ask(404, "POST", "/login/")
	for _, request := range [][3]string{
		{"POST", "/healthz", "GET"}, {"GET", "/login", "POST"}, {"HEAD", "/login", "POST"},
		{"OPTIONS", "/search", "GET"}, {"DELETE", "/users/1", "GET"}, {"HEAD", "/users/1", "GET"},
	} {
		var a answer
		switch {
		case request[0] != "OPTIONS":
			a = ask(405, request[0], request[1])
		case strings.HasPrefix(name, "echo"): // echo answers such a request itself
			a = send(t, request[0], at+request[1], "").want(t, 204)
		default:
			a = send(t, request[0], at+request[1], "").want(t, 405)
		}
		if allows && !strings.Contains(strings.Join(a.Header.Values("Allow"), ", "), request[2]) {
			t.Errorf("%s %s: Allow %q, want %s", request[0], request[1], a.Header.Values("Allow"), request[2])
		}
	}
	for _, path := range []string{"/users/%41", "/users/a%2Fb", "/users/a%20b", "/users/100%25", "/users/%2541"} {
		a := send(t, "GET", at+path, "").want(t, 200)
		a.Header.Del("Content-Length")
		a.body = "" // whether a parameter is unescaped is up to the framework
		transcript.WriteString(describe(a))
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
	ask(200, "GET", "/users/3") // other routes still answer

	last := denied(t, func() answer { return send(t, "GET", at+"/search", "", "X-API-Key", "k1") })
	if !strings.Contains(last.body, `"violated-policies":["`) {
		t.Errorf("body %s", last.body)
	}
	return transcript.String()
}

var numbers = regexp.MustCompile(`(;[rt]=|in )[0-9]+`)

// describe returns an answer without the parts that depend on the time or on the
// framework.
func describe(a answer) string {
	isPage := a.StatusCode == 404 || a.StatusCode == 405 // of the framework, in its own form
	if isPage {
		a.body = ""
	}
	var fields []string
	for name, values := range a.Header {
		isNumber := a.StatusCode == 429 && (name == "Retry-After" || name == "Content-Length")
		if name == "Date" || isNumber || isPage && !strings.HasPrefix(name, "Ratelimit") {
			continue
		}
		value := strings.Join(values, " | ")
		if name == "Content-Type" { // names of charsets have no case: RFC 9110, section 8.3.2
			value = strings.ToLower(value)
		}
		fields = append(fields, name+": "+value)
	}
	slices.Sort(fields)
	text := fmt.Sprintf("%s %s %d\n%s\n%s\n", a.Request.Method, a.Request.URL.RequestURI(), a.StatusCode,
		strings.Join(fields, "\n"), a.body)
	return numbers.ReplaceAllString(text, "${1}N")
}
