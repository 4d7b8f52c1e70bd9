package examples

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func asKey(t *testing.T, key, method, url string) answer {
	t.Helper()
	return send(t, method, url, "", "Authorization", "Bearer sk_"+key)
}

// limited fails unless a is how Stripe denies.
func (a answer) limited(t *testing.T, reason string) {
	t.Helper()
	a.want(t, http.StatusTooManyRequests)
	a.field(t, "Retry-After", "1")
	a.field(t, "Stripe-Rate-Limited-Reason", reason)
	a.field(t, "RateLimit", "")
	if !strings.Contains(a.body, "rate_limit_error") {
		t.Errorf("the body is %s", a.body)
	}
}

// full fails unless a says that the service is full.
func (a answer) full(t *testing.T) {
	t.Helper()
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" ||
		a.Header.Get("Stripe-Rate-Limited-Reason") != "" {
		t.Errorf("%s %s: %s, %v, want 503", a.Request.Method, a.Request.URL.Path, a.Status, a.Header)
	}
}

// crowd has requests in flight until the test ends.
type crowd struct {
	t       *testing.T
	running sync.WaitGroup
	ctx     context.Context
}

func newCrowd(t *testing.T) *crowd {
	ctx, leave := context.WithCancel(t.Context())
	c := &crowd{t: t, ctx: ctx}
	t.Cleanup(func() {
		leave()
		c.running.Wait()
	})
	return c
}

// send keeps n requests running. One that is denied, because a probe runs, is sent again.
func (c *crowd) send(n int, key, method, url string) {
	c.t.Helper()
	for range n {
		c.running.Go(func() {
			for {
				r, err := http.NewRequestWithContext(c.ctx, method, url+"?ms=60000", nil)
				if err != nil {
					c.t.Error(err)
				}
				r.Header.Set("Authorization", "Bearer sk_"+key)
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					return // it has left
				}
				response.Body.Close()
			}
		})
	}
}

// until asks until the answer has a status, as it soon will once all requests of a crowd run. If a
// busy machine has answered some of them without Redis, it may count them twice for a moment.
func until(t *testing.T, status int, key, method, url string) answer {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		a := asKey(t, key, method, url)
		if a.StatusCode == status {
			return a
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s of %s: %s, want %d", method, a.Request.URL.Path, key, a.Status, status)
		}
	}
}

// Of 100 units a minute nearly none return while the test runs.
func TestStripeLimitsTheRatesOfAKey(t *testing.T) {
	onBoth(t, "stripe", func(t *testing.T, url string) {
		for range 100 {
			asKey(t, "live_1", "GET", url+"/v1/customers").want(t, http.StatusOK)
		}
		denied(t, func() answer { return asKey(t, "live_1", "GET", url+"/v1/customers") }).limited(t, "global-rate")
		for range 100 { // of their own
			asKey(t, "live_1", "POST", url+"/v1/charges").want(t, http.StatusOK)
		}
		denied(t, func() answer { return asKey(t, "live_1", "POST", url+"/v1/charges") }).limited(t, "endpoint-rate")
		asKey(t, "live_2", "GET", url+"/v1/customers").want(t, http.StatusOK)
		if a := asKey(t, "made_up", "GET", url+"/"); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("an unknown key: %s", a.Status)
		}
	}, "PERIOD=1m", "WORKERS=1000")
}

func TestStripeHoldsTwentyRequestsOfAKey(t *testing.T) {
	onBoth(t, "stripe", func(t *testing.T, url string) {
		newCrowd(t).send(20, "live_1", "GET", url+"/v1/customers")
		until(t, http.StatusTooManyRequests, "live_1", "POST", url+"/v1/charges").limited(t, "global-concurrency")
		until(t, http.StatusOK, "live_2", "GET", url+"/v1/customers")
	}, "PERIOD=1ms", "WORKERS=1000")
}

func TestTheFleetOfStripeKeepsRoomForCharges(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	program, admin := build(t, "systems/stripe"), freeAddr(t)
	env := []string{"REDIS_URL=redis://" + addr, "PERIOD=1ms", "WORKERS=1000"}
	one, other := launch(t, program, append(env, "ADMIN="+admin)...), launch(t, program, env...)
	customers, charges := one+"/v1/customers", one+"/v1/charges"
	all := newCrowd(t)
	for i, key := range []string{"live_1", "live_2", "live_3", "live_4"} {
		all.send(20, key, "GET", []string{one, other}[i%2]+"/v1/customers")
	}
	until(t, http.StatusServiceUnavailable, "live_5", "GET", customers).full(t)
	until(t, http.StatusOK, "live_5", "POST", charges)
	all.send(20, "live_5", "POST", charges)
	until(t, http.StatusServiceUnavailable, "live_6", "POST", charges).full(t)

	turn := func(name, mode string) {
		t.Helper()
		a := send(t, "POST", "http://"+admin+"/modes?name="+name+"&mode="+mode, "")
		if a.StatusCode != http.StatusOK || a.body != "" {
			t.Fatalf("%s to %s: %s, %s", name, mode, a.Status, a.body)
		}
	}
	for _, mistake := range []string{
		"name=fleets&mode=shadow", "name=fleet&mode=shade", "name=workers&mode=shadow+50%25",
	} {
		a := send(t, "POST", "http://"+admin+"/modes?"+mistake, "")
		if a.StatusCode != http.StatusBadRequest || a.body == "" {
			t.Errorf("%s: %s, %s", mistake, a.Status, a.body)
		}
	}
	turn("fleet", "shadow")
	until(t, http.StatusOK, "live_6", "POST", charges)
	until(t, http.StatusServiceUnavailable, "live_6", "GET", customers).full(t)
	turn("fleet-rest", "disabled")
	until(t, http.StatusOK, "live_6", "GET", customers)
	turn("fleet", "enforce")
	turn("fleet-rest", "enforce")
	until(t, http.StatusServiceUnavailable, "live_6", "POST", charges).full(t)
}

func TestTheWorkersOfStripeShedTheLeastImportantFirst(t *testing.T) {
	admin := freeAddr(t)
	url := start(t, "systems/stripe", "WORKERS=10", "PERIOD=1ms", "ADMIN="+admin)
	customers, charges := url+"/v1/customers", url+"/v1/charges"
	all := newCrowd(t)
	all.send(5, "live_1", "GET", customers)
	until(t, http.StatusServiceUnavailable, "test_1", "POST", charges).full(t) // also a charge
	asKey(t, "live_2", "GET", customers).want(t, http.StatusOK)
	all.send(3, "live_1", "GET", customers)
	until(t, http.StatusServiceUnavailable, "live_2", "GET", customers).full(t)
	asKey(t, "live_2", "POST", customers).want(t, http.StatusOK)
	all.send(1, "live_1", "POST", customers)
	until(t, http.StatusServiceUnavailable, "live_2", "POST", customers).full(t)
	asKey(t, "live_2", "POST", charges).want(t, http.StatusOK)
	all.send(1, "live_1", "POST", charges)
	until(t, http.StatusServiceUnavailable, "live_2", "POST", charges).full(t)

	for mode, want := range map[string]int{"shadow": 200, "disabled": 200, "enforce": 503} {
		send(t, "POST", "http://"+admin+"/modes?name=workers&mode="+mode, "")
		until(t, want, "live_2", "POST", charges)
	}
}
