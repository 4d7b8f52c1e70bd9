package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/limits"
)

func request(t testing.TB, method, url string, body io.Reader, fields ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// always answers every request alike.
func always(status int, fields ...string) answers {
	return func(int, *http.Request) *http.Response { return answer(status, fields...) }
}

// once denies the first request, and allows all others.
func once(fields ...string) answers {
	return func(n int, _ *http.Request) *http.Response {
		if n == 1 {
			return answer(429, fields...)
		}
		return answer(200)
	}
}

func wantWaitError(t *testing.T, err error, least time.Duration, source string) {
	t.Helper()
	var e *client.WaitError
	if !errors.As(err, &e) || e.Wait < least || e.Source != source {
		t.Errorf("error %#v, want a WaitError of %v by %s", err, least, source)
	}
}

func TestAnAnswerWhoseWaitIsTooLongGoesBackUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(int, *http.Request) *http.Response {
			a := answer(429, "Retry-After", "86400")
			a.Body = io.NopCloser(strings.NewReader("come back tomorrow"))
			return a
		})
		c := newClient(t, server, client.Options{})
		response, err := c.RoundTrip(request(t, "GET", "http://a/", nil))
		if err != nil || response.StatusCode != 429 {
			t.Fatalf("%v, %v, want the 429", response, err)
		}
		if body, err := io.ReadAll(response.Body); string(body) != "come back tomorrow" || err != nil {
			t.Errorf("body %q, %v", body, err)
		}
		// The next one is not sent.
		_, err = get(c, "http://a/")
		wantWaitError(t, err, 23*time.Hour, "Retry-After")
		if server.count() != 1 || time.Since(server.began) != 0 {
			t.Errorf("%d requests in %v, want 1 at once", server.count(), time.Since(server.began))
		}
	})
}

func TestAWaitErrorIsFoundThroughAClientAndShowsNoCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(429, "Retry-After", "3600"))
		c := &http.Client{Transport: newClient(t, server, client.Options{})}
		r := request(t, "GET", "http://a/", nil, "Authorization", "Bearer hunter2")
		if response, err := c.Do(r); err != nil || response.StatusCode != 429 {
			t.Fatal(response, err)
		}
		_, err := c.Do(r)
		var ue *url.Error
		if !errors.As(err, &ue) {
			t.Errorf("error %T, want a *url.Error", err)
		}
		wantWaitError(t, err, time.Hour-time.Second, "Retry-After")
		if s := fmt.Sprintf("%v %+v", err, errors.Unwrap(err)); strings.Contains(s, "hunter2") ||
			strings.Contains(err.Error(), "Bearer") {
			t.Errorf("error shows the credential: %s", s)
		}
	})
}

func TestAContextThatEndsBeforeTheWaitIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(429, "Retry-After", "20"))
		c := newClient(t, server, client.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if response, err := get2(c, ctx); err != nil || response.StatusCode != 429 {
			t.Errorf("%v, %v, want the 429 at once", response, err)
		}
		_, err := get2(c, ctx)
		wantWaitError(t, err, 19*time.Second, "Retry-After")
		if elapsed := time.Since(server.began); elapsed != 0 {
			t.Errorf("waited %v", elapsed)
		}
	})
}

