package admin_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/stats"
)

var (
	changes = []string{"/api/forgive", "/api/mode", "/api/limit", "/api/clear"}
	reads   = []string{
		"/", "/page.css", "/page.js", "/icon.svg", "/api/session", "/api/snapshot", "/api/earlier", "/api/history",
		"/api/denials",
	}
)

// shadowed is a change that works.
const shadowed = `{"Rule":"per-client","Mode":"shadow"}`

// unchanged reports a change.
func (s *site) unchanged(what string) {
	s.Helper()
	for _, r := range s.limit.State().Rules {
		if r.Mode != r.GivenMode || r.Limit != r.GivenLimit || !r.Override.Until.IsZero() {
			s.Errorf("%s has changed %+v", what, r)
		}
	}
	if len(s.audited()) != 0 {
		s.Errorf("%s is audited as a change: %+v", what, s.audited())
	}
}

func TestWhoeverIsNotKnownSeesNothing(t *testing.T) {
	for name, who := range map[string]func(*http.Request) (admin.Person, error){
		"fails": func(*http.Request) (admin.Person, error) { return admin.Person{}, errNobody },
		"fails by half": func(*http.Request) (admin.Person, error) {
			return admin.Person{Name: "ann", MayChange: true}, errNobody
		},
		"panics":      func(*http.Request) (admin.Person, error) { panic(errNobody) },
		"says nobody": func(*http.Request) (admin.Person, error) { return admin.Person{MayChange: true}, nil },
	} {
		s := newSiteOf(t, who, nil, admin.Options{Changes: true})
		for _, path := range append(append(reads, changes...), "/api/explain", "/none") {
			for _, method := range []string{"GET", "POST"} {
				w := s.send(method, path, shadowed)
				if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "12345") {
					t.Errorf("who %s: %s %s: %d %s", name, method, path, w.Code, w.Body)
				}
			}
		}
		s.unchanged("who that " + name)
		if name != "says nobody" && !strings.Contains(s.logged(), "12345") {
			t.Errorf("who %s: the log does not say why: %s", name, s.logged())
		}
	}
}

