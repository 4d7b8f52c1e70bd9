package examples

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// bannedFor fails unless a log-in is denied for about as long as a ban, by an answer that tells
// nothing else.
func bannedFor(t *testing.T, a answer, ban time.Duration) {
	t.Helper()
	a.want(t, http.StatusTooManyRequests)
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if got := time.Duration(seconds) * time.Second; err != nil || got > ban || got < ban-time.Minute+time.Second {
		t.Errorf("Retry-After %q, want a ban of %v", a.Header.Get("Retry-After"), ban)
	}
	a.field(t, "RateLimit", "")
	a.field(t, "RateLimit-Policy", "")
	if strings.Contains(a.body, "user") || strings.Contains(a.body, "address") {
		t.Errorf("the answer names a rule: %s", a.body)
	}
}

func TestTheLogInBansUsersThatFail(t *testing.T) {
	onBoth(t, "login", func(t *testing.T, url string) {
		first := logIn(t, url, "ann", "right").want(t, http.StatusOK)
		device := first.Cookies()[0]
		for range 10 { // nobody is banned for what succeeds
			logIn(t, url, "ann", "right").want(t, http.StatusOK)
		}
		for range 5 {
			known, unknown := logIn(t, url, "ann", "guess"), logIn(t, url, "nobody", "guess")
			known.want(t, http.StatusUnauthorized)
			unknown.want(t, http.StatusUnauthorized)
			if known.body != unknown.body ||
				fmt.Sprint(known.Header["Set-Cookie"]) != fmt.Sprint(unknown.Header["Set-Cookie"]) {
				t.Errorf("%q and %q tell who exists", known.body, unknown.body)
			}
		}
		bannedFor(t, logIn(t, url, " ANN ", "right"), time.Minute) // the right password tells nothing now
		bannedFor(t, logIn(t, url, "nobody", "guess"), time.Minute)
		logIn(t, url, "bob", "right").want(t, http.StatusOK)

		as := func(user, cookie string) answer {
			return send(t, "POST", url+"/login", "user="+user+"&password=right",
				"Content-Type", "application/x-www-form-urlencoded", "Cookie", cookie)
		}
		as("ann", "device="+device.Value).want(t, http.StatusOK) // ann's own browser
		bannedFor(t, as("ann", "device="+device.Value+"0"), time.Minute)
		bannedFor(t, as("nobody", "device="+device.Value), time.Minute)
	})
}

func TestTheLogInBansAddressesThatFail(t *testing.T) {
	onBoth(t, "login", func(t *testing.T, url string) {
		for i := range 25 {
			logIn(t, url, "user"+strconv.Itoa(i), "guess").want(t, http.StatusUnauthorized)
		}
		bannedFor(t, logIn(t, url, "bob", "right"), 15*time.Minute)
	})
}

// Short bans that are taken in Redis stand for earlier ones, which have ended.
func TestBansOfTheLogInGrow(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr)
	url, redis := start(t, "systems/login", "REDIS_URL=redis://"+addr), redisOf(t, addr, "login")
	short := limits.Ban(limits.Per(1, time.Minute), time.Millisecond).Growing(24 * time.Hour)
	earlier := func(rule, key string, bans int) {
		for bans > 0 {
			out := make([]limits.Decision, 1)
			err := redis.Take(t.Context(), []backends.Charge{{Scope: rule, Key: key, Limit: short, Cost: 1}}, out)
			if err != nil {
				t.Fatal(err)
			}
			if out[0].Allowed { // otherwise the last one has not ended
				bans--
			}
		}
	}
	earlier("address", "127.0.0.1", 1)
	for _, step := range []struct {
		user  string
		bans  int
		lasts time.Duration
	}{{"user1", 0, time.Minute}, {"user2", 1, 2 * time.Minute}, {"user3", 3, 8 * time.Minute}} {
		earlier("user", "user:"+keyfuncs.Digest(step.user), step.bans)
		fails(t, url, step.user, 5)
		bannedFor(t, logIn(t, url, step.user, "right"), step.lasts)
	}
	fails(t, url, "user4", 4)
	fails(t, url, "user5", 4)
	fails(t, url, "user6", 2)
	bannedFor(t, logIn(t, url, "user7", "right"), 30*time.Minute)
}

func TestWithoutRedisNobodyLogsIn(t *testing.T) {
	addr := freeAddr(t)
	kill := startRedisServer(t, addr)
	url := start(t, "systems/login", "REDIS_URL=redis://"+addr)
	logIn(t, url, "ann", "right").want(t, http.StatusOK)
	kill()
	a := logIn(t, url, "ann", "right")
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1" {
		t.Errorf("without Redis: %s, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
	}
}

// fails has a log-in fail n times, each answered 401.
func fails(t *testing.T, url, user string, n int) {
	t.Helper()
	for range n {
		logIn(t, url, user, "guess").want(t, http.StatusUnauthorized)
	}
}

func TestTheLogInForgivesAUserThatSucceeds(t *testing.T) {
	onBoth(t, "login", func(t *testing.T, url string) {
		for range 3 { // twelve failures: without forgiving, the fifth bans
			fails(t, url, "ann", 4)
			logIn(t, url, "ann", "right").want(t, http.StatusOK)
		}
		fails(t, url, "ann", 5)
		bannedFor(t, logIn(t, url, "ann", "right"), time.Minute)
	})
}

// An attacker with an account could otherwise guess at others for ever.
func TestTheLogInForgivesNoAddress(t *testing.T) {
	onBoth(t, "login", func(t *testing.T, url string) {
		for i := range 5 {
			fails(t, url, "user"+strconv.Itoa(i), 4)
			logIn(t, url, "bob", "right").want(t, http.StatusOK)
		}
		fails(t, url, "user5", 4)
		fails(t, url, "user6", 1)
		bannedFor(t, logIn(t, url, "bob", "right"), 15*time.Minute)
	})
}

func TestBehindAProxyTheLogInBansClients(t *testing.T) {
	onBoth(t, "login", func(t *testing.T, url string) {
		from := func(user, password string, hops ...string) answer {
			return send(t, "POST", url+"/login", "user="+user+"&password="+password,
				"Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", strings.Join(hops, ", "))
		}
		for i := range 25 { // the first hop is forged
			from("user"+strconv.Itoa(i), "guess", "198.51.100."+strconv.Itoa(i), "203.0.113.7").want(t,
				http.StatusUnauthorized)
		}
		bannedFor(t, from("ann", "right", "203.0.113.7"), 15*time.Minute)
		a := from("ann", "right", "203.0.113.8").want(t, http.StatusOK)
		if c := a.Cookies()[0]; !c.Secure {
			t.Errorf("the proxy speaks TLS, and the cookie %v is not secure", c)
		}
		from("ann", "right", "127.0.0.1").want(t, http.StatusOK) // curl on the machine of the proxy
		// Past the proxy:
		if a := logIn(t, url, "ann", "right"); a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("without X-Forwarded-For: %s", a.Status)
		}
	}, "TRUSTED_PROXIES=127.0.0.1 ::1")
}
