package client_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// lies are header fields of servers that mean harm or know no better.
var lies = [][]string{
	nil,
	{"Retry-After", "0"},
	{"Retry-After", "-5"},
	{"Retry-After", "1.5"},
	{"Retry-After", "NaN"},
	{"Retry-After", "9223372036854775807"},
	{"Retry-After", "86400"},
	{"Retry-After", "Thu, 01 Jan 1970 00:00:00 GMT"},
	{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT", "Date", "Thu, 01 Jan 1970 00:00:00 GMT"},
	{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1"},
	{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1000000000"},
	{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9223372036854775807"},
	{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1000000000", "Date", "Fri, 31 Dec 9999 23:59:59 GMT"},
	{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "4000000000", "Date", "Thu, 01 Jan 1970 00:00:00 GMT"},
	{"X-RateLimit-Remaining", "99999999999999999999", "X-RateLimit-Reset", "0", "X-RateLimit-Limit", "0"},
	{"RateLimit", `"a";r=0;t=0`},
	{"RateLimit", `"a";r=999999999999999;t=999999999999999`, "RateLimit-Policy", `"a";q=0;w=1`},
	{"RateLimit", `"a";r=1;t=999999999999999`},
	{"RateLimit", `limit=0, remaining=0, reset=0`},
	{"RateLimit-Remaining", "0", "RateLimit-Reset", "0"},
	{"X-RateLimit-Global", "true", "Retry-After", "0", "X-RateLimit-Bucket", strings.Repeat("b", 1<<20)},
	{"X-RateLimit-Bucket", "\x00", "X-RateLimit-Scope", "shared", "Retry-After", "1"},
	{"X-RateLimit-Resource", "\x00", "Retry-After", "1"},
}

func TestNoServerMakesTheClientSendMoreOrWaitLongerThanAllowed(t *testing.T) {
	const maxWait, attempts = 10 * time.Second, 4
	for i, fields := range lies {
		for _, status := range []int{200, 403, 429, 503} {
			for dialect := client.Standard; dialect <= client.Discord; dialect++ {
				t.Run(fmt.Sprint(i, status, dialect), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						server := scripted(always(status, fields...))
						c := newClient(t, server, client.Options{MaxWait: maxWait, Attempts: attempts,
							Dialect: dialect})
						sent := 0
						for range 8 {
							before, start := server.count(), time.Now()
							_, err := get(c, "http://a/x")
							if n := server.count() - before; n > attempts {
								t.Errorf("sent %d times", n)
							}
							if waited := time.Since(start); waited > maxWait {
								t.Errorf("waited %v", waited)
							}
							if err == nil {
								sent++
							}
						}
						if n := server.count(); n > sent+10+8*attempts/10 {
							t.Errorf("%d requests for %d", n, sent)
						}
						if sent == 0 {
							t.Error("nothing was sent")
						}
						// A month later all is forgotten.
						time.Sleep(31 * 24 * time.Hour)
						before := server.count()
						if _, err := get(c, "http://a/x"); err != nil && server.count() == before {
							t.Errorf("blocked for ever: %v", err)
						}
					})
				})
			}
		}
	}
}

// A server that changes its mind with every answer, and requests that give up and go: no
// request is lost in a queue, and nothing is left behind.
func TestEveryRequestEndsWhateverServersSay(t *testing.T) {
	const rounds = 20
	seed := testrun.Seed(t)
	for dialect := client.Standard; dialect <= client.Discord; dialect++ {
		for round := range uint64(rounds) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(dialect)*rounds+round))
				var mu sync.Mutex
				server := scripted(func(int, *http.Request) *http.Response {
					mu.Lock()
					status := []int{200, 200, 200, 200, 403, 429, 503}[random.IntN(7)]
					fields := lies[random.IntN(len(lies))]
					if random.IntN(3) == 0 {
						fields = []string{"RateLimit", fmt.Sprintf(`"a";r=%d;t=%d`, random.IntN(20), random.IntN(9)),
							"X-RateLimit-Bucket", fmt.Sprint(random.IntN(3)), "X-RateLimit-Resource",
							fmt.Sprint(random.IntN(3))}
					}
					delay := time.Duration(random.IntN(3000)) * time.Millisecond
					mu.Unlock()
					time.Sleep(delay)
					return answer(status, fields...)
				})
				c := newClient(t, server, client.Options{MaxWait: 20 * time.Second, Dialect: dialect, MaxInFlight: 5})
				var wg sync.WaitGroup
				for i := range 50 {
					wg.Go(func() {
						for range 4 {
							start := time.Now()
							get(c, fmt.Sprintf("http://a/api/channels/%d/messages/%d", i%3, i))
							if d := time.Since(start); d > 20*time.Second+3*3*time.Second {
								t.Errorf("dialect %d, round %d: a request took %v", dialect, round, d)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := 0
		server := scripted(func(n int, _ *http.Request) *http.Response {
			names++
			return answer(429, "Retry-After", fmt.Sprint(600+n), "X-RateLimit-Bucket", fmt.Sprint(names))
		})
		for _, dialect := range []client.Dialect{client.Standard, client.Discord} {
			c := newClient(t, server, client.Options{Dialect: dialect})
			for i := range 5000 {
				get(c, fmt.Sprintf("http://host-%d/path-%d", i, i))
			}
			if buckets, names := c.Buckets(); buckets > 1024 || names > 1024 {
				t.Errorf("%d buckets and %d names are kept, want 1024 at most", buckets, names)
			}
		}
	})
}

func TestTheBucketThatIsFreeFirstIsForgottenFirst(t *testing.T) {
	for name, limited := range map[string]*http.Response{
		"denied": answer(429, "Retry-After", "7200"),
		"no requests left": answer(200, "x-ratelimit-limit-requests", "10",
			"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "2h0m0s"),
		"no tokens left": answer(200, "x-ratelimit-limit-tokens", "1000",
			"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "2h0m0s"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(_ int, r *http.Request) *http.Response {
					if r.URL.Host == "limited" {
						return limited
					}
					return answer(429, "Retry-After", "3600")
				})
				c := newClient(t, server, client.Options{Dialect: client.OpenAI})
				get(c, "http://limited/")
				for i := range 3000 {
					get(c, fmt.Sprintf("http://host-%d/", i))
				}
				before := server.count()
				if _, err := get(c, "http://limited/"); err == nil || server.count() != before {
					t.Error("it was forgotten before those that end earlier")
				}
			})
		})
	}
}

