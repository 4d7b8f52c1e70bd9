package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits/backends"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/stats"
)

const rules = `version: 1
client: {peer: true}
rules:
  - name: everybody
    key: everybody
    limit: 2000/second
  - name: per-client
    match: [/api/]
    key: address
    limit: fixed-window 3/day
  - name: per-client-next
    match: [/api/]
    key: address
    limit: fixed-window 2/day
    mode: shadow
  - name: log-in
    match: [POST /login]
    key: {first: [header X-User, address]}
    limit: ban 2/day for 1h
  - name: uploads
    match: [POST /upload]
    key: address
    limit: concurrent 2
`

// site is a limited service and its page.
type site struct {
	*testing.T
	counts  *stats.Stats
	limit   *nethttp.Limiter
	service http.Handler
	path    string // of the policy file
	url     string // of the page
	open    atomic.Bool
	unknown atomic.Bool // whoever asks
}

// newSite starts a site whose page is under a path of a server.
func newSite(t *testing.T, options admin.Options) *site {
	t.Helper()
	t.Chdir(t.TempDir()) // the page shows the name of the file as it was given
	s := &site{T: t, path: "weir.yaml"}
	s.write(rules)
	p, err := policy.Load(s.path, policy.Names[*http.Request]{})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	counts := stats.New(stats.Options{Logger: quiet})
	s.counts = counts
	store := memory.MustNew(memory.Options{MaxKeys: 100_000})
	api := counts.Limiter("api")
	s.limit = nethttp.MustNew(nethttp.Config{
		Rules: p.Rules(), Backend: counts.Backend("redis", store), Observer: api,
	})
	counts.WatchMemory("memory", store)
	started := time.Now()
	counts.WatchBreaker("redis", func() backends.BreakerStatus {
		if s.open.Load() {
			return backends.BreakerStatus{State: "open", Since: started, Opened: 1}
		}
		return backends.BreakerStatus{State: "closed", Since: started}
	})
	counts.WatchLeases("redis", func() backends.LeaseCounts {
		return backends.LeaseCounts{Keys: 1, Held: 16, BlocksTaken: 3, UnitsTaken: 48, UnitsReturned: 2}
	})
	status := p.Status()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = policy.Watch(ctx, p, s.limit.Replace, policy.Options{Every: 20 * time.Millisecond, Logger: quiet, Status: status})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	options.Logger, options.Instance = quiet, "eu-1"
	who := func(*http.Request) (admin.Person, error) {
		if s.unknown.Load() {
			return admin.Person{}, fmt.Errorf("nobody knows")
		}
		return admin.Person{Name: "ann", MayChange: true}, nil
	}
	page, err := admin.New(who,
		admin.Sources{Stats: counts, Limiters: map[string]admin.Limiter{"api": s.limit}, Policy: status}, options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/ops/weir", page))
	t.Cleanup(server.Close)
	s.url = server.URL + "/ops/weir/"
	s.service = s.limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return s
}

// write writes the policy file.
func (s *site) write(text string) {
	s.Helper()
	if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// visit sends n requests of a client to the service, and returns the last status.
func (s *site) visit(n int, method, path, client string, headers ...string) (status int) {
	s.Helper()
	for range n {
		r := httptest.NewRequest(method, path, nil)
		r.RemoteAddr = client + ":1"
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.service.ServeHTTP(w, r)
		status = w.Code
	}
	return status
}

// traffic is some of everything.
func (s *site) traffic() {
	s.Helper()
	for i := range 40 {
		s.visit(1+i%7, "GET", "/api/things", fmt.Sprintf("198.51.%d.%d", 100+i%3, i))
	}
	s.visit(60, "GET", "/api/things", "203.0.113.77")
	s.visit(9, "GET", "/api/things", "[2001:db8:1:2::3]")
	s.visit(5, "POST", "/login", "203.0.113.9", "X-User", "alice@example.com")
	s.visit(2, "POST", "/upload", "203.0.113.9")
}

// parse returns the rules of a policy.
func parse(t *testing.T, text string) []nethttp.Rule {
	t.Helper()
	p, err := policy.Parse("weir.yaml", []byte(text), policy.Names[*http.Request]{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Rules()
}

func constant(key string) func(*http.Request) (string, error) {
	return func(*http.Request) (string, error) { return key, nil }
}
