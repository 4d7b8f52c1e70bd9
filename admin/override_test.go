package admin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

type overrideView struct{ Limiter, Rule, Kind, Key, ID, Mode, Limit, Until, Why string }

func (s *site) overrides() []overrideView {
	s.Helper()
	var v struct{ Overrides []overrideView }
	s.ask("GET", "/api/overrides", "", &v)
	return v.Overrides
}

// digestOf returns what sha256sum and cut print.
func digestOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])[:32]
}

// client7 is the path of the override of one client.
var client7 = "/api/overrides/api/per-client/" + digestOf("192.0.2.7")

func TestOneKeyGetsALimitOfItsOwnUntilAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, admin.Options{Changes: true})
		visits := func(client string) (allowed int) {
			for range 9 {
				if s.visit(client) == http.StatusOK {
					allowed++
				}
			}
			return allowed
		}
		body := `{"Key":"192.0.2.7","Limit":"3/day","Until":"90m","Why":"ticket\n 7"}`
		w := s.send("PUT", client7, body)
		var v overrideView
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusCreated ||
			w.Header().Get("ETag") == "" {
			t.Fatalf("%d %v %s, %v", w.Code, w.Header(), w.Body, err)
		}
		until := time.Now().Add(90 * time.Minute).UTC().Format(time.RFC3339Nano)
		if v.Limiter != "api" || v.Rule != "per-client" || v.Limit != "sliding-window 3/1d" || v.Until != until ||
			v.Why != "ann: ticket 7" || v.Mode != "" || v.Kind != "address in" || !strings.HasPrefix(v.Key, "192.0.2.0/24#") {
			t.Errorf("%+v", v)
		}
		if got := s.overrides(); !slices.Equal(got, []overrideView{v}) {
			t.Errorf("listed: %+v, want %+v", got, v)
		}
		if a, b := visits("192.0.2.7"), visits("192.0.2.8"); a != 3 || b != 1 {
			t.Errorf("%d and %d requests are allowed, want 3 and 1", a, b)
		}
		if got := s.explain(`{"Key":"192.0.2.7"}`).Rules[0].Limit; got != "sliding-window 3/1d" {
			t.Errorf("the key is explained by %s", got)
		}
		for range 3 { // an end in RFC 3339 makes a PUT that changes nothing
			w = s.send("PUT", client7, `{"Limit":"3/day","Until":"`+until+`","Why":"ticket 7"}`)
			if w.Code != http.StatusOK {
				t.Errorf("again: %d %s", w.Code, w.Body)
			}
		}
		w = s.send("PUT", "/api/overrides/api/per-client/"+v.ID, `{"Limit":"5/day","Until":"`+until+`"}`)
		if w.Code != http.StatusOK {
			t.Errorf("by its ID: %d %s", w.Code, w.Body)
		}
		if w = s.send("DELETE", client7, ""); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
			t.Errorf("DELETE: %d %s", w.Code, w.Body)
		}
		for _, method := range []string{"DELETE", "GET"} {
			w = s.send(method, client7, "")
			if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "GET api/overrides lists them") {
				t.Errorf("%s of none: %d %s", method, w.Code, w.Body)
			}
		}
		if got := visits("192.0.2.9"); got != 1 {
			t.Errorf("%d requests are allowed, want 1", got)
		}
		s.logs("override-key", "override-key", "clear-key")
		audits := s.audited()
		if len(audits) != 3 || !strings.HasPrefix(audits[0].Key, "address in 192.0.2.0/24#") ||
			audits[0].From != "as given" || audits[1].From != "sliding-window 3/1d" || audits[2].To != "as given" {
			t.Errorf("audited as %+v", audits)
		}
	})
}

// logs compares the changes in the log with actions. No line has a key.
func (s *site) logs(actions ...string) {
	s.Helper()
	log := s.logged()
	if n := strings.Count(log, "weir: admin: change"); n != len(actions) || strings.Contains(log, "192.0.2") ||
		strings.Contains(log, digestOf("192.0.2.7")) {
		s.Errorf("%d changes, want %q: %s", n, actions, log)
	}
	for _, action := range actions {
		where := strings.Index(log, "who=ann action="+action+" limiter=api rule=per-client ")
		if where < 0 {
			s.Errorf("no %s: %s", action, log)
			return
		}
		log = log[where+1:]
	}
}

func TestARuleIsOverriddenByItsPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, admin.Options{Changes: true})
		path := "/api/overrides/api/per-client"
		if w := s.send("PUT", path, `{"Mode":"shadow","Limit":"5/day","Why":"a launch"}`); w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		v := s.snapshot().Rules[0]
		if v.Mode != "shadow" || v.Limit != "sliding-window 5/1d" || v.Until != time.Now().Add(time.Hour).UnixMilli() {
			t.Errorf("%+v", v)
		}
		// A PUT says all that is to be: the mode is that of the rule again.
		if w := s.send("PUT", path, `{"Limit":"6/day","Until":"24h"}`); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if v := s.snapshot().Rules[0]; v.Mode != "enforce" || v.Limit != "sliding-window 6/1d" {
			t.Errorf("%+v", v)
		}
		if got := s.overrides(); len(got) != 1 || got[0].Key+got[0].ID != "" || got[0].Limit != "sliding-window 6/1d" {
			t.Errorf("listed: %+v", got)
		}
		if w := s.send("DELETE", path, ""); w.Code != http.StatusNoContent {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if v := s.snapshot().Rules[0]; v.Until != 0 || v.Limit != v.GivenLimit {
			t.Errorf("%+v", v)
		}
		s.logs("override", "override", "clear")
	})
}

func TestTwoProgramsDoNotUndoEachOther(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	with := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	put := func(limit string, change func(*http.Request)) (int, string) {
		w := s.send("PUT", client7, `{"Key":"192.0.2.7","Limit":"`+limit+`"}`, change)
		return w.Code, w.Header().Get("ETag")
	}
	if status, _ := put("3/day", with("If-Match", "*")); status != http.StatusPreconditionFailed {
		t.Errorf("If-Match of none: %d", status)
	}
	status, first := put("3/day", with("If-None-Match", "*"))
	if status != http.StatusCreated {
		t.Errorf("If-None-Match of none: %d", status)
	}
	if got := s.send("GET", client7, "").Header().Get("ETag"); got != first {
		t.Errorf("GET has %s, PUT %s", got, first)
	}
	if status, _ := put("4/day", with("If-None-Match", "*")); status != http.StatusPreconditionFailed {
		t.Errorf("If-None-Match of one: %d", status)
	}
	status, second := put("4/day", with("If-Match", `"other", `+first))
	if status != http.StatusOK || second == first {
		t.Errorf("If-Match: %d, %s after %s", status, second, first)
	}
	if status, _ := put("5/day", with("If-Match", first)); status != http.StatusPreconditionFailed {
		t.Errorf("If-Match of the one before: %d", status)
	}
	if w := s.send("DELETE", client7, "", with("If-Match", first)); w.Code != http.StatusPreconditionFailed {
		t.Errorf("DELETE of the one before: %d", w.Code)
	}
	if got := s.overrides(); len(got) != 1 || got[0].Limit != "sliding-window 4/1d" {
		t.Errorf("%+v", got)
	}
	if w := s.send("DELETE", client7, "", with("If-Match", second)); w.Code != http.StatusNoContent {
		t.Errorf("DELETE: %d", w.Code)
	}
}