func TestAWaitErrorSaysWhatItsWaitIsLongerThan(t *testing.T) {
	for name, tt := range map[string]struct {
		maxWait, context time.Duration
		bound, text      string
	}{
		"MaxWait":                 {5 * time.Second, 0, "MaxWait", "longer than what is left of MaxWait"},
		"MaxWait, the sooner":     {5 * time.Second, 10 * time.Second, "MaxWait", "longer than what is left of MaxWait"},
		"the context":             {time.Minute, 10 * time.Second, "context", "longer than the context allows"},
		"the context, the sooner": {10 * time.Second, 5 * time.Second, "context", "longer than the context allows"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				c := newClient(t, scripted(always(429, "Retry-After", "20")),
					client.Options{MaxWait: tt.maxWait, Observe: func(e client.Event) {
						if e.Kind == client.GaveUp {
							told = append(told, e.Why)
						}
					}})
				ctx := t.Context()
				if tt.context > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.context)
					defer cancel()
				}
				if response, err := get2(c, ctx); err != nil || response.StatusCode != 429 {
					t.Fatalf("%v, %v, want the 429", response, err)
				}
				_, err := get2(c, ctx) // is held back
				var e *client.WaitError
				if !errors.As(err, &e) || e.Bound != tt.bound || !strings.HasSuffix(e.Error(), tt.text) {
					t.Errorf("%v, want a WaitError by %s", err, tt.bound)
				}
				if want := "the wait is " + tt.text; len(told) != 2 || told[0] != want || told[1] != want {
					t.Errorf("Observe is told %q, want %q twice", told, want)
				}
			})
		})
	}
}

func get2(c http.RoundTripper, ctx context.Context) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://a/", nil)
	if err != nil {
		return nil, err
	}
	return do(c, r)
}

func TestACancelledContextEndsEveryWait(t *testing.T) {
	cause := errors.New("the user went home")
	for name, f := range map[string]answers{
		"after a denial": always(429, "Retry-After", "20"),
		"for a renewal":  always(200, "RateLimit", `"a";r=0;t=20`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(f)
				c := newClient(t, server, client.Options{})
				ctx, cancel := context.WithCancelCause(t.Context())
				errs := make(chan error)
				for range 10 {
					go func() {
						for {
							if _, err := get2(c, ctx); err != nil {
								errs <- err
								return
							}
						}
					}()
				}
				time.Sleep(5 * time.Second)
				cancel(cause)
				for range 10 {
					if err := <-errs; !errors.Is(err, cause) {
						t.Errorf("error %v, want %v", err, cause)
					}
				}
				if elapsed := time.Since(server.began); elapsed != 5*time.Second {
					t.Errorf("the waits ended after %v, want 5s", elapsed)
				}
			})
		})
	}
}

func TestABodyIsSentAgainInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(once("Retry-After", "1"))
		r := request(t, "POST", "http://a/", strings.NewReader("hello"))
		response, err := do(newClient(t, server, client.Options{}), r)
		if err != nil || response.StatusCode != 200 || !slices.Equal(server.bodies, []string{"hello", "hello"}) {
			t.Errorf("%v, %v, bodies %q", response, err, server.bodies)
		}
	})
}

func TestABodyThatCannotBeRewoundIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(once("Retry-After", "1"))
		why := ""
		c := newClient(t, server, client.Options{Observe: func(e client.Event) { why += e.Why }})
		r := request(t, "POST", "http://a/", io.NopCloser(strings.NewReader("hello")))
		response, err := do(c, r)
		if err != nil || response.StatusCode != 429 || server.count() != 1 {
			t.Errorf("%v, %v after %d requests, want 429 after 1", response, err, server.count())
		}
		if !strings.Contains(why, "GetBody") {
			t.Errorf("why: %q, want it to name GetBody", why)
		}
	})
}

func TestAGetBodyThatFailsIsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(once("Retry-After", "1"))
		c := newClient(t, server, client.Options{MaxInFlight: 1})
		r := request(t, "POST", "http://a/", strings.NewReader("hello"))
		broken := errors.New("disk on fire")
		r.GetBody = func() (io.ReadCloser, error) { return nil, broken }
		if _, err := do(c, r); !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
		if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 200 {
			t.Errorf("next: %v, %v", response, err)
		}
	})
}

type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

func TestTheBodyOfARequestThatIsNotSentIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, scripted(always(429, "Retry-After", "3600")), client.Options{})
		get(c, "http://a/")
		body := &closer{Reader: strings.NewReader("x")}
		if _, err := c.RoundTrip(request(t, "POST", "http://a/", body)); err == nil || !body.closed {
			t.Errorf("error %v, closed %v", err, body.closed)
		}
	})
}

