package examples

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

const issues = "/repos/ann/weir/issues"

func asAnn(t *testing.T, method, url string) answer {
	t.Helper()
	return send(t, method, url, "", "Authorization", "Bearer ghp-ann")
}

// isPrimary fails unless a is how GitHub denies by the hour.
func (a answer) isPrimary(t *testing.T) {
	t.Helper()
	a.want(t, http.StatusForbidden)
	a.field(t, "X-RateLimit-Remaining", "0")
	a.field(t, "X-RateLimit-Resource", "core")
	if !strings.Contains(a.body, "API rate limit exceeded") {
		t.Errorf("the message is %s", a.body)
	}
	reset, err := strconv.ParseInt(a.Header.Get("X-RateLimit-Reset"), 10, 64)
	if until := time.Until(time.Unix(reset, 0)); err != nil || until < 50*time.Minute || until > time.Hour+time.Second {
		t.Errorf("X-RateLimit-Reset %q is in %v", a.Header.Get("X-RateLimit-Reset"), until)
	}
}

// isSecondary fails unless a is how GitHub denies by a secondary limit, which leaves the hour alone.
func (a answer) isSecondary(t *testing.T, limit string) {
	t.Helper()
	a.want(t, http.StatusTooManyRequests)
	a.field(t, "X-RateLimit-Limit", limit)
	a.field(t, "X-RateLimit-Resource", "core")
	if left := a.Header.Get("X-RateLimit-Remaining"); left == "" || left == "0" {
		t.Errorf("X-RateLimit-Remaining %q", left)
	}
	if !strings.Contains(a.body, "secondary rate limit") {
		t.Errorf("the message is %s", a.body)
	}
}

func TestGitHubDeniesBySixtyAnHour(t *testing.T) {
	onBoth(t, "github", func(t *testing.T, url string) {
		for i := range 60 {
			a := send(t, "GET", url+issues, "").want(t, http.StatusOK)
			a.field(t, "X-RateLimit-Limit", "60")
			a.field(t, "X-RateLimit-Used", strconv.Itoa(i+1))
			a.field(t, "X-RateLimit-Remaining", strconv.Itoa(59-i))
		}
		send(t, "GET", url+issues, "").isPrimary(t)
		asAnn(t, "GET", url+issues).want(t, http.StatusOK).field(t, "X-RateLimit-Limit", "5000")
		a := send(t, "GET", url+issues, "", "Authorization", "Bearer ghe-acme").want(t, http.StatusOK)
		a.field(t, "X-RateLimit-Limit", "15000")
		if a := send(t, "GET", url+issues, "", "Authorization",
			"Bearer made-up"); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("a token that nobody has: %s", a.Status)
		}
	})
}

func TestGitHubDeniesByTheHourOfAUser(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	url, redis := start(t, "systems/github", "REDIS_URL=redis://"+addr), redisOf(t, addr, "github")
	for _, c := range []struct {
		token, key string
		hour       int64
	}{{"ghp-ann", "0:ann", 5000}, {"ghe-acme", "0:acme", 15000}} {
		hour := limits.AnchoredWindow(limits.PerHour(c.hour))
		use(t, redis, backends.Charge{Scope: "core", Key: c.key, Limit: hour, Cost: c.hour - 1})
		ask := func() answer { return send(t, "GET", url+issues, "", "Authorization", "Bearer "+c.token) }
		ask().want(t, http.StatusOK).field(t, "X-RateLimit-Remaining", "0")
		ask().isPrimary(t)
	}
}

// The window of an hour starts with the first request, and ends at one instant on every instance.
func TestTheResetOfGitHubDoesNotWobble(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	program := build(t, "systems/github")
	urls := []string{launch(t, program, "REDIS_URL=redis://"+addr), launch(t, program, "REDIS_URL=redis://"+addr)}
	begun, reset := time.Now(), ""
	for i := range 50 {
		a := asAnn(t, "GET", urls[i%2]+issues).want(t, http.StatusOK)
		a.field(t, "X-RateLimit-Used", strconv.Itoa(i+1))
		got := a.Header.Get("X-RateLimit-Reset")
		if i == 0 {
			reset = got
			seconds, _ := strconv.ParseInt(got, 10, 64)
			if wait := time.Unix(seconds, 0).Sub(begun); wait < time.Hour ||
				wait > time.Hour+time.Since(begun)+time.Second {
				t.Errorf("the window ends %v after its first request", wait)
			}
		} else if got != reset {
			t.Fatalf("request %d: X-RateLimit-Reset %s, was %s", i, got, reset)
		}
	}
}