func TestOverridesThatCannotBeSayWhatToDo(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true}, perClient(1),
		nethttp.Rule{Name: "at once/or so", Limit: limits.Concurrent(1), Key: keyfuncs.Address(keyfuncs.Peer)})
	long := strings.Repeat("k", 1025)
	for _, row := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"PUT", "/api/overrides", `{"Limit":"3/day"}`, 404, "has the path api/overrides/LIMITER/RULE"},
		{"PUT", "/api/overrides/api", `{"Limit":"3/day"}`, 404, "has the path"},
		{"PUT", client7 + "/more", `{"Limit":"3/day"}`, 404, "has the path"},
		{"PUT", "/api/overrides/none/per-client", `{"Limit":"3/day"}`, 404, "there is no limiter"},
		{"PUT", "/api/overrides/api/none", `{"Limit":"3/day"}`, 404, "there is no rule"},
		{"PUT", "/api/overrides/api/per-client", `{}`, 400, "say what changes"},
		{"PUT", "/api/overrides/api/per-client", `{"Key":"192.0.2.7","Limit":"3/day"}`, 400, "ends with its digest"},
		{"PUT", "/api/overrides/api/per-client", `{"Limit":"many"}`, 422, "limit"},
		{"PUT", "/api/overrides/api/per-client", `{"Mode":"off"}`, 422, "want enforce"},
		{"PUT", "/api/overrides/api/per-client", `{"Limit":"3/day","Until":"tomorrow"}`, 400, "within the next 24 hours"},
		{"PUT", "/api/overrides/api/per-client", `{"Limit":"3/day","Until":"25h"}`, 400, "within the next 24 hours"},
		{"PUT", "/api/overrides/api/per-client", `{"Limit":"3/day","Until":"-1m"}`, 400, "within the next 24 hours"},
		{"PUT", "/api/overrides/api/per-client", `{"Limit":"3/day","Until":"2001-01-01T00:00:00Z"}`, 400, "24 hours"},
		{"PUT", "/api/overrides/api/per-client", `{"Limit":"3/day","Minutes":3}`, 400, "Minutes"},
		{"PUT", client7, `{"Limit":"3/day"}`, 400, "say which key"},
		{"PUT", client7, `{"Key":"192.0.2.8","Limit":"3/day"}`, 400, "must be the digest of Key"},
		{"PUT", client7, `{"Key":"192.0.2.7","Mode":"shadow"}`, 422, "mode: is that of all keys"},
		{"PUT", client7, `{"Key":"192.0.2.7","Limit":"concurrent 3"}`, 422, "concurrency limit"},
		{"PUT", "/api/overrides/api/per-client/" + digestOf(long), `{"Key":"` + long + `","Limit":"3/s"}`, 400, "1024 by"},
		{"PUT", "/api/overrides/api/at%20once%2For%20so/" + digestOf("k"), `{"Key":"k","Limit":"3/day"}`, 422, "concurrency"},
		{"GET", "/api/overrides/api/at%20once%2For%20so", "", 404, "no such override"},
		{"DELETE", "/api/overrides/api/per-client", "", 404, "no such override"},
		{"DELETE", "/api/overrides", "", 404, "has the path"},
		{"GET", "/api/overrides/api/per-client", "", 404, "no such override"},
		{"POST", client7, `{}`, 405, "use GET, PUT or DELETE"},
		{"GET", "/api/overridesx", "", 404, "there is nothing here"},
	} {
		w := s.send(row.method, row.path, row.body)
		var problem struct {
			Title, Detail, Error string
			Status               int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != row.status ||
			problem.Status != row.status ||
			problem.Title != http.StatusText(row.status) || !strings.Contains(problem.Detail, row.text) ||
			problem.Error != problem.Detail || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.60s %.60s: %d %s, want %d %q", row.method, row.path, row.body, w.Code, w.Body, row.status, row.text)
		}
	}
	if got := s.overrides(); len(got) != 0 {
		t.Errorf("something has changed: %+v", got)
	}
	for _, a := range s.audited() {
		if a.Err == nil {
			t.Errorf("audited as done: %+v", a)
		}
	}
	if strings.Contains(s.logged(), "192.0.2.7") {
		t.Errorf("a key is in the log: %s", s.logged())
	}
}

