package client_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// poll sends a request every so often for some time. It returns how many were answered, and how
// many failed with a WaitError.
func poll(t *testing.T, c http.RoundTripper, every, over time.Duration) (answered, failed int) {
	t.Helper()
	for end := time.Now().Add(over); time.Now().Before(end); time.Sleep(every) {
		_, err := get(c, "http://a/")
		if held := new(client.WaitError); errors.As(err, &held) {
			failed++
		} else if err != nil {
			t.Fatal(err)
		} else {
			answered++
		}
	}
	return answered, failed
}

func xRateLimit(limit, left int, reset string) []string {
	return []string{"X-RateLimit-Limit", fmt.Sprint(limit), "X-RateLimit-Remaining", fmt.Sprint(left),
		"X-RateLimit-Reset", reset}
}

// longestGap returns the longest time in which nothing was sent.
func (s *script) longestGap() (longest time.Duration) {
	for i := range s.at[1:] {
		longest = max(longest, s.at[i+1]-s.at[i])
	}
	return longest
}

// Servers that allow everything, and tell nonsense.
func TestAToldWaitWithoutADenialIsDoubtedAfterMaxWait(t *testing.T) {
	for name, fields := range map[string]func(n int) []string{
		"nothing left": func(int) []string { return []string{"RateLimit", `"a";r=0;t=86400`} },
		"nothing left, by older fields": func(int) []string {
			return xRateLimit(10, 0, "86400")
		},
		"nothing left in milliseconds": func(int) []string {
			return []string{"RateLimit-Limit", "10", "RateLimit-Remaining", "0", "RateLimit-Reset", "60000"}
		},
		"little left": func(int) []string {
			return []string{"RateLimit", `"a";r=5;t=86400`, "RateLimit-Policy", `"a";q=100;w=60`}
		},
		"less and less left": func(n int) []string {
			return xRateLimit(2000, max(1000-n, 0), "2592000")
		},
		"something left after the one that is let through": func(n int) []string {
			return []string{"RateLimit", fmt.Sprintf(`"a";r=%d;t=86400`, (50-n%50)%50), "RateLimit-Policy",
				`"a";q=50;w=60`}
		},
	} {
		for _, maxWait := range []time.Duration{time.Millisecond, 10 * time.Second} {
			t.Run(fmt.Sprintf("%s, %v", name, maxWait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := scripted(func(n int, _ *http.Request) *http.Response {
						return answer(200, fields(n)...)
					})
					c := newClient(t, server, client.Options{MaxWait: maxWait})
					const every = 250 * time.Millisecond
					answered, failed := poll(t, c, every, 20*time.Minute)
					wait := max(maxWait, time.Second) // for which nothing is sent
					if most := int(wait / every); failed == 0 || failed > most {
						t.Errorf("%d requests failed and %d did not, want some to, and %d at most", failed, answered,
							most)
					}
					if gap := server.longestGap(); gap > wait+2*every {
						t.Errorf("nothing was sent for %v, want %v at most", gap, wait)
					}
				})
			})
		}
	}
}

// The server tells again and again that nothing is left, and allows everything.
func TestARefutedClaimHoldsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(200, "RateLimit", `"a";r=0;t=86400`))
		c := newClient(t, server, client.Options{MaxWait: 10 * time.Second})
		get(c, "http://a/")
		time.Sleep(10 * time.Second)
		start := time.Now()
		for range 20 {
			if _, err := get(c, "http://a/"); err != nil || time.Since(start) > 0 {
				t.Fatalf("%v after %v, want no wait", err, time.Since(start))
			}
		}
	})
}

func TestOthersWaitForTheRequestThatTestsAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return answer(200, "RateLimit", `"a";r=0;t=86400`)
			}
			time.Sleep(5 * time.Second)
			return answer(200, "RateLimit", `"a";r=1000;t=86400`)
		})
		c := newClient(t, server, client.Options{MaxWait: 30 * time.Second})
		get(c, "http://a/")
		time.Sleep(30 * time.Second)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := get(c, "http://a/"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if at := server.at; at[1] != 30*time.Second || at[2] < 35*time.Second {
			t.Errorf("requests at %v, want the second at 30s, and the others after its answer", at)
		}
	})
}