// Its hosts are all of one owner, who names them for ever and denies for longer than others.
func TestAWildcardDomainDisplacesNoDenialOfAnotherSite(t *testing.T) {
	for name, host := range map[string]func(i int) string{
		"names":          func(i int) string { return fmt.Sprintf("host-%d.evil.example", i) },
		"names of names": func(i int) string { return fmt.Sprintf("a.host-%d.evil.example:8080", i) },
		"ports":          func(i int) string { return fmt.Sprintf("evil.example:%d", 1000+i) },
		"IPv6":           func(i int) string { return fmt.Sprintf("[2001:db8::%x]", i) },
		"IPv6 ports":     func(i int) string { return fmt.Sprintf("[2001:db8::1]:%d", 1000+i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(_ int, r *http.Request) *http.Response {
					if r.URL.Host == "honest.example" {
						return answer(429, "Retry-After", "3600")
					}
					return answer(429, "Retry-After", "86400")
				})
				c := newClient(t, server, client.Options{})
				get(c, "http://honest.example/")
				for i := range 1100 {
					get(c, "http://"+host(i)+"/")
				}
				before := server.count()
				_, err := get(c, "http://honest.example/")
				if wantWaitError(t, err, 59*time.Minute, "Retry-After"); server.count() != before {
					t.Error("the denial of another site was forgotten")
				}
				if buckets, _ := c.Buckets(); buckets > 1024 {
					t.Errorf("%d buckets are kept, want 1024 at most", buckets)
				}
			})
		})
	}
}

// slow is a body that never ends.
type slow struct{ closed chan struct{} }

func (s slow) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrUnexpectedEOF }
func (s slow) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// endless is a body that ends never, and sends fast.
type endless struct{ read *int }

func (e endless) Read(p []byte) (int, error) { *e.read += len(p); return len(p), nil }
func (e endless) Close() error               { return nil }