func TestOverridesAreGuardedAsThePageIs(t *testing.T) {
	reader := func(*http.Request) (admin.Person, error) { return admin.Person{Name: "bob"}, nil }
	for name, c := range map[string]struct {
		site   *site
		change func(*http.Request)
		status int
	}{
		"another site": {newSite(t, admin.Options{Changes: true}),
			func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"another origin": {newSite(t, admin.Options{Changes: true}),
			func(r *http.Request) { r.Header.Set("Origin", "https://attacker.example") }, 403},
		"another host": {newSite(t, admin.Options{Changes: true}),
			func(r *http.Request) { r.Host = "attacker.example" }, 421},
		"a page without changes": {newSite(t, admin.Options{}), func(*http.Request) {}, 403},
		"who may not change": {newSiteOf(t, reader, nil, admin.Options{Changes: true}),
			func(*http.Request) {}, 403},
		"a form": {newSite(t, admin.Options{Changes: true}),
			func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
	} {
		for _, path := range []string{client7, "/api/overrides/api/per-client"} {
			body := `{"Limit":"3/day"}`
			if path == client7 {
				body = `{"Key":"192.0.2.7","Limit":"3/day"}`
			}
			if w := c.site.send("PUT", path, body, c.change); w.Code != c.status {
				t.Errorf("%s: PUT %s: %d %s", name, path, w.Code, w.Body)
			}
			if w := c.site.send("DELETE", path, "", c.change); name != "a form" && w.Code != c.status {
				t.Errorf("%s: DELETE %s: %d %s", name, path, w.Code, w.Body)
			}
		}
		c.site.unchanged(name)
		if got := c.site.limit.KeyOverrides("per-client"); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if log := c.site.logged(); strings.Contains(log, digestOf("192.0.2.7")) {
			t.Errorf("%s: the log has the digest of a key: %s", name, log)
		}
	}
}

// plain is a limiter of the program that has no overrides of keys.
type plain struct{ admin.Limiter }

func TestALimiterWithoutOverridesOfKeysSaysSo(t *testing.T) {
	s := newSite(t, admin.Options{})
	s.serve(plain{s.limit}, nil)
	w := s.send("PUT", client7, `{"Key":"192.0.2.7","Limit":"3/day"}`)
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "cannot override single keys") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.send("PUT", "/api/overrides/api/per-client", `{"Limit":"3/day"}`); w.Code != http.StatusCreated {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := s.overrides(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestTheEndOfAnOverrideIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, admin.Options{Changes: true})
		s.send("PUT", client7, `{"Key":"192.0.2.7","Limit":"3/day","Until":"1m","Why":"ticket 7"}`)
		s.ask("POST", "/api/limit", `{"Rule":"per-client","Limit":"5/day","Minutes":2}`, nil)
		s.send("PUT", client7, `{"Limit":"4/day","Until":"3m"}`)
		s.ask("POST", "/api/mode", `{"Rule":"per-client","Mode":"shadow","Minutes":4}`, nil)
		pass(10 * time.Minute)
		s.send("PUT", client7, `{"Key":"192.0.2.7","Limit":"3/day","Until":"1m"}`)
		s.send("DELETE", client7, "") // is logged as a change
		shadow := core.Shadow
		o := core.Override{Mode: &shadow, Until: time.Now().Add(time.Minute)}
		if err := s.limit.Override("per-client", o); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		var ends []string
		for line := range strings.Lines(s.logged()) {
			if _, end, ok := strings.Cut(line, `msg="weir: admin: an override has ended" `); ok {
				ends = append(ends, end[:strings.Index(end, " until=")])
			}
		}
		want := []string{
			`override="of a key" limiter=api rule=per-client from="sliding-window 4/1d"`,
			`override="of a rule" limiter=api rule=per-client from="shadow, sliding-window 5/1d"`,
			`override="of a rule" limiter=api rule=per-client from=shadow`,
		}
		if !slices.Equal(ends, want) {
			t.Errorf("%q, want %q", ends, want)
		}
		s.logs("override-key", "limit", "override-key", "mode", "override-key", "clear-key")
		marks := s.marks()
		if len(marks) < 4 || strings.Contains(strings.Join(marks, "\n"), "192.0.2") {
			t.Errorf("marks: %q", marks)
		}
	})
}