// A server whose limit is that of an hour, and no longer than it says: of those that are let
// through to doubt that, one is denied.
func TestAClaimThatADenialHasProvenIsDoubtedNoMore(t *testing.T) {
	type fieldsOf = func(limit, left int, period, reset time.Duration, now time.Time) []string
	for name, fields := range map[string]fieldsOf{"RateLimit": draft8, "X-RateLimit": epoch} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(began))
				server := &network{server: fixed{limit: 10, period: time.Hour, fields: fields}.new()}
				c := newClient(t, server, client.Options{})
				answered, _ := poll(t, c, 5*time.Second, 5*time.Hour-time.Minute)
				if allowed := answered - server.denied; server.denied != 1 || allowed != 50 {
					t.Errorf("%d were denied and %d allowed, want 1 and 50", server.denied, allowed)
				}
			})
		})
	}
}

// A denial has proven a wait of a minute. Ten times as much is believed, and more is tested.
func TestAClaimOfTenTimesTheProvenWaitIsBelieved(t *testing.T) {
	for claim, tested := range map[int]bool{61: false, 600: false, 601: true, 6000: true} {
		t.Run(fmt.Sprint(claim), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(n int, _ *http.Request) *http.Response {
					switch n {
					case 1:
						return answer(200, "RateLimit", `"a";r=0;t=60`)
					case 2:
						return answer(429, "Retry-After", "50") // the minute is over then
					}
					return answer(200, "RateLimit", fmt.Sprintf(`"a";r=0;t=%d`, claim))
				})
				c := newClient(t, server, client.Options{MaxWait: 10 * time.Second})
				get(c, "http://a/")
				time.Sleep(10 * time.Second)
				get(c, "http://a/") // is let through, and denied
				time.Sleep(time.Minute)
				get(c, "http://a/") // is told the claim
				time.Sleep(20 * time.Second)
				_, err := get(c, "http://a/")
				if sent := server.count() == 4; sent != tested || (err == nil) != tested {
					t.Errorf("%d requests were sent, the last with error %v; want a test: %v", server.count(), err, tested)
				}
			})
		})
	}
}

// The fields tell milliseconds, which are read as seconds, and denials say how long the wait is.
// What they deny is not taken for a proof of 30 days.
func TestADenialProvesNoLongerWaitThanItAsksFor(t *testing.T) {
	milliseconds := func(limit, left int, _, reset time.Duration, _ time.Time) []string {
		return xRateLimit(limit, left, fmt.Sprint(reset.Milliseconds()))
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		server := &network{server: fixed{limit: 60, period: time.Hour, fields: milliseconds}.new()}
		c := newClient(t, server, client.Options{})
		answered, _ := poll(t, c, 5*time.Second, 5*time.Hour-time.Minute)
		if allowed := answered - server.denied; server.denied > 5 || allowed != 300 {
			t.Errorf("%d were denied and %d allowed, want 5 and 300", server.denied, allowed)
		}
	})
}

// All denials ask for ten seconds, whatever is left of the hour. After those of the first hour the
// fields are believed.
func TestDenialsThatAreRepeatedProveMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		used, window, denied, deniedLater := 0, 0, 0, 0
		server := scripted(func(int, *http.Request) *http.Response {
			since := time.Since(begun)
			if n := int(since / time.Hour); n != window {
				window, used = n, 0
			}
			fields := xRateLimit(60, max(59-used, 0), fmt.Sprint(ceil(time.Hour-since%time.Hour)))
			if used++; used <= 60 {
				return answer(200, fields...)
			}
			if denied++; window > 0 {
				deniedLater++
			}
			return answer(429, append(fields, "Retry-After", "10")...)
		})
		c := newClient(t, server, client.Options{})
		poll(t, c, 5*time.Second, 5*time.Hour)
		if denied == 0 || deniedLater > 0 {
			t.Errorf("%d were denied, and %d of them after the first hour", denied, deniedLater)
		}
	})
}

// The limit is renewed each minute, and all answers say that it will be in an hour. The client
// takes what is renewed for a refill, and follows that: about half of the limit is used.
func TestALimitThatIsRenewedEarlierThanToldIsUsed(t *testing.T) {
	hour := func(limit, left int, _, _ time.Duration, _ time.Time) []string {
		return xRateLimit(limit, left, "3600")
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		server := &network{server: fixed{limit: 60, period: time.Minute, fields: hour}.new()}
		c := newClient(t, server, client.Options{})
		answered, failed := poll(t, c, time.Second, 20*time.Minute)
		if server.denied > 0 || answered < 20*60*40/100 || failed > 30 {
			t.Errorf("%d were denied, %d answered, and %d failed", server.denied, answered, failed)
		}
	})
}

func TestADenialMakesClaimsBelievedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, _ *http.Request) *http.Response {
			if n == 3 {
				return answer(429, "Retry-After", "1")
			}
			return answer(200, "RateLimit", `"a";r=0;t=86400`)
		})
		c := newClient(t, server, client.Options{MaxWait: 10 * time.Second})
		get(c, "http://a/")
		time.Sleep(10 * time.Second)
		get(c, "http://a/") // is let through, and refutes that nothing is left
		get(c, "http://a/") // is denied, sent again after a second, and told that nothing is left
		begun := time.Now()
		_, err := get(c, "http://a/")
		wantWaitError(t, err, 23*time.Hour, "RateLimit")
		time.Sleep(10*time.Second - 1)
		_, err = get(c, "http://a/")
		wantWaitError(t, err, 23*time.Hour, "RateLimit")
		time.Sleep(time.Until(begun.Add(10 * time.Second)))
		if _, err := get(c, "http://a/"); err != nil || server.count() != 5 {
			t.Errorf("%v after %d requests, want the fifth to be let through", err, server.count())
		}
	})
}

// The end is always an hour away: nothing is spread until then, though a tenth of the limit is
// left.
func TestAnEndThatMovesWithEachAnswerPacesNothing(t *testing.T) {
	for name, told := range map[string]func(since time.Duration) string{
		"the length of a period": func(time.Duration) string { return "3600" },
		"milliseconds to go": func(since time.Duration) string {
			return fmt.Sprint((time.Hour - since).Milliseconds())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, left := time.Now(), 6000
				server := scripted(func(int, *http.Request) *http.Response {
					left--
					return answer(200, xRateLimit(6000, left, told(time.Since(begun)))...)
				})
				c := newClient(t, server, client.Options{})
				for range 5999 {
					before := time.Now()
					if _, err := get(c, "http://a/"); err != nil || time.Since(before) > 0 {
						t.Fatalf("with %d left, a request was held back for %v: %v", left, time.Since(before), err)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		})
	}
}

func TestEvenlySpreadsThoughItsGapsAreLongerThanMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		server := &network{server: fixed{limit: 20, period: time.Hour, fields: draft8}.new()}
		c := newClient(t, server, client.Options{Pace: client.Evenly})
		answered, failed := poll(t, c, time.Second, 2*time.Minute)
		// The first at once, the second after 30 seconds, and the others each 15 seconds.
		if answered != 8 || failed != 29 {
			t.Errorf("%d answered, and %d failed", answered, failed)
		}
	})
}

// An end that stays where it is, and that of a bucket, which is later by what was used, are ends.
func TestAnEndThatDoesNotMovePaces(t *testing.T) {
	for name, told := range map[string]func(left int, since time.Duration) time.Duration{
		"a window": func(_ int, since time.Duration) time.Duration { return time.Hour - since },
		"a bucket": func(left int, _ time.Duration) time.Duration {
			return time.Duration(600-left) * 6 * time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, left := time.Now(), 600
				server := scripted(func(int, *http.Request) *http.Response {
					left--
					return answer(200, xRateLimit(600, left, fmt.Sprint(ceil(told(left, time.Since(begun)))))...)
				})
				c := newClient(t, server, client.Options{})
				for range 540 {
					get(c, "http://a/")
					time.Sleep(10 * time.Millisecond)
				}
				before := time.Now()
				get(c, "http://a/")
				var held *client.WaitError
				if _, err := get(c, "http://a/"); time.Since(before) < 10*time.Second && !errors.As(err, &held) {
					t.Errorf("with %d left for %v two requests took %v", left, told(left, time.Since(begun)),
						time.Since(before))
				}
			})
		})
	}
}

// A wait of up to twice MaxWait is waited out: the requests of its second half may wait for it.
func TestAWaitOfTwiceMaxWaitIsNotDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(200, "RateLimit", `"a";r=0;t=59`))
		c := newClient(t, server, client.Options{MaxWait: 30 * time.Second})
		poll(t, c, time.Second, 10*time.Minute)
		if gap := server.longestGap(); gap != 59*time.Second {
			t.Errorf("nothing was sent for %v, want 59s", gap)
		}
	})
}

func TestTheLongestMaxWaitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(200, "RateLimit", `"a";r=0;t=5`))
		c := newClient(t, server, client.Options{MaxWait: math.MaxInt64})
		for range 3 {
			time.Sleep(time.Second)
			if _, err := get(c, "http://a/"); err != nil {
				t.Error(err)
			}
		}
	})
}
