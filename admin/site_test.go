package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/stats"
)

// site is a limited service and its page.
type site struct {
	*testing.T
	counts *stats.Stats
	limit  *nethttp.Limiter
	page   http.Handler

	mu     sync.Mutex
	audits []admin.Change
	log    strings.Builder
}

func (s *site) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(line)
}

func (s *site) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *site) audited() []admin.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.audits
}

func ann(*http.Request) (admin.Person, error) { return admin.Person{Name: "ann", MayChange: true}, nil }

func perClient(n int64) nethttp.Rule {
	return nethttp.Rule{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(n)), Key: keyfuncs.Address(keyfuncs.Peer),
	}
}

// newSite returns a site with rules, one request a day for each client if there are none.
func newSite(t *testing.T, options admin.Options, rules ...nethttp.Rule) *site {
	t.Helper()
	return newSiteOf(t, ann, nil, options, rules...)
}

func newSiteOf(
	t *testing.T, who func(*http.Request) (admin.Person, error), policy admin.Policy, options admin.Options,
	rules ...nethttp.Rule,
) *site {
	t.Helper()
	if rules == nil {
		rules = []nethttp.Rule{perClient(1)}
	}
	counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
	s := &site{T: t, counts: counts}
	api := counts.Limiter("api")
	s.limit = nethttp.MustNew(nethttp.Config{Rules: rules, Observer: api})
	options.Logger = slog.New(slog.NewTextHandler(s, nil))
	options.Audit = func(_ context.Context, c admin.Change) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.audits = append(s.audits, c)
	}
	page, err := admin.New(who,
		admin.Sources{Stats: counts, Limiters: map[string]admin.Limiter{"api": s.limit}, Policy: policy}, options)
	if err != nil {
		t.Fatal(err)
	}
	s.page = page
	return s
}

// visit sends a request of a client to the service.
func (s *site) visit(client string) int {
	s.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = client + ":1"
	w := httptest.NewRecorder()
	s.limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w.Code
}

// send sends a request to the page, changed by those functions.
func (s *site) send(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), method, path, strings.NewReader(body))
	r.Host = "localhost:8081"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	s.page.ServeHTTP(w, r)
	return w
}

// ask sends a request that has to work, and reads the answer into v.
func (s *site) ask(method, path, body string, v any) {
	s.Helper()
	w := s.send(method, path, body)
	if w.Code != http.StatusOK {
		s.Fatalf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
	}
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			s.Fatal(err)
		}
	}
}

// fails sends a request that must not work.
func (s *site) fails(status int, path, body, text string) {
	s.Helper()
	if w := s.send("POST", path, body); w.Code != status || !strings.Contains(w.Body.String(), text) {
		s.Errorf("%s %.60s: %d %s, want %d %q", path, body, w.Code, w.Body, status, text)
	}
}

type snapshot struct {
	Limiters []struct{ Allowed, Denied int64 }
	Rules    []struct {
		Limiter, Name, Limit, Mode, GivenLimit, GivenMode, YAML, Why string
		InForce, Ours                                                bool
		Until, Allowed, Denied, WouldDeny, Binding                   int64
		Sources                                                      map[string]int64
	}
	Top []struct {
		Rule, Key, ID string
		Count         int64
	}
	Policy *struct {
		Source, Digest, Failure string
		Differences             []string
		FailingSince            int64
	}
}

func (s *site) snapshot() (v snapshot) {
	s.Helper()
	s.ask("GET", "/api/snapshot", "", &v)
	return v
}

type denial struct{ Limiter, Rule, Key, ID, Limit, Source string }

func (s *site) denials() (v []denial) {
	s.Helper()
	s.ask("GET", "/api/denials", "", &v)
	return v
}