func TestA503IsRepeatedOnlyIfItHasARetryAfterAndNoHarmIsDone(t *testing.T) {
	for _, test := range []struct {
		method, key, retry string
		sent               int
	}{
		{"GET", "", "1", 2}, {"HEAD", "", "1", 2}, {"OPTIONS", "", "1", 2}, {"TRACE", "", "1", 2},
		{"POST", "", "1", 1}, {"PUT", "", "1", 1}, {"DELETE", "", "1", 1},
		{"POST", "Idempotency-Key", "1", 2}, {"PATCH", "X-Idempotency-Key", "1", 2},
		{"GET", "", "", 1}, {"GET", "", "soon", 1},
	} {
		t.Run(test.method+" "+test.key+" "+test.retry, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(n int, _ *http.Request) *http.Response {
					if n > 1 {
						return answer(200)
					}
					return answer(503, "Retry-After", test.retry)
				})
				r := request(t, test.method, "http://a/", nil)
				if test.key != "" {
					r.Header.Set(test.key, "k")
				}
				if _, err := do(newClient(t, server, client.Options{}), r); err != nil || server.count() != test.sent {
					t.Errorf("%d requests, %v, want %d", server.count(), err, test.sent)
				}
			})
		})
	}
}

func TestOtherAnswersAndErrorsAreLeftAlone(t *testing.T) {
	for _, status := range []int{301, 400, 401, 403, 404, 408, 500, 502, 504} {
		synctest.Test(t, func(t *testing.T) {
			server := scripted(always(status, "Retry-After", "1"))
			if response, err := get(newClient(t, server, client.Options{}), "http://a/"); err != nil ||
				response.StatusCode != status || server.count() != 1 {
				t.Errorf("%d: %v, %v after %d requests", status, response, err, server.count())
			}
		})
	}
	refused := errors.New("refused")
	c := newClient(t, failing{refused}, client.Options{})
	for range 3 {
		if _, err := get(c, "http://a/"); !errors.Is(err, refused) {
			t.Errorf("error %v, want %v", err, refused)
		}
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestRetriesKeepToTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Every request is denied, and asks for the shortest wait.
		server := scripted(always(429, "Retry-After", "0.001"))
		c := newClient(t, server, client.Options{Attempts: 100, MaxWait: time.Hour})
		const requests = 50
		for range requests {
			if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 429 {
				t.Fatal(response, err)
			}
		}
		if sent, most := server.count(), requests+requests/10+10; sent > most ||
			time.Since(server.began) > time.Minute {
			t.Errorf("%d requests in %v, want %d at most", sent, time.Since(server.began), most)
		}
	})
}

func TestAnUnknownBucketWaitsASecondForItsFirstAnswer(t *testing.T) {
	for _, delay := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(n int, _ *http.Request) *http.Response {
					time.Sleep(delay)
					return answer(200)
				})
				c := newClient(t, server, client.Options{})
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() { get(c, "http://a/") })
				}
				wg.Wait()
				for i, at := range server.at {
					if want := min(delay, time.Second); i > 0 && at != want {
						t.Errorf("request %d was sent at %v, want %v", i, at, want)
					}
				}
			})
		})
	}
}

func TestAThousandRequestsThatWaitForOneResetArrivePaced(t *testing.T) {
	for name, fields := range map[string][]string{
		"with fields":    {"RateLimit", `"a";r=2000;t=10`, "RateLimit-Policy", `"a";q=2000;w=10`},
		"without fields": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(n int, _ *http.Request) *http.Response {
					if n == 1 {
						return answer(429, "Retry-After", "10")
					}
					return answer(200, fields...)
				})
				c := newClient(t, server, client.Options{MaxWait: time.Minute})
				var wg sync.WaitGroup
				for range 1000 {
					wg.Go(func() {
						if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 200 {
							t.Error(response, err)
						}
					})
				}
				wg.Wait()
				most := 0
				for i := range server.at {
					n := 0
					for _, at := range server.at[i:] {
						if at-server.at[i] >= time.Second {
							break
						}
						n++
					}
					most = max(most, n)
				}
				if len(server.at) != 1001 || server.at[1] < 10*time.Second || most > 250 {
					t.Errorf("%d requests, the second at %v, up to %d within a second, want 250 at most",
						len(server.at), server.at[1], most)
				}
			})
		})
	}
}

