package examples

import (
	"net/http"
	"strings"
	"testing"
)

func fromService(t *testing.T, service, method, url string) answer {
	t.Helper()
	return send(t, method, url, "", "X-Envoy-Downstream-Service-Cluster", service)
}

// ofEnvoy names a policy with fixed windows that do not end while a test runs.
func ofEnvoy(t *testing.T, changes ...string) string {
	return "POLICY=" + policyOf(t, "envoy", append([]string{
		"limit: fixed-window 600/minute", "limit: fixed-window 600/365d",
		"limit: fixed-window 5/minute", "limit: fixed-window 5/365d",
		"limit: fixed-window 10/minute", "limit: fixed-window 10/365d",
	}, changes...)...)
}

// rateLimited fails unless a is how Envoy denies.
func (a answer) rateLimited(t *testing.T, body string) {
	t.Helper()
	a.want(t, http.StatusTooManyRequests)
	a.field(t, "X-Envoy-RateLimited", "true")
	a.field(t, "X-RateLimit-Remaining", "0")
	if a.body != body {
		t.Errorf("the body is %q, want %q", a.body, body)
	}
}

func TestEnvoyLimitsByItsDescriptors(t *testing.T) {
	admin := freeAddr(t)
	onBoth(t, "envoy", func(t *testing.T, url string) {
		for range 20 {
			a := fromService(t, "cart", "GET", url+"/products").want(t, http.StatusOK)
			a.field(t, "X-Envoy-RateLimited", "")
		}
		said := send(t, "GET", "http://"+admin+"/stats", "").body
		if !strings.Contains(said, "ratelimit.next.over_limit: 10\n") ||
			!strings.Contains(said, "ratelimit.source.ok: 20\nratelimit.source.over_limit: 0\n") {
			t.Errorf("the shadow has counted\n%s", said)
		}
		for range 5 {
			send(t, "POST", url+"/login", "").want(t, http.StatusOK)
		}
		send(t, "POST", url+"/login", "").rateLimited(t, "")
		for i := range 600 {
			a := fromService(t, "web", "POST", url+"/orders").want(t, http.StatusOK)
			if i == 0 {
				a.field(t, "X-RateLimit-Limit", "600")
				a.field(t, "X-RateLimit-Remaining", "599")
			}
		}
		fromService(t, "web", "POST", url+"/orders").rateLimited(t, "")
		fromService(t, "cart", "POST", url+"/orders").want(t, http.StatusOK)
	}, ofEnvoy(t), "ADMIN="+admin)
}

func TestEnvoyLimitsServicesAndOneOfThemOtherwise(t *testing.T) {
	onBoth(t, "envoy", func(t *testing.T, url string) {
		for range 3 {
			fromService(t, "cart", "GET", url+"/").want(t, http.StatusOK)
			fromService(t, "nobody knows", "GET", url+"/").want(t, http.StatusOK)
			fromService(t, "checkout", "GET", url+"/").want(t, http.StatusOK)
		}
		fromService(t, "cart", "GET", url+"/").rateLimited(t, "")
		fromService(t, "another", "GET", url+"/").rateLimited(t, "") // together with those nobody knows
		fromService(t, "checkout", "GET", url+"/").want(t, http.StatusOK)
		for range 2 {
			fromService(t, "checkout", "GET", url+"/")
		}
		fromService(t, "checkout", "GET", url+"/").rateLimited(t, "")
	}, ofEnvoy(t,
		"    limit: fixed-window 6000/minute", "    limit: fixed-window 3/365d",
		"fixed-window 30000/minute", "fixed-window 5/365d",
	))
}

// The local bucket of each process stands in front: what it denies asks Redis nothing, and it denies
// while Redis is away.
func TestTheLocalBucketOfEnvoyStandsInFront(t *testing.T) {
	addr := freeAddr(t)
	kill := startRedisServer(t, addr)
	program := build(t, "systems/envoy")
	buckets := ofEnvoy(t, "token-bucket 1000/second burst 1000", "token-bucket 6/day burst 6")
	env := []string{"REDIS_URL=redis://" + addr, buckets}
	one, other := launch(t, program, env...), launch(t, program, env...)
	for range 4 {
		send(t, "POST", one+"/login", "").want(t, http.StatusOK)
	}
	send(t, "POST", other+"/login", "").want(t, http.StatusOK)
	send(t, "POST", other+"/login", "").rateLimited(t, "") // five together
	kill()
	if a := send(t, "POST", one+"/login", ""); a.StatusCode != http.StatusServiceUnavailable { // it fails closed
		t.Errorf("a log-in without Redis: %s", a.Status)
	}
	for range 2 {
		send(t, "POST", one+"/orders", "").want(t, http.StatusOK) // it fails open
	}
	send(t, "POST", one+"/orders", "").rateLimited(t, "local_rate_limited")
}