func TestAnotherHostIsRefused(t *testing.T) {
	local := newSite(t, admin.Options{Changes: true})
	named := newSite(t, admin.Options{Changes: true, Hosts: []string{"ops.example.com", "2001:db8::1"}})
	for _, row := range []struct {
		site *site
		host string
		ok   bool
	}{
		{local, "localhost:8081", true}, {local, "LOCALHOST", true}, {local, "127.0.0.1:8081", true},
		{local, "[::1]:8081", true}, {local, "[::1]", true},
		{local, "attacker.example", false}, {local, "localhost.attacker.example:8081", false},
		{local, "127.0.0.1.attacker.example", false},
		{local, "", false}, {local, "0.0.0.0:8081", false}, {local, "localhost:8081:1", false},
		{local, "10.0.0.7:8081", false},
		{named, "ops.example.com", true}, {named, "ops.example.com:443", true}, {named, "[2001:db8::1]:443", true},
		{named, "localhost:8081", false}, {named, "example.com", false}, {named, "evil-ops.example.com", false},
	} {
		// After DNS rebinding, Origin and Host agree, and the browser says same-origin.
		rebound := func(r *http.Request) {
			r.Host = row.host
			r.Header.Set("Origin", "http://"+row.host)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		for _, path := range reads {
			if w := row.site.send("GET", path, "", rebound); (w.Code == http.StatusOK) != row.ok ||
				!row.ok && w.Code != http.StatusMisdirectedRequest {
				t.Errorf("GET %s of host %q: %d", path, row.host, w.Code)
			}
		}
		if !row.ok {
			if w := row.site.send("POST", "/api/mode", shadowed, rebound); w.Code != http.StatusMisdirectedRequest {
				t.Errorf("a change by host %q: %d", row.host, w.Code)
			}
		}
	}
	local.unchanged("another host")
}

func TestAnotherSiteChangesNothing(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	site := func(origin, fetch string) func(*http.Request) {
		return func(r *http.Request) {
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
			if fetch != "" {
				r.Header.Set("Sec-Fetch-Site", fetch)
			}
		}
	}
	for _, path := range append(changes, "/api/explain") {
		for name, from := range map[string]func(*http.Request){
			"cross-site":           site("https://attacker.example", "cross-site"),
			"a sibling":            site("http://other.localhost:8081", "same-site"),
			"an old browser":       site("https://attacker.example", ""),
			"a sandboxed frame":    site("null", ""),
			"another port":         site("http://localhost:9999", ""),
			"a frame, new browser": site("null", "cross-site"),
		} {
			if w := s.send("POST", path, shadowed, from); w.Code != http.StatusForbidden {
				t.Errorf("%s from %s: %d", path, name, w.Code)
			}
		}
		// What a form can send, where no field tells of another site.
		for _, content := range []string{
			"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json",
			"application/jsonx", "application/json-patch+json", "text/plain; a=application/json",
		} {
			w := s.send("POST", path, shadowed, func(r *http.Request) { r.Header.Set("Content-Type", content) })
			if w.Code != http.StatusUnsupportedMediaType {
				t.Errorf("%s with content %q: %d", path, content, w.Code)
			}
		}
	}
	s.unchanged("another site")
	w := s.send("POST", "/api/mode", shadowed, site("http://localhost:8081", "same-origin"))
	if w.Code != http.StatusOK {
		t.Errorf("the page itself: %d %s", w.Code, w.Body)
	}
}

func TestOnlyPostChanges(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	for _, path := range append(changes, "/api/explain") {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "post"} {
			w := s.send(method, path+"?Rule=per-client&Mode=shadow", shadowed)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
				t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
	for _, path := range reads {
		if w := s.send("POST", path, shadowed); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	s.unchanged("another method")
}

func TestAReadOnlyPageChangesNothing(t *testing.T) {
	bob := func(*http.Request) (admin.Person, error) { return admin.Person{Name: "bob"}, nil }
	for name, s := range map[string]*site{
		"a page without changes": newSite(t, admin.Options{}),
		"a person who may not":   newSiteOf(t, bob, nil, admin.Options{Changes: true}),
	} {
		for _, path := range changes {
			if w := s.send("POST", path, shadowed); w.Code != http.StatusForbidden {
				t.Errorf("%s: %s: %d", name, path, w.Code)
			}
			if !strings.Contains(s.logged(), "path="+path) {
				t.Errorf("%s: the log says nothing of %s", name, path)
			}
		}
		s.unchanged(name)
		s.ask("POST", "/api/explain", `{"Key":"192.0.2.7"}`, nil)
		var session struct{ MayChange bool }
		if s.ask("GET", "/api/session", "", &session); session.MayChange {
			t.Errorf("%s: the page has buttons", name)
		}
	}
}

func TestABadBodyChangesNothing(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	large := `{"Rule":"per-client","Limit":"` + strings.Repeat("a", 64<<10) + `"}`
	deep := strings.Repeat(`{"Key":`, 20_000)
	for _, path := range append(changes, "/api/explain") {
		s.fails(http.StatusRequestEntityTooLarge, path, large, "too large")
		s.fails(http.StatusRequestEntityTooLarge, path, `{"Rule":"per-client"}`+strings.Repeat(" ", 64<<10),
			"too large")
		for _, body := range []string{
			"{", "[]", `"x"`, "nul", shadowed + shadowed, `{"Rule":1}`, `{"unknown":1}`, deep, "\x00", `{"Rule":"a"}x`,
		} {
			if w := s.send("POST", path, body); w.Code != http.StatusBadRequest &&
				w.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("%s %.20s: %d %s", path, body, w.Code, w.Body)
			}
		}
	}
	if w := s.send("POST", "/api/mode", "", func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
	}); w.Code != http.StatusBadRequest {
		t.Errorf("no body: %d", w.Code)
	}
	s.unchanged("a bad body")
}

func TestEveryAnswerIsProtected(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	other := func(r *http.Request) { r.Host = "attacker.example" }
	answers := []*httptest.ResponseRecorder{
		s.send("GET", "/", "", other), s.send("GET", "/none", ""), s.send("GET", "/api/mode", ""),
		s.send("POST", "/api/mode", shadowed), s.send("POST", "/api/mode", "{"),
		s.send("POST", "/api/limit", `{"Rule":"none"}`),
	}
	for _, path := range reads {
		answers = append(answers, s.send("GET", path, ""))
	}
	for i, w := range answers {
		h := w.Header()
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'",
			"require-trusted-types-for 'script'", "trusted-types 'none'",
		} {
			if !strings.Contains(policy, part) {
				t.Errorf("answer %d: the policy lacks %q: %q", i, part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("answer %d: the policy is loose: %q", i, policy)
		}
		if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" ||
			h.Get("Content-Type") == "" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("answer %d: fields %v", i, h)
		}
	}
}

// The page puts texts into the document as text. What it reads has no tag either.
func TestScriptsInNamesAndKeysStayText(t *testing.T) {
	const script = `</script><img src=x onerror=alert(1)>`
	rule := perClient(1)
	rule.Name = script
	rule.Key = func(*http.Request) (string, error) { return "\u2028" + script + "\xff", nil }
	s := newSiteOf(t, func(*http.Request) (admin.Person, error) {
		return admin.Person{Name: script, MayChange: true}, nil
	}, nil,
		admin.Options{Changes: true, Keys: admin.Shown, Instance: script}, rule)
	s.visit("192.0.2.7")
	s.visit("192.0.2.7")
	body, _ := json.Marshal(map[string]any{"Rule": script, "Mode": "shadow", "Why": script})
	for _, w := range []*httptest.ResponseRecorder{
		s.send("POST", "/api/mode", string(body)), s.send("GET", "/api/snapshot", ""),
		s.send("GET", "/api/denials", ""), s.send("GET", "/api/session", ""),
		s.send("POST", "/api/explain", `{"Key":"<b>","Rule":"<b>"}`), s.send("POST", "/api/explain", `{"<b>":1}`),
	} {
		if strings.ContainsAny(w.Body.String(), "<>\u2028") || !strings.Contains(w.Body.String(), `\u003c`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// A file that wrote HTML, or asked another host, would undo the policy of the page.
func TestTheFilesOfThePageAreSmallAndHarmless(t *testing.T) {
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(` +
		`|new Function|setHTML|createContextualFragment` +
		`|\son[a-z]+="|style="|(src|href|action)="(/|[a-z]+:)|url\(|@import|https?://[^"']*`)
	size := 0
	err := fs.WalkDir(admin.Files(), "page", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(admin.Files(), path)
		size += len(text)
		for _, found := range bad.FindAllString(string(text), -1) {
			if found != "http://www.w3.org/2000/svg" {
				t.Errorf("%s has %q", path, found)
			}
		}
		return err
	})
	if err != nil || size > 100<<10 {
		t.Errorf("%d bytes, %v", size, err)
	}
}

func TestThePageWorksUnderAnyPath(t *testing.T) {
	s := newSite(t, admin.Options{})
	for _, prefix := range []string{"", "/ops", "/ops/weir", "/a%20b", "/x:y"} {
		server := httptest.NewServer(http.StripPrefix(strings.ReplaceAll(prefix, "%20", " "), s.page))
		defer server.Close()
		answer, err := http.Get(server.URL + prefix)
		if err != nil {
			t.Fatal(err)
		}
		page := readAll(t, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || prefix != "" && answer.Request.URL.EscapedPath() != prefix+"/" ||
			!strings.Contains(page, "page.js") {
			t.Errorf("under %q: %d at %v", prefix, answer.StatusCode, answer.Request.URL)
		}
		for _, link := range regexp.MustCompile(`(?:src|href)="([^"#]+)"`).FindAllStringSubmatch(page, -1) {
			to, err := answer.Request.URL.Parse(link[1])
			if err != nil {
				t.Fatal(err)
			}
			linked, err := http.Get(to.String())
			if err != nil || linked.StatusCode != http.StatusOK {
				t.Errorf("under %q: %v: %v", prefix, to, err)
				continue
			}
			linked.Body.Close()
		}
	}
	for _, uri := range []string{"//attacker.example", "/", "http://attacker.example/a", "*", ""} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host, r.URL.Path, r.RequestURI = "localhost", "", uri
		w := httptest.NewRecorder()
		s.page.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); to != "" && (!strings.HasPrefix(to, "./") || strings.Contains(to, "//")) {
			t.Errorf("%q leads to %q", uri, to)
		}
	}
}

// counting counts how often it is looked at.
type counting struct {
	*nethttp.Limiter
	looks atomic.Int64
}

func (c *counting) State() core.State {
	c.looks.Add(1)
	return c.Limiter.State()
}

func TestAHundredOpenPagesCostWhatOneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &counting{Limiter: nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{perClient(1)}})}
		page, err := admin.New(ann,
			admin.Sources{Stats: stats.New(stats.Options{}), Limiters: map[string]admin.Limiter{"api": limiter}},
			admin.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for second := range int64(5) {
			limiter.looks.Store(0)
			var open sync.WaitGroup
			for range 100 {
				open.Go(func() {
					r := httptest.NewRequest("GET", "/api/snapshot", nil)
					r.Host = "localhost"
					w := httptest.NewRecorder()
					page.ServeHTTP(w, r)
					if w.Code != http.StatusOK {
						t.Errorf("%d", w.Code)
					}
				})
			}
			open.Wait()
			if looks := limiter.looks.Load(); looks > 1 {
				t.Errorf("second %d: %d looks for a hundred pages", second, looks)
			}
			time.Sleep(time.Second)
		}
	})
}