// The server decides the first of four requests last. Its answer alone knows when more is left.
func TestAnOvertakenAnswerWithNothingLeftCounts(t *testing.T) {
	for before := range 4 { // so many of the other answers arrive before it
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				server := scripted(func(n int, _ *http.Request) *http.Response {
					arrive := func(at time.Duration, fields string) *http.Response {
						time.Sleep(time.Until(begun.Add(at)))
						return answer(200, "RateLimit", fields)
					}
					switch n {
					case 2:
						return arrive(time.Duration(10+before)*time.Second-time.Millisecond, `"a";r=0;t=57`)
					case 3, 4, 5:
						return arrive(time.Duration(7+n)*time.Second, fmt.Sprintf(`"a";r=%d;t=1`, 6-n))
					}
					return answer(200, "RateLimit", `"a";r=4;t=1`)
				})
				c := newClient(t, server, client.Options{MaxWait: time.Hour})
				get(c, "http://a/")
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() { get(c, "http://a/") })
					time.Sleep(time.Second)
				}
				wg.Wait()
				get(c, "http://a/")
				if at, least := server.at[5], 57*time.Second; at < least {
					t.Errorf("requests at %v, want the last at %v or later", server.at, least)
				}
			})
		})
	}
}

// t of RateLimit spreads what is left. It does not say that more comes then: a sliding window that
// was used up in its first seconds renews nothing for the rest of the minute. The answer to the last
// unit tells that.
func TestNothingStartsBeforeTheAnswerToTheLastUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, _ *http.Request) *http.Response {
			switch n {
			case 1:
				return answer(200, "RateLimit", `"a";r=1;t=1`)
			case 2:
				time.Sleep(800 * time.Millisecond)
				return answer(200, "RateLimit", `"a";r=0;t=53`)
			}
			return answer(200, "RateLimit", `"a";r=200;t=50`)
		})
		c := newClient(t, server, client.Options{MaxWait: time.Hour})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { get(c, "http://a/") })
		}
		wg.Wait()
		const last = 500 * time.Millisecond // half of the second for the one that is left
		if at := server.at; len(at) != 3 || at[1] != last || at[2] != last+800*time.Millisecond+53*time.Second {
			t.Errorf("sent at %v", at)
		}
	})
}

func TestMaxInFlightCountsUntilTheBodyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(int, *http.Request) *http.Response {
			a := answer(200)
			a.Body = io.NopCloser(strings.NewReader("hello"))
			return a
		})
		c := newClient(t, server, client.Options{MaxInFlight: 2, MaxWait: 5 * time.Second})
		var open []*http.Response
		for range 2 {
			response, err := c.RoundTrip(request(t, "GET", "http://a/", nil))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, response)
		}
		_, err := get(c, "http://a/")
		wantWaitError(t, err, 0, "in flight")
		io.ReadAll(open[0].Body)
		if _, err := get(c, "http://a/"); err != nil {
			t.Errorf("one body was read, and the next request failed: %v", err)
		}
		open[0].Body.Close() // a second end does not count
		if response, err := c.RoundTrip(request(t, "GET", "http://a/", nil)); err != nil {
			t.Error(err)
		} else {
			open = append(open, response)
		}
		_, err = get(c, "http://a/")
		wantWaitError(t, err, 0, "in flight")
		open[1].Body.Close()
		if _, err := get(c, "http://a/"); err != nil {
			t.Errorf("one body was closed, and the next request failed: %v", err)
		}
	})
}

