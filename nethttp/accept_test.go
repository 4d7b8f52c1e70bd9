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

func FuzzAnAcceptFieldNeverBreaksTheAnswer(f *testing.F) {
	f.Add("text/plain;q=0.5, */*;q=0.4")
	f.Add(";;,,q=;q=1.")
	limit := spent("per-client")
	f.Fuzz(func(t *testing.T, accept string) {
		switch contentType, body := denialFor(limit, accept); contentType {
		case "text/plain":
			if !strings.Contains(strings.ToLower(accept), "text/") {
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
