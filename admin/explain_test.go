package admin_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/stats"
)

type explained struct {
	Verdict, Error, Binding string
	Rules                   []struct {
		Rule, Mode, Kind, Key, ID, Limit, Source, Why string
		Matches, Counted, Allowed                     bool
		Cost, Remaining, RetryAfter, ResetAfter       int64
	}
}

func (s *site) explain(body string) (v explained) {
	s.Helper()
	s.ask("POST", "/api/explain", body, &v)
	return v
}

func TestAnExplanationTakesNothing(t *testing.T) {
	s := newSite(t, admin.Options{}, perClient(2))
	s.visit("192.0.2.7")
	before := s.snapshot().Limiters[0]
	for range 5 {
		for _, body := range []string{
			`{"Key":"192.0.2.7"}`, `{"Limiter":"api","Rule":"per-client","Key":"192.0.2.7"}`,
			`{"Request":{"Path":"/","Address":"192.0.2.7"}}`,
		} {
			v := s.explain(body)
			r := v.Rules[0]
			if len(v.Rules) != 1 || !r.Matches || !r.Counted || !r.Allowed || r.Remaining != 1 ||
				!strings.HasPrefix(r.Key, "192.0.2.0/24#") || r.Limit != "fixed-window 2/1d" || r.Source != "primary" ||
				r.ResetAfter <= 0 || r.ID == "" {
				t.Errorf("%s: %+v", body, v)
			}
		}
	}
	if after := s.snapshot().Limiters[0]; after != before {
		t.Errorf("explanations are counted: %+v, %+v", before, after)
	}
	s.unchanged("an explanation")
	s.visit("192.0.2.7")
	s.visit("192.0.2.7")
	v := s.explain(`{"ID":"` + s.denials()[0].ID + `"}`)
	if r := v.Rules[0]; r.Allowed || r.RetryAfter <= 0 {
		t.Errorf("a row that is denied: %+v", v)
	}
	if v := s.explain(`{"Request":{"Address":"192.0.2.7"}}`); v.Verdict != "denied" || v.Binding != "per-client" {
		t.Errorf("a request that is denied: %+v", v)
	}
	if v := s.explain(`{"Key":"192.0.2.8"}`); v.Rules[0].Remaining != 2 {
		t.Errorf("another key: %+v", v)
	}
}

func TestEachRuleSaysWhyItDoesNotApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	text := `version: 1
client: {peer: true}
rules:
  - name: log-in
    match: [POST /login]
    key: [address, header X-Tenant]
    limit: 5/minute
  - name: off
    key: everybody
    limit: 5/minute
    mode: disabled
  - name: tried
    key: {first: [header X-User, address]}
    limit: 5/minute
    mode: shadow
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(path, policy.Names[*http.Request]{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteOf(t, ann, p.Status(), admin.Options{}, p.Rules()...)
	v := s.explain(
		`{"Request":{"Method":"GET","Path":"/login?x=1","Address":"192.0.2.7","Headers":[["x-user","alice"]]}}`)
	if v.Verdict != "allowed" || len(v.Rules) != 3 {
		t.Fatalf("%+v", v)
	}
	for i, why := range []string{"matches none of POST /login", "the rule is disabled", ""} {
		if r := v.Rules[i]; r.Why != why || r.Matches != (why == "") {
			t.Errorf("%+v, want %q", r, why)
		}
	}
	if r := v.Rules[2]; r.Mode != "shadow" || r.Kind != "header X-User" || !strings.HasPrefix(r.Key, "a") ||
		strings.Contains(r.Key, "alice") {
		t.Errorf("the shadow: %+v", r)
	}
	v = s.explain(`{"Request":{"Method":"POST","Path":"/login","Address":"192.0.2.7","Headers":[["X-Tenant","acme"]]}}`)
	if r := v.Rules[0]; !r.Matches || !strings.HasPrefix(r.Key, "192.0.2.0/24#") || !strings.Contains(r.Key, " + a") {
		t.Errorf("a request that matches: %+v", r)
	}
	snapshot := s.snapshot().Policy
	if snapshot == nil || snapshot.Source != path || len(snapshot.Digest) != 64 || snapshot.Failure != "" {
		t.Errorf("the policy: %+v", snapshot)
	}
}

func TestARuleThatCannotSayIsNotGuessed(t *testing.T) {
	seven := func(*http.Request, string) (limits.Limit, error) { return limits.FixedWindow(limits.PerDay(7)), nil }
	plan := nethttp.Rule{Name: "plan", Key: keyfuncs.Address(keyfuncs.Peer), LimitFor: seven}
	broken := nethttp.Rule{
		Name: "broken", Key: func(*http.Request) (string, error) { return "", errors.New("no database") },
		Limit: limits.FixedWindow(limits.PerDay(7)),
	}
	after := perClient(1)
	s := newSite(t, admin.Options{}, plan, broken, after)
	v := s.explain(`{"Key":"192.0.2.7","Rule":"plan"}`)
	if r := v.Rules[0]; r.Counted || !strings.Contains(r.Why, "depends on the request") {
		t.Errorf("without a limit: %+v", r)
	}
	if r := s.explain(`{"Key":"192.0.2.7","Rule":"plan","Limit":"9/day"}`).Rules[0]; r.Remaining != 9 ||
		r.Limit != "sliding-window 9/1d" {
		t.Errorf("with a limit: %+v", r)
	}
	v = s.explain(`{"Request":{"Address":"192.0.2.7"}}`)
	if v.Verdict != "unavailable" || !strings.Contains(v.Error, "no database") || v.Rules[1].Counted ||
		v.Rules[2].Why != "was not reached" {
		t.Errorf("a request that nobody can be charged for: %+v", v)
	}
}

func TestARequestThatIsNoneIsRefused(t *testing.T) {
	s := newSite(t, admin.Options{})
	for _, body := range []string{
		`{"Request":{"Path":"login"}}`, `{"Request":{"Method":"GET /"}}`, `{"Request":{"Method":"G\nT"}}`,
		`{"Request":{"Path":"/\u0000"}}`, `{"Request":{"Host":"a b"}}`,
		`{"Request":{"Address":"localhost"}}`, `{"Request":{"Address":"192.0.2.7:1"}}`,
		`{"Request":{"Headers":[["a b","c"]]}}`, `{"Request":{"Headers":[["",""]]}}`, `{}`, `{"ID":""}`,
	} {
		s.fails(http.StatusBadRequest, "/api/explain", body, "")
	}
	s.fails(http.StatusNotFound, "/api/explain", `{"Limiter":"none","Key":"a"}`,
		`no limiter \"none\": the names are [\"api\"]`)
	s.fails(http.StatusNotFound, "/api/explain", `{"Limiter":"none","Request":{}}`, "no limiter")
	s.fails(http.StatusNotFound, "/api/explain", `{"Rule":"none","Key":"a"}`, "no rule")
	s.fails(http.StatusNotFound, "/api/explain", `{"ID":"none"}`, "too old")
	s.fails(http.StatusUnprocessableEntity, "/api/explain", `{"Key":"a","Limit":"many"}`, "many")
}

func TestAFrameworkWithoutRequestsOfNetHTTPExplainsKeys(t *testing.T) {
	limit := ginmw.MustNew(ginmw.Config{
		Rules: []ginmw.Rule{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(3)),
				Key: keyfuncs.Constant[*gin.Context]("everybody")},
		},
	})
	page, err := admin.New(ann,
		admin.Sources{Stats: stats.New(stats.Options{}), Limiters: map[string]admin.Limiter{"api": limit}},
		admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, page: page}
	if v := s.explain(`{"Key":"everybody"}`); v.Rules[0].Remaining != 3 {
		t.Errorf("%+v", v)
	}
	s.fails(http.StatusUnprocessableEntity, "/api/explain", `{"Request":{"Path":"/"}}`, "explain a key")
}
