package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/limits"
)

// github answers as GitHub's documentation says. Its clock is the bubble's.
type github struct {
	mu        sync.Mutex
	left      map[string]int
	reset     time.Time
	secondary time.Time // until when the secondary limit denies
	retry     bool      // with Retry-After
	lastWrite time.Time
	denied    int
	fast      int // writes less than a second apart
}

func (g *github) answer(_ int, r *http.Request) *http.Response {
	g.mu.Lock()
	defer g.mu.Unlock()
	resource := "core"
	if strings.HasPrefix(r.URL.Path, "/search/") {
		resource = "search"
	} else if strings.Contains(r.URL.Path, "/code-scanning/") {
		resource = "code_scanning_upload"
	}
	now := time.Now()
	if r.Method != "GET" {
		if now.Sub(g.lastWrite) < time.Second {
			g.fast++
		}
		g.lastWrite = now
	}
	if now.After(g.reset) {
		g.left, g.reset = map[string]int{"core": 20, "search": 5, "code_scanning_upload": 3}, now.Add(10*time.Minute)
	}
	if now.Before(g.secondary) {
		g.denied++
		a := answer(403, "Content-Type", "application/json; charset=utf-8", "Date", now.UTC().Format(http.TimeFormat))
		if g.retry {
			a.Header.Set("Retry-After", fmt.Sprint(int(g.secondary.Sub(now)/time.Second)+1))
		}
		const body = `{"message":"You have exceeded a secondary rate limit.",` +
			`"documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
		a.Body, a.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		return a
	}
	status := 200
	if g.left[resource] == 0 {
		g.denied++
		status = 403
	} else {
		g.left[resource]--
	}
	return answer(status, "Date", now.UTC().Format(http.TimeFormat), "X-RateLimit-Limit", "20",
		"X-RateLimit-Remaining", fmt.Sprint(g.left[resource]), "X-RateLimit-Resource", resource,
		"X-RateLimit-Reset", fmt.Sprint(g.reset.Unix()))
}

func newGitHub(t *testing.T, g *github, o client.Options) (*client.Transport, *script) {
	time.Sleep(time.Until(began))
	server := scripted(g.answer)
	o.Dialect = client.GitHub
	return newClient(t, server, o), server
}

// These are paths of no resource.
func TestDialectsTakeEveryPath(t *testing.T) {
	for _, dialect := range []client.Dialect{client.GitHub, client.Discord, client.OpenAI, client.Anthropic} {
		for _, path := range []string{"", "/", "/api", "/api/", "/api/v10", "/api/v3", "//", "/repos", "/repos/o//"} {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, scripted(always(200)), client.Options{Dialect: dialect})
				if _, err := get(c, "http://a"+path); err != nil {
					t.Errorf("%q: %v", path, err)
				}
			})
		}
	}
}

func TestTheResourcesOfGitHubAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &github{}
		c, server := newGitHub(t, g, client.Options{Pace: client.Off, MaxWait: time.Hour})
		for range 5 {
			get(c, "https://api.github.com/search/issues")
		}
		if response, _ := get(c, "https://api.github.com/user"); response.StatusCode != 200 ||
			time.Since(server.began) > 0 {
			t.Error("core waits for search")
		}
		if response, err := get(c, "https://api.github.com/search/issues"); err != nil || response.StatusCode != 200 {
			t.Errorf("%v, %v, want 200 after the reset", response, err)
		}
		if elapsed := time.Since(server.began); elapsed < 10*time.Minute || g.denied != 1 {
			t.Errorf("the sixth search took %v, and %d were denied", elapsed, g.denied)
		}
	})
}

func TestGitHubNamesTheResourceOfARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &github{}
		c, server := newGitHub(t, g, client.Options{MaxWait: time.Hour})
		for range 4 { // of 3
			response, err := get(c, "https://api.github.com/repos/o/r/code-scanning/sarifs")
			if err != nil || response.StatusCode != 200 {
				t.Fatal(response, err)
			}
		}
		if g.denied != 0 || time.Since(server.began) < 10*time.Minute {
			t.Errorf("%d were denied, after %v", g.denied, time.Since(server.began))
		}
		start := time.Now()
		if _, err := get(c, "https://api.github.com/repos/o/r/issues"); err != nil || time.Since(start) > 0 {
			t.Errorf("core waits for code scanning: %v", err)
		}
	})
}

func TestASecondaryLimitOfGitHubHoldsBackTheAccount(t *testing.T) {
	for name, test := range map[string]struct {
		retry       bool
		least, most time.Duration
	}{
		"with Retry-After":    {true, 30 * time.Second, 33 * time.Second},
		"without Retry-After": {false, time.Minute, 64 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &github{retry: test.retry}
				c, _ := newGitHub(t, g, client.Options{MaxWait: 5 * time.Minute})
				get(c, "https://api.github.com/user")
				start := time.Now()
				g.secondary = start.Add(29 * time.Second)
				var wg sync.WaitGroup
				for i := range 10 {
					wg.Go(func() {
						url := []string{"https://api.github.com/user", "https://api.github.com/search/code?q=a"}[i%2]
						if response, err := get(c, url); err != nil || response.StatusCode != 200 {
							t.Error(response, err)
						}
					})
					synctest.Wait()
				}
				wg.Wait()
				if elapsed := time.Since(start); g.denied != 1 || elapsed < test.least ||
					elapsed > test.most+10*time.Second {
					t.Errorf("%d were denied, and the last was answered after %v", g.denied, elapsed)
				}
			})
		})
	}
}

func TestAnotherForbiddenOfGitHubIsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = `{"message":"Resource not accessible by personal access token"}`
		server := scripted(func(int, *http.Request) *http.Response {
			a := answer(403, "Content-Type", "application/json", "X-RateLimit-Remaining", "9",
				"X-RateLimit-Reset", "60", "X-RateLimit-Resource", "core")
			a.Body, a.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			return a
		})
		c := newClient(t, server, client.Options{Dialect: client.GitHub})
		response, err := c.RoundTrip(request(t, "GET", "https://api.github.com/user", nil))
		if err != nil || server.count() != 1 {
			t.Fatal(err, server.count())
		}
		if got, _ := io.ReadAll(response.Body); string(got) != body {
			t.Errorf("the body is %q", got)
		}
	})
}

func TestWritesToGitHubStartASecondApartAfterASecondaryDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &github{secondary: began.Add(time.Second), retry: true}
		c, server := newGitHub(t, g, client.Options{Pace: client.Off})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				do(c, request(t, []string{"POST", "PATCH", "PUT", "DELETE"}[i%4],
					"https://api.github.com/repos/o/r/issues", nil))
			})
		}
		wg.Wait()
		if g.fast != 0 || g.denied != 1 || time.Since(server.began) > 15*time.Second {
			t.Errorf("%d writes were too close, %d denied, and ten took %v", g.fast, g.denied, time.Since(server.began))
		}
	})
}

func TestWritesToGitHubKeepToItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(201))
		c := newClient(t, server, client.Options{Dialect: client.GitHub, MaxWait: 3 * time.Hour})
		var wg sync.WaitGroup
		for range 600 {
			wg.Go(func() { do(c, request(t, "POST", "https://api.github.com/repos/o/r/issues", nil)) })
		}
		wg.Wait()
		for n, period := range map[int]time.Duration{80: time.Minute, 500: time.Hour, 1: 100 * time.Millisecond} {
			for i := range server.at[n:] {
				if over := server.at[i+n] - server.at[i]; over < period {
					t.Fatalf("%d writes in %v", n+1, over)
				}
			}
		}
	})
}

// discord answers as Discord's documentation says.
type discord struct {
	mu      sync.Mutex
	buckets map[string]*window
	global  window
	denied  int
	latency time.Duration
}

type window struct {
	used int
	ends time.Time
}

func (w *window) take(n int, period time.Duration) bool {
	if now := time.Now(); !now.Before(w.ends) {
		*w = window{ends: now.Add(period)}
	}
	if w.used == n {
		return false
	}
	w.used++
	return true
}

// Two routes share the bucket abcd. It is divided by channel.
func (d *discord) answer(_ int, r *http.Request) *http.Response {
	time.Sleep(d.latency)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.global.take(50, time.Second) {
		d.denied++
		return answer(429, "Retry-After", "1", "X-RateLimit-Global", "true", "X-RateLimit-Scope", "global")
	}
	channel := strings.Split(r.URL.Path, "/")[4]
	if d.buckets == nil {
		d.buckets = make(map[string]*window)
	}
	if d.buckets[channel] == nil {
		d.buckets[channel] = &window{}
	}
	w, status := d.buckets[channel], 200
	if !w.take(5, 5*time.Second) {
		d.denied++
		status = 429
	}
	left := time.Until(w.ends)
	a := answer(status, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", fmt.Sprint(5-w.used),
		"X-RateLimit-Reset", fmt.Sprintf("%.3f", float64(w.ends.UnixMilli())/1000),
		"X-RateLimit-Reset-After", fmt.Sprintf("%.3f", left.Seconds()), "X-RateLimit-Bucket", "abcd")
	if status == 429 {
		a.Header.Set("Retry-After", fmt.Sprint(int(left/time.Second)+1))
		a.Header.Set("X-RateLimit-Scope", "user")
	}
	return a
}

func TestRoutesOfDiscordShareABucketAndChannelsDoNot(t *testing.T) {
	// Without any, an answer could arrive before the first request of another route is sent.
	for _, latency := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) { testRoutesOfDiscord(t, latency) })
	}
}

func testRoutesOfDiscord(t *testing.T, latency time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		d := &discord{latency: latency}
		server := scripted(d.answer)
		c := newClient(t, server, client.Options{Dialect: client.Discord, MaxWait: time.Hour})
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				path := fmt.Sprintf("https://discord.com/api/v10/channels/%d/messages/%d", i%4, 1000+i)
				r := request(t, []string{"GET", "PATCH"}[i/4%2], path, nil)
				if response, err := do(c, r); err != nil || response.StatusCode != 200 {
					t.Error(response, err)
				}
			})
		}
		wg.Wait()
		// Ten for each channel: two windows of five.
		if elapsed := time.Since(server.began); d.denied > 0 || elapsed > 12*time.Second {
			t.Errorf("%d were denied, and all took %v", d.denied, elapsed)
		}
	})
}

// The first request of another route is decided after the answer that names the bucket. Nobody
// knows yet that it is counted there.
func TestARouteInFlightCountsAgainstABucketItMayShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &discord{}
		server := scripted(func(n int, r *http.Request) *http.Response {
			if r.Method == "PATCH" {
				time.Sleep(4500 * time.Millisecond)
			}
			a := d.answer(n, r)
			time.Sleep(50 * time.Millisecond)
			return a
		})
		c := newClient(t, server, client.Options{Dialect: client.Discord})
		var wg sync.WaitGroup
		send := func(method string) {
			wg.Go(func() {
				r := request(t, method, "https://discord.com/api/v10/channels/1/messages/2", nil)
				if response, err := do(c, r); err != nil || response.StatusCode != 200 {
					t.Error(response, err)
				}
			})
		}
		send("PATCH")
		for range 5 {
			send("GET")
		}
		wg.Wait()
		if d.denied > 0 {
			t.Errorf("%d were denied", d.denied)
		}
	})
}

func TestAGlobalDenialOfDiscordHoldsBackAllRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return answer(429, "Retry-After", "3", "X-RateLimit-Global", "true", "X-RateLimit-Scope", "global")
			}
			return answer(200)
		})
		c := newClient(t, server, client.Options{Dialect: client.Discord})
		for _, path := range []string{"channels/1", "guilds/2", "users/@me"} {
			if response, err := get(c, "https://discord.com/api/v10/"+path); err != nil || response.StatusCode != 200 {
				t.Error(response, err)
			}
		}
		if server.at[1] < 3*time.Second || len(server.at) != 4 {
			t.Errorf("requests at %v, want the second after 3s", server.at)
		}
	})
}

func TestInvalidRequestsToDiscordStopBeforeTheAddressIsShutOut(t *testing.T) {
	for _, channels := range []int{1, 3000} { // more than are kept
		t.Run(fmt.Sprint(channels), func(t *testing.T) { testInvalidRequests(t, channels) })
	}
}

func testInvalidRequests(t *testing.T, channels int) {
	synctest.Test(t, func(t *testing.T) {
		status := []int{401, 403, 404}
		sent := 0
		server := scripted(func(n int, r *http.Request) *http.Response {
			sent++
			return answer(status[n%2], "X-RateLimit-Scope", "user")
		})
		c := newClient(t, server, client.Options{Dialect: client.Discord, MaxWait: time.Minute})
		var err error
		for i := range 12_000 {
			time.Sleep(10 * time.Millisecond)
			if _, err = get(c, fmt.Sprintf("https://discord.com/api/v10/channels/%d", i%channels)); err != nil {
				break
			}
		}
		wantWaitError(t, err, time.Minute, "Discord's limit of invalid requests")
		if sent != 9500 {
			t.Errorf("%d invalid requests were sent, want 9500", sent)
		}
		time.Sleep(11 * time.Minute)
		if _, err := get(c, "https://discord.com/api/v10/users/@me"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

// No name that a server gives is that of the account itself, which holds back everybody.
func TestANameThatIsNoneIsIgnored(t *testing.T) {
	for _, dialect := range []client.Dialect{client.GitHub, client.Discord} {
		for _, name := range []string{"\x00", "a b", "\n", strings.Repeat("b", 1000)} {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(n int, _ *http.Request) *http.Response {
					if n == 1 {
						return answer(200, "X-RateLimit-Resource", name, "X-RateLimit-Bucket", name,
							"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "3600")
					}
					return answer(200)
				})
				c := newClient(t, server, client.Options{Dialect: dialect})
				get(c, "https://api.example.com/search")
				if _, err := get(c, "https://api.example.com/user"); err != nil {
					t.Errorf("%v, %q: another route is held back: %v", dialect, name, err)
				}
			})
		}
	}
}

func TestASuccessEndsTheBackoffOfAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		global := []string{"X-RateLimit-Global", "true", "X-RateLimit-Scope", "global"}
		server := scripted(func(n int, r *http.Request) *http.Response {
			switch {
			case r.URL.Path == "/slow":
				time.Sleep(time.Second)
				return answer(200)
			case n == 6:
				return answer(200)
			}
			return answer(429, global...)
		})
		var waits []time.Duration
		c := newClient(t, server, client.Options{Dialect: client.Discord, Attempts: 1,
			MaxWait: time.Minute, Observe: func(e client.Event) {
				if e.Kind == client.Limited {
					waits = append(waits, e.Wait)
				}
			}})
		get(c, "http://a/x") // denied: 1
		done := make(chan struct{})
		go func() { get(c, "http://a/slow"); close(done) }() // 2, which is sent before the next denial
		time.Sleep(1600 * time.Millisecond)
		get(c, "http://a/x") // 3: denied
		<-done
		get(c, "http://a/x") // 4: denied
		get(c, "http://a/x") // 5: denied
		get(c, "http://a/x") // 6
		get(c, "http://a/x") // 7: denied
		want := []time.Duration{1, 2, 4, 8, 1}
		if len(waits) != len(want) {
			t.Fatalf("waits %v", waits)
		}
		for i, w := range waits {
			if least := want[i] * time.Second; w < least || w > least+least/2 {
				t.Errorf("wait %d is %v, want %v and up to a half more", i, w, least)
			}
		}
	})
}

func TestOfAnAccountTheRequestThatHasWaitedLongestGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		server := scripted(func(n int, r *http.Request) *http.Response {
			order = append(order, path.Base(r.URL.Path))
			if n == 1 {
				return answer(429, "Retry-After", "2.2", "X-RateLimit-Scope", "user", "X-RateLimit-Bucket", "b")
			}
			return answer(200)
		})
		c := newClient(t, server, client.Options{Dialect: client.Discord, Account: limits.PerSecond(1)})
		var wg sync.WaitGroup
		for _, channel := range []string{"denied", "1", "2", "gone", "3", "4", "5"} {
			wg.Go(func() {
				r := request(t, "GET", "http://a/channels/"+channel, nil)
				if channel == "gone" {
					ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
					defer cancel()
					r = r.WithContext(ctx)
				}
				if _, err := do(c, r); (err != nil) != (channel == "gone") {
					t.Errorf("%s: %v", channel, err)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		// Ready again after 2.2 s, when 3 has waited for less.
		want := []string{"denied", "1", "2", "denied", "3", "4", "5"}
		if !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}
