package nethttp_test

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// denialFor returns the type and body of a denial, given Accept fields.
func denialFor(limit *nethttp.Limiter, accept ...string) (contentType, body string) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["Accept"] = accept
	w := httptest.NewRecorder()
	limit.Handler(&hello{}).ServeHTTP(w, r)
	contentType, _, _ = strings.Cut(w.Header().Get("Content-Type"), ";")
	return contentType, w.Body.String()
}

func spent(name string) *nethttp.Limiter {
	limit := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: name, Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	limit.Decide(httptest.NewRequest("GET", "/", nil))
	return limit
}

func TestADenialIsPlainTextOnlyForThoseWhoPreferIt(t *testing.T) {
	limit := spent("per-client")
	const problem, text = "application/problem+json", "text/plain"
	for _, tt := range []struct {
		accept []string
		want   string
	}{
		{nil, problem},
		{[]string{""}, problem},
		{[]string{"*/*"}, problem},
		{[]string{"text/plain"}, text},
		{[]string{"TEXT/Plain; charset=utf-8"}, text},
		{[]string{"text/*"}, text},
		{[]string{"application/json"}, problem},
		{[]string{"application/problem+json"}, problem},
		{[]string{"application/json, text/plain"}, problem},
		{[]string{"application/json;q=0.5, text/plain"}, text},
		{[]string{"application/json;q=0.5", "text/plain"}, text},
		{[]string{"text/plain;q=0.5, */*;q=0.4"}, text},
		{[]string{"text/plain;q=0.5, */*"}, problem},
		{[]string{"text/plain;q=0, */*;q=0.1"}, problem},
		{[]string{"text/plain;Q=0.001"}, text},
		{[]string{"text/plain;q=0.0001"}, problem},
		{[]string{"text/plain;q=2"}, problem},
		{[]string{"text/plain;q=high"}, problem},
		{[]string{"text/*;q=0.9, text/plain;q=0.1, application/*;q=0.5"}, problem},
		{[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, problem},
		{[]string{"image/png"}, problem},
		{[]string{strings.Repeat("text/plain,", 100_000)}, problem}, // too long to read
		{[]string{strings.Repeat("x", 501), "text/plain"}, text},
		{[]string{strings.Repeat("x", 502), "text/plain"}, problem}, // as long, in two lines
		{append(slices.Repeat([]string{"image/png"}, 50), "text/plain"), text},
		{append(slices.Repeat([]string{"image/png"}, 51), "text/plain"), problem},
		{append(make([]string, 502), "text/plain"), text},
		{append(make([]string, 503), "text/plain"), problem},
	} {
		if got, _ := denialFor(limit, tt.accept...); got != tt.want {
			t.Errorf("Accept %.80q: %s, want %s", strings.Join(tt.accept, ","), got, tt.want)
		}
	}
	if _, body := denialFor(limit, "text/plain"); !strings.HasPrefix(body, "Too many requests: retry in ") {
		t.Errorf("body %q", body)
	}
}

func TestJSONThatIsNamedBeatsAnythingWhateverItsWeight(t *testing.T) {
	limit := spent("per-client")
	const problem, text = "application/problem+json", "text/plain"
	for _, tt := range []struct {
		accept []string
		want   string
	}{
		{[]string{"application/json;q=0.8, */*"}, problem},
		{[]string{"*/*, application/json;q=0.001"}, problem},
		{[]string{"*/*", "Application/JSON; charset=utf-8; Q=0.1"}, problem},
		{[]string{"application/problem+json;q=0.1, */*;q=0.2"}, problem},
		{[]string{"application/*;q=0.1, */*"}, problem},
		{[]string{"text/json;q=0.1, */*"}, problem},
		{[]string{"text/json, text/plain;q=0.9"}, problem},
		// what package managers and registries' clients send
		{[]string{"application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*"}, problem},
		{[]string{"application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, " +
			"text/html;q=0.01"}, problem},
		{[]string{"application/vnd.oci.image.index.v1+json;q=0.5", "*/*"}, problem},
		{[]string{"application/vnd.docker.distribution.manifest.v2+JSON", "text/plain;q=0.9"}, problem},
		{[]string{"application/vnd.docker.distribution.manifest.v1+prettyjws, text/plain"}, text},
		// text that is named, too
		{[]string{"application/vnd.github+json;q=0.5, text/plain"}, text},
		{[]string{"application/json;q=0.5, text/*, */*;q=0.1"}, text},
		{[]string{"application/json;q=0.5, text/plain;q=0.4, */*"}, problem},
		{[]string{"application/json;q=0.5, text/plain;q=0.5"}, problem},
		// JSON that is refused
		{[]string{"application/json;q=0, */*"}, text},
		{[]string{"application/*;q=0.0, */*;q=0.1"}, text},
		{[]string{"application/json;q=0, application/vnd.github+json, text/plain;q=0.5"}, problem},
		{[]string{"application/vnd.github+json;q=0, */*"}, problem},
		{[]string{"text/json;q=0, */*"}, problem},
		// weights that are none
		{[]string{"application/json;q=.9, */*"}, problem},
		{[]string{"application/json;q=0.33333, */*"}, problem},
		{[]string{"application/json;q=1.001, */*"}, problem},
		{[]string{"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"}, problem},
		// no JSON
		{[]string{"+jsonx, text/plain;q=0.5"}, text},
		{[]string{"json, text/plain;q=0.5"}, text},
		{[]string{"application/jsonl, text/plain;q=0.5"}, text},
	} {
		if got, _ := denialFor(limit, tt.accept...); got != tt.want {
			t.Errorf("Accept %q: %s, want %s", strings.Join(tt.accept, ", "), got, tt.want)
		}
	}
}

func FuzzAnAcceptFieldNeverBreaksTheAnswer(f *testing.F) {
	f.Add("text/plain;q=0.5, */*;q=0.4")
	f.Add(";;,,q=;q=1.")
	f.Add("application/json;q=0.8, */*")
	limit := spent("per-client")
	f.Fuzz(func(t *testing.T, accept string) {
		switch contentType, body := denialFor(limit, accept); contentType {
		case "text/plain":
			lower := strings.ToLower(accept)
			refused := strings.Contains(lower, "application/") && strings.Contains(lower, "q=0")
			if !strings.Contains(lower, "text/") && !refused {
				t.Errorf("Accept %q: plain text, which it does not name", accept)
			}
		case "application/problem+json":
			if !json.Valid([]byte(body)) {
				t.Errorf("Accept %q: %s is not JSON", accept, body)
			}
		default:
			t.Errorf("Accept %q: content type %q", accept, contentType)
		}
	})
}

func FuzzEveryLegalNameGivesAValidProblem(f *testing.F) {
	f.Add("per-client")
	f.Add(`a"b\c</script>`)
	f.Fuzz(func(t *testing.T, name string) {
		config := nethttp.Config{
			Rules: []nethttp.Rule{
				{Name: name, Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer)},
			},
		}
		if _, err := nethttp.New(config); err != nil {
			t.Skip()
		}
		_, body := denialFor(spent(name))
		var problem struct {
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(body), &problem); err != nil || len(problem.Violated) != 1 ||
			problem.Violated[0] != name {
			t.Errorf("name %q: %s, %v", name, body, err)
		}
	})
}