func TestGitHubCountsPoints(t *testing.T) {
	onBoth(t, "github", func(t *testing.T, url string) {
		for range 180 { // 900 points
			asAnn(t, "POST", url+issues).want(t, http.StatusOK)
		}
		denied(t, func() answer { return asAnn(t, "POST", url+issues) }).isSecondary(t, "5000")
	})
}

// A query pays by its nodes once it has run, from an hour of its own. A mutation counts five in the
// secondary limit, a query of GraphQL and a QUERY of HTTP one.
func TestGitHubCountsPointsOfGraphQL(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	url, redis := start(t, "systems/github", "REDIS_URL=redis://"+addr), redisOf(t, addr, "github")
	minute := limits.SlidingWindow(limits.PerMinute(900))
	use(t, redis, backends.Charge{Scope: "points", Key: "0:ann", Limit: minute, Cost: 880})
	left := func() int64 {
		out := make([]limits.Decision, 1)
		charges := []backends.Charge{{Scope: "points", Key: "0:ann", Limit: minute}}
		if err := backends.Peek(t.Context(), redis, charges, out); err != nil {
			t.Fatal(err)
		}
		return out[0].Remaining
	}
	for _, c := range []struct {
		method, path, body string
		points             int64
	}{
		{"POST", "/graphql?nodes=250000", `{"query":"{ viewer { login } }"}`, 1},
		{"POST", "/graphql", `{"query":"mutation { star }"}`, 5},
		{"QUERY", issues, "", 1},
		{"POST", issues, "", 5},
	} {
		before := left()
		send(t, c.method, url+c.path, c.body, "Authorization", "Bearer ghp-ann").want(t, http.StatusOK)
		if got := before - left(); got != c.points {
			t.Errorf("%s %s %s takes %d points, want %d", c.method, c.path, c.body, got, c.points)
		}
	}
	hour := limits.AnchoredWindow(limits.PerHour(5000))
	out := make([]limits.Decision, 1)
	charges := []backends.Charge{{Scope: "graphql", Key: "0:ann", Limit: hour}}
	for out[0].Remaining != 5000-2500-1 { // what a request has cost is charged after its answer
		if err := backends.Peek(t.Context(), redis, charges, out); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGitHubCountsEachEndpoint(t *testing.T) {
	onBoth(t, "github", func(t *testing.T, url string) {
		for i := range 300 {
			asAnn(t, "GET", url+"/repos/ann/"+strconv.Itoa(i)+"/issues").want(t, http.StatusOK)
		}
		denied(t, func() answer { return asAnn(t, "GET", url+"/repos/ann/other/issues") }).isSecondary(t, "5000")
		asAnn(t, "GET", url+"/users/ann").want(t, http.StatusOK)
	})
}

func TestGitHubHoldsAHundredRequests(t *testing.T) {
	onBoth(t, "github", func(t *testing.T, url string) {
		ctx, leave := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 100 {
			running.Go(func() {
				for { // denied while the probe holds a unit
					r, err := http.NewRequestWithContext(ctx, "GET", url+issues+"?ms=60000", nil)
					if err != nil {
						t.Error(err)
					}
					r.Header.Set("Authorization", "Bearer ghp-ann")
					response, err := http.DefaultClient.Do(r)
					if err != nil {
						return // it has left
					}
					response.Body.Close()
				}
			})
		}
		probe := asAnn(t, "GET", url+"/users/ann")
		for probe.StatusCode == http.StatusOK {
			probe = asAnn(t, "GET", url+"/users/ann")
		}
		probe.isSecondary(t, "5000")
		if got := probe.Header.Get("Retry-After"); got != "1" { // another limit has a longer wait
			t.Errorf("Retry-After %q", got)
		}
		leave()
		running.Wait()
	})
}

// CPU time is charged once it is known, and more than is left is owed.
func TestGitHubChargesCPUTimeAfterwards(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	url, redis := start(t, "systems/github", "REDIS_URL=redis://"+addr), redisOf(t, addr, "github")
	cpu := limits.SlidingWindow(limits.Per(90_000, time.Minute))
	use(t, redis, backends.Charge{Scope: "cpu", Key: "0:ann", Limit: cpu, Cost: 89_980})
	asAnn(t, "GET", url+issues+"?ms=1500").want(t, http.StatusOK) // 10 are charged before
	look, out := []backends.Charge{{Scope: "cpu", Key: "0:ann", Limit: cpu}}, make([]limits.Decision, 1)
	// Redis is told of the end after the answer.
	for deadline := time.Now().Add(time.Minute); out[0].Remaining > 0 || out[0].At == 0; {
		if err := backends.Peek(t.Context(), redis, look, out); err != nil || time.Now().After(deadline) {
			t.Fatalf("a second and a half of CPU time is not charged: %+v (%v)", out[0], err)
		}
	}
	asAnn(t, "GET", url+issues).isSecondary(t, "5000")
}