func TestAPageNeedsToKnowWhoAsksAndWhatToShow(t *testing.T) {
	_, err := admin.New(nil, admin.Sources{Limiters: map[string]admin.Limiter{"a": nil}},
		admin.Options{Hosts: []string{"http://a", ""}, Keys: 7})
	if err == nil {
		t.Fatal("there is a page of nothing for anybody")
	}
	for _, text := range []string{
		"who: is nil", "stats: is nil", `limiter "a": is nil`, `got "http://a"`, `got ""`, "keys: must be",
	} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in\n%v", text, err)
		}
	}
}

func TestThePageShowsWhatLimitersDo(t *testing.T) {
	shadow := perClient(1)
	shadow.Name, shadow.Mode = "shadow", core.Shadow
	s := newSite(t, admin.Options{Instance: "eu-1"}, perClient(2), shadow)
	for range 3 {
		s.visit("192.0.2.7")
	}
	v := s.snapshot()
	if len(v.Limiters) != 1 || v.Limiters[0].Allowed != 2 || v.Limiters[0].Denied != 1 {
		t.Errorf("limiters: %+v", v.Limiters)
	}
	if len(v.Rules) != 2 || v.Rules[0].Denied != 1 || v.Rules[0].Binding != 1 ||
		v.Rules[0].Limit != "fixed-window 2/1d" || v.Rules[1].WouldDeny == 0 || v.Rules[1].Mode != "shadow" {
		t.Errorf("rules: %+v", v.Rules)
	}
	if v.Policy != nil {
		t.Errorf("a program without a policy has %+v", v.Policy)
	}
	if d := s.denials(); len(d) != 1 || d[0].Rule != "per-client" || !strings.HasPrefix(d[0].Key, "192.0.2.0/24#") ||
		d[0].Source != "primary" {
		t.Errorf("denials: %+v", d)
	}
	var session struct {
		Instance, Name string
		MayChange      bool
		Explains       []string
	}
	s.ask("GET", "/api/session", "", &session)
	if session.Instance != "eu-1" || session.Name != "ann" || session.MayChange || len(session.Explains) != 1 {
		t.Errorf("the session: %+v", session)
	}
}

func TestARuleThatIsGoneKeepsItsNumbers(t *testing.T) {
	s := newSite(t, admin.Options{})
	s.visit("192.0.2.7")
	other := perClient(5)
	other.Name = "other"
	if err := s.limit.Replace([]nethttp.Rule{other}); err != nil {
		t.Fatal(err)
	}
	v := s.snapshot()
	if len(v.Rules) != 2 || v.Rules[0].Name != "other" || !v.Rules[0].InForce || v.Rules[1].Name != "per-client" ||
		v.Rules[1].InForce || v.Rules[1].Allowed != 1 {
		t.Errorf("%+v", v.Rules)
	}
}

func TestLimitersThatOnlyOneSideKnowsAreShown(t *testing.T) {
	counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
	counted := counts.Limiter("counted")
	limit := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{perClient(1)}, Observer: counted})
	other := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{perClient(2)}})
	page, err := admin.New(ann, admin.Sources{Stats: counts, Limiters: map[string]admin.Limiter{"other": other}},
		admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		limit.Decide(httptest.NewRequest("GET", "/", nil))
	}
	s := &site{T: t, page: page}
	v := s.snapshot()
	if len(v.Rules) != 2 || v.Rules[0].Limiter != "counted" || !v.Rules[0].InForce || v.Rules[0].Ours ||
		v.Rules[0].Limit != "fixed-window 1/1d" || v.Rules[0].Denied != 1 || v.Rules[1].Limiter != "other" ||
		!v.Rules[1].Ours || v.Rules[1].Limit != "fixed-window 2/1d" {
		t.Errorf("%+v", v.Rules)
	}
	if len(v.Top) != 1 || v.Top[0].ID != "" || len(s.denials()) != 1 || s.denials()[0].ID != "" {
		t.Errorf("rows that the page cannot do anything about have ids: %+v", v.Top)
	}
}

var errNobody = errors.New("token 12345 is not known")

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
