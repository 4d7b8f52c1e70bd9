package faults

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// site is a server with a route for each policy, on one instance.
type site struct {
	*testing.T
	url    string
	source [len(policies)]atomic.Int32 // of the latest decision
	paths  [len(policies)]string
}

func startSite(t *testing.T, in *instance) *site {
	s := &site{T: t, paths: [...]string{"/falls-back", "/fails-open", "/fails-closed"}}
	mux := http.NewServeMux()
	for i, policy := range policies {
		limiter := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name: s.paths[i][1:], Limit: limit, OnFailure: policy,
				Key: func(r *http.Request) (string, error) { return r.URL.RawQuery, nil },
			}},
			Backend: in.stack,
			Observer: core.ObserverFuncs[*http.Request]{
				OnDecision: func(_ context.Context, _ *http.Request, o core.Outcome) { s.source[i].Store(int32(o.At(0).Source)) }},
		})
		mux.Handle(s.paths[i], limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "welcome")
		})))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// answer is what a client gets.
type answer struct {
	status int
	source limits.Source
	header http.Header
	body   string
}

func (s *site) get(route int, client string) answer {
	s.Helper()
	start := time.Now()
	response, err := http.Get(s.url + s.paths[route] + "?" + client)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	if took := time.Since(start); took > 6*time.Second { // a slow machine may be late
		s.Errorf("%s: waited %v", s.paths[route], took)
	}
	return answer{response.StatusCode, limits.Source(s.source[route].Load()), response.Header, string(body)}
}

// is fails the test unless the answer is a problem document as described.
func (a answer) is(t *testing.T, status int, source limits.Source, problem string) {
	t.Helper()
	var document struct {
		Type   string
		Status int
	}
	err := json.Unmarshal([]byte(a.body), &document)
	if a.status != status || a.source != source || err != nil || document.Status != status ||
		!strings.HasSuffix(document.Type, problem) || a.header.Get("Content-Type") != "application/problem+json" ||
		a.header.Get("Retry-After") == "" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d by %v, want %d by %v and %s\n%v\n%s", a.status, a.source, status, source, problem, a.header, a.body)
	}
	for _, internal := range []string{"redis", "Redis", "breaker", "127.0.0.1"} {
		if strings.Contains(a.body, internal) {
			t.Errorf("the body tells clients of %s:\n%s", internal, a.body)
		}
	}
}

func TestOverHTTPEachRouteFailsAsItsRuleSays(t *testing.T) {
	t.Parallel()
	const falls, opens, closes = 0, 1, 2
	s := startServer(t)
	site := startSite(t, startFleet(t, s.addr, redis.Options{})[0])
	work := func(what string) {
		t.Helper()
		for route := range site.paths {
			eventually(t, what, func() bool {
				a := site.get(route, what)
				return a.source == limits.SourcePrimary && a.status == http.StatusOK
			})
		}
	}
	work("before")
	s.kill()

	statuses := make(map[string]map[int]int)
	for route, path := range site.paths {
		statuses[path] = make(map[int]int)
		for range 3 * units {
			a := site.get(route, "client")
			statuses[path][a.status]++
			switch route {
			case falls:
				if a.source != limits.SourceFallback || a.header.Get("RateLimit") == "" {
					t.Errorf("%s: %d by %v, RateLimit %q", path, a.status, a.source, a.header.Get("RateLimit"))
				}
				if a.status != http.StatusOK {
					a.is(t, http.StatusTooManyRequests, limits.SourceFallback, "#quota-exceeded")
				}
			case opens:
				if a.source != limits.SourceOpen || a.status != http.StatusOK || a.body != "welcome" {
					t.Errorf("%s: %d by %v: %s", path, a.status, a.source, a.body)
				}
			case closes:
				a.is(t, http.StatusServiceUnavailable, limits.SourceClosed, "#temporary-reduced-capacity")
			}
		}
	}
	if n := statuses[site.paths[falls]][http.StatusOK]; n != units {
		t.Errorf("the fallback admitted %d of a limit of %d", n, units)
	}

	s.restart(t)
	work("after")
	t.Logf("FAULT over HTTP, kill -9 and restart: statuses while Redis was down %v", statuses)
}