func TestWhoeverWaitsForMaxInFlightGoesWhenABodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(int, *http.Request) *http.Response {
			a := answer(200)
			a.Body = io.NopCloser(strings.NewReader("hello"))
			return a
		})
		c := newClient(t, server, client.Options{MaxInFlight: 1})
		response, err := c.RoundTrip(request(t, "GET", "http://a/", nil))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := get(c, "http://a/"); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(3 * time.Second)
		response.Body.Close()
		wg.Wait()
		if elapsed := time.Since(server.began); elapsed != 3*time.Second || server.count() != 6 {
			t.Errorf("%d requests in %v, want 6 in 3s", server.count(), elapsed)
		}
	})
}

func TestBucketsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(_ int, r *http.Request) *http.Response {
			if r.URL.Host == "limited" && r.Header.Get("Authorization") == "a" {
				return answer(429, "Retry-After", "3600")
			}
			return answer(200)
		})
		c := newClient(t, server, client.Options{})
		first := request(t, "GET", "http://limited/", nil, "Authorization", "a")
		do(c, first)
		for _, test := range []struct {
			url, credential string
			held            bool
		}{
			{"http://limited/other", "a", true}, {"http://LIMITED:80/", "a", true},
			{"http://limited/", "b", false}, {"http://limited/", "", false},
			{"https://limited/", "c", false}, {"http://limited:81/", "c", false},
			{"http://other/", "a", false},
		} {
			r := request(t, "GET", test.url, nil)
			if test.credential != "" {
				r.Header.Set("Authorization", test.credential)
			}
			if _, err := do(c, r); (err != nil) != test.held {
				t.Errorf("%s as %q: error %v, want held %v", test.url, test.credential, err, test.held)
			}
		}
	})
}

func TestARedirectToAnotherOriginIsCountedThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(_ int, r *http.Request) *http.Response {
			switch {
			case r.URL.Host == "a":
				return answer(302, "Location", "http://b/", "RateLimit", `"a";r=9;t=60`)
			default:
				return answer(429, "Retry-After", "3600")
			}
		})
		c := &http.Client{Transport: newClient(t, server, client.Options{})}
		if response, err := c.Get("http://a/"); err != nil || response.StatusCode != 429 {
			t.Fatal(response, err)
		}
		if _, err := c.Get("http://b/"); err == nil {
			t.Error("b was asked again")
		}
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if response, err := c.Get("http://a/"); err != nil || response.StatusCode != 302 {
			t.Errorf("a is held back for b's denial: %v, %v", response, err)
		}
	})
}

func TestOptionsThatAreIllegalAreReportedTogether(t *testing.T) {
	_, err := client.New(client.Options{Limit: illegal, MaxInFlight: -1, MaxWait: -1, Attempts: -1,
		Pace: 9, Dialect: 9})
	for _, field := range []string{"limit", "max in flight", "max wait", "attempts", "pace", "dialect"} {
		if !strings.Contains(fmt.Sprint(err), "client: "+field+": ") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	_, err = client.New(client.Options{Limit: limits.Concurrent(1), Backend: down{}})
	if !strings.Contains(fmt.Sprint(err), "client: backend: ") {
		t.Errorf("%v does not name the backend, which cannot end requests", err)
	}
}

func TestAccountsAndDenialsThatAreIllegal(t *testing.T) {
	for want, o := range map[string]client.Options{
		"only GitHub and Discord have accounts": {Dialect: client.OpenAI, Account: limits.PerSecond(5)},
		"only OpenAI and Anthropic count tokens": {Dialect: client.GitHub,
			Tokens: func(*http.Request) (input, output int64) { return 1, 1 }},
		"must be 1 to 10000 units":           {Dialect: client.Discord, Account: limits.PerSecond(10_001)},
		"in a positive period (got 5 in 0s)": {Dialect: client.GitHub, Account: limits.Rate{Units: 5}},
		"(got 200)":                          {Denials: []int{503, 200}},
		"429, which always denies":           {Denials: []int{429}},
	} {
		if _, err := client.New(o); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