func TestTheBodyOfADenialDoesNotHoldTheNextAttemptUp(t *testing.T) {
	read := 0
	for name, body := range map[string]io.ReadCloser{"slow": slow{make(chan struct{})},
		"endless": endless{&read}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if name == "slow" {
					body = slow{make(chan struct{})} // made in the bubble
				}
				server := scripted(func(n int, _ *http.Request) *http.Response {
					if n > 1 {
						return answer(200)
					}
					a := answer(429, "Retry-After", "1")
					a.Body = body
					return a
				})
				if response, err := get(newClient(t, server, client.Options{}), "http://a/"); err != nil ||
					response.StatusCode != 200 {
					t.Fatal(response, err)
				}
				if elapsed := time.Since(server.began); elapsed > 2*time.Second || read > 128<<10 {
					t.Errorf("took %v and read %d bytes", elapsed, read)
				}
			})
		})
	}
}

func TestCachedAnswersSayNothing(t *testing.T) {
	for _, field := range []string{"Age", "X-From-Cache"} {
		synctest.Test(t, func(t *testing.T) {
			server := scripted(always(200, "RateLimit", `"a";r=0;t=3600`, field, "1"))
			c := newClient(t, server, client.Options{})
			for range 3 {
				if _, err := get(c, "http://a/"); err != nil {
					t.Errorf("%s: %v", field, err)
				}
			}
		})
	}
}

func TestFieldsOfManyLinesCostLittle(t *testing.T) {
	for _, field := range []string{"Retry-After", "X-Retry-After", "Ratelimit-Reset", "X-Ratelimit-Reset"} {
		for _, line := range []string{"x", "2x", "Mon Jan 02 2006 15:04:0", "5,5,5,5,5,5"} {
			h := http.Header{"Ratelimit-Remaining": {"5"}, "X-Ratelimit-Remaining": {"5"}}
			h[field] = slices.Repeat([]string{line}, 10<<20/(len(field)+len(line)+4))
			c := newClient(t, canned(func(*http.Request) *http.Response {
				return &http.Response{StatusCode: 503, Header: h, Body: http.NoBody}
			}), client.Options{Attempts: 1})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			get(c, "http://a/")
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Errorf("%s of %q: %d bytes were allocated", field, line, n)
			}
		}
	}
}

// The clock of a server is set while a client is at work, forward, back, and by days.
func TestAServerThatSetsItsClockIsObeyedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		var w window
		offset, denied := time.Duration(0), 0
		server := scripted(func(n int, _ *http.Request) *http.Response {
			switch n {
			case 25:
				offset = time.Hour
			case 45:
				offset = -time.Hour
			case 65:
				offset = 48 * time.Hour
			}
			status := 200
			if !w.take(10, time.Minute) {
				status = 429
				denied++
			}
			return answer(status, "Date", time.Now().Add(offset).UTC().Format(http.TimeFormat),
				"X-RateLimit-Limit", "10",
				"X-RateLimit-Remaining", fmt.Sprint(10-w.used), "X-RateLimit-Reset",
				fmt.Sprint(w.ends.Add(offset).Unix()))
		})
		c := newClient(t, server, client.Options{MaxWait: 2 * time.Minute})
		for range 100 {
			if _, err := get(c, "http://a/"); err != nil {
				t.Fatal(err)
			}
		}
		// Ten windows, each of which may be taken to end a second or two late.
		if elapsed := time.Since(server.began); denied > 0 || elapsed > 10*time.Minute+20*time.Second {
			t.Errorf("%d were denied, and all took %v", denied, elapsed)
		}
	})
}

func TestAFieldOfTenMegabytesCostsNothing(t *testing.T) {
	for _, field := range []string{"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit",
		"Ratelimit-Remaining", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Date", "Retry-After"} {
		for _, part := range []string{"9", ",", "(", " ", `"a";r=1;t=1,`} {
			h := http.Header{"Ratelimit-Remaining": {"5"}, "X-Ratelimit-Remaining": {"5"},
				"X-Ratelimit-Reset": {"4000000000"}, "Date": {httpDate(0)}}
			h[field] = []string{strings.Repeat(part, 10<<20/len(part))}
			c := newClient(t, canned(func(*http.Request) *http.Response {
				return &http.Response{StatusCode: 503, Header: h, Body: http.NoBody}
			}), client.Options{Attempts: 1})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			get(c, "http://a/")
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Errorf("%s of %q: %d bytes were allocated", field, part, n)
			}
		}
	}
}
