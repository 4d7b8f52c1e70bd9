package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// The bubble's clock when the tests below begin.
var began = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func httpDate(d time.Duration) string { return began.Add(d).Format(http.TimeFormat) }

// What a denial says, and the wait that it asks for. Jitter adds a sixteenth at most, or a half
// to a backoff.
var waits = []struct {
	name, fields string // name: value, one a line
	wait         time.Duration
	source       string
}{
	{"seconds", "Retry-After: 7", 7 * time.Second, "Retry-After"},
	{"seconds with a fraction", "Retry-After: 1.5", 1500 * time.Millisecond, "Retry-After"},
	{"a date", "Date: " + httpDate(0) + "\nRetry-After: " + httpDate(time.Minute), 61 * time.Second, "Retry-After"},
	{"a date as of RFC 850", "Date: " + httpDate(0) + "\n" +
		"Retry-After: " + began.Add(time.Minute).Format("Monday, 02-Jan-06 15:04:05 GMT"),
		61 * time.Second, "Retry-After"},
	{"a date of asctime", "Date: " + httpDate(0) + "\n" +
		"Retry-After: " + began.Add(time.Minute).Format(time.ANSIC), 61 * time.Second, "Retry-After"},
	{"a date by a clock an hour fast", "Date: " + httpDate(time.Hour) + "\n" +
		"Retry-After: " + httpDate(time.Hour+time.Minute), 61 * time.Second, "Retry-After"},
	{"a date by a clock an hour slow", "Date: " + httpDate(-time.Hour) + "\n" +
		"Retry-After: " + httpDate(-time.Hour+time.Minute), 61 * time.Second, "Retry-After"},
	{"a date without a Date", "Retry-After: " + httpDate(time.Minute), 61 * time.Second, "Retry-After"},
	{"a date and a Date that is none", "Date: yesterday\nRetry-After: " + httpDate(time.Minute),
		61 * time.Second, "Retry-After"},

	{"Retry-After before all others", "Retry-After: 7\nRateLimit: \"a\";r=0;t=9\n" +
		"RateLimit-Remaining: 0\nRateLimit-Reset: 11\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 13",
		7 * time.Second, "Retry-After"},
	{"RateLimit before older drafts", "RateLimit: \"a\";r=0;t=9\nRateLimit-Remaining: 0\n" +
		"RateLimit-Reset: 11\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 13", 9 * time.Second,
		"RateLimit"},
	{"draft -06 before X-RateLimit", "RateLimit-Remaining: 0\nRateLimit-Reset: 11\n" +
		"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 13", 11 * time.Second, "RateLimit-Reset"},
	{"Reset-After before Reset", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 13\n" +
		"X-RateLimit-Reset-After: 2.5", 2500 * time.Millisecond, "X-RateLimit-Reset-After"},
	{"a reset in seconds to go", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 13", 13 * time.Second,
		"X-RateLimit-Reset"},
	{"a reset as an instant", "Date: " + httpDate(0) + "\nX-RateLimit-Remaining: 0\n" +
		"X-RateLimit-Reset: " + fmt.Sprint(began.Unix()+20), 21 * time.Second, "X-RateLimit-Reset"},
	{"a reset with decimals", "Date: " + httpDate(0) + "\nX-RateLimit-Remaining: 0\n" +
		"X-RateLimit-Reset: " + fmt.Sprint(began.Unix()+20) + ".25", 20250 * time.Millisecond,
		"X-RateLimit-Reset"},
	{"a reset in milliseconds", "Date: " + httpDate(0) + "\nX-RateLimit-Remaining: 0\n" +
		"X-RateLimit-Reset: " + fmt.Sprint(began.UnixMilli()+1250), 1250 * time.Millisecond,
		"X-RateLimit-Reset"},
	{"a reset by a clock an hour fast", "Date: " + httpDate(time.Hour) + "\n" +
		"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + fmt.Sprint(began.Unix()+3620), 21 * time.Second,
		"X-RateLimit-Reset"},

	{"several policies", `RateLimit: "day";r=3;t=900, "minute";r=0;t=9, "hour";r=0;t=60`, time.Minute, "RateLimit"},
	{"several lines", "RateLimit: \"day\";r=3;t=900\nRateLimit: \"minute\";r=0;t=9", 9 * time.Second, "RateLimit"},
	{"coming names of parameters", `RateLimit: "a";a=0;w=9`, 9 * time.Second, "RateLimit"},
	{"a token as name", `RateLimit: a;r=0;t=9`, 9 * time.Second, "RateLimit"},
	{"spaces and unknown parameters", `RateLimit: "a"; r=0; t=9; pk=:YWJj:; acme="x;r=5"`,
		9 * time.Second, "RateLimit"},
	{"draft -07", "RateLimit: limit=10, remaining=0, reset=9", 9 * time.Second, "RateLimit"},
	{"drafts -00 to -03", "RateLimit-Limit: 10, 10;w=60\nRateLimit-Remaining: 0\nRateLimit-Reset: 9",
		9 * time.Second, "RateLimit-Reset"},
	{"another unit",
		"RateLimit-Policy: \"bytes\";q=100;qu=\"content-bytes\";w=900, \"a\";q=5;qu=\"request\";w=60\n" +
			"RateLimit: \"bytes\";r=0;t=900, \"a\";r=0;t=9", 9 * time.Second, "RateLimit"},
	{"values and tokens are no requests",
		"RateLimit-Policy: \"users\";q=5;qu=\"distinct-values\";w=900, \"tokens\";q=5;qu=\"tokens\";w=900, " +
			"\"a\";q=5;w=60\nRateLimit: \"users\";r=0;t=900, \"tokens\";r=0;t=900, \"a\";r=0;t=9",
		9 * time.Second, "RateLimit"},
	{"a policy without a window", `RateLimit: "concurrent";r=0, "a";r=0;t=9`, 9 * time.Second, "RateLimit"},

	{"nothing", "", time.Second, "backoff"},
	{"zero", "Retry-After: 0", time.Second, "backoff"},
	{"a negative number", "Retry-After: -5", time.Second, "backoff"},
	{"no number", "Retry-After: NaN", time.Second, "backoff"},
	{"infinity", "Retry-After: Inf", time.Second, "backoff"},
	{"an exponent", "Retry-After: 1e9", time.Second, "backoff"},
	{"an empty field", "Retry-After:", time.Second, "backoff"},
	{"a date in the past", "Date: " + httpDate(0) + "\nRetry-After: " + httpDate(-time.Hour), time.Second, "backoff"},
	{"a reset in the past", "Date: " + httpDate(0) + "\nX-RateLimit-Remaining: 0\n" +
		"X-RateLimit-Reset: " + fmt.Sprint(began.Unix()-60), time.Second, "backoff"},
	{"a malformed list", `RateLimit: "a";r=0;t=9, ,`, time.Second, "backoff"},
	{"a list in a list", `RateLimit: ("a";r=0;t=9)`, time.Second, "backoff"},
	{"negative parameters", `RateLimit: "a";r=-1;t=9`, time.Second, "backoff"},
	{"decimal parameters", `RateLimit: "a";r=0.0;t=9`, time.Second, "backoff"},
	{"a million policies", "RateLimit: " + strings.Repeat(`"a";r=0;t=9, `, 1e6) + `"a";r=0;t=9`,
		time.Second, "backoff"},

	{"a malformed field before a good one", "Retry-After: soon\nRateLimit: \"a\";r=;t=9\n" +
		"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 13", 13 * time.Second, "X-RateLimit-Reset"},
	{"a number beyond any other", "Retry-After: 9223372036854775807", 30 * 24 * time.Hour, "Retry-After"},
	{"a number beyond int64", "Retry-After: 99999999999999999999999999999999", 30 * 24 * time.Hour, "Retry-After"},
	{"a reset beyond any other", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 9223372036854775807",
		30 * 24 * time.Hour, "X-RateLimit-Reset"},
	{"a window beyond any other", `RateLimit: "a";r=0;t=999999999999999`, 30 * 24 * time.Hour, "RateLimit"},
	{"a window of 31 years", `RateLimit: "a";r=0;t=999999999`, 30 * 24 * time.Hour, "RateLimit"},
	{"a window that ended in 2001", `RateLimit: "a";r=0;t=999999999999998`, time.Second, "backoff"},

	{"several lines of Retry-After", "Retry-After: 3\nRetry-After: 7\nRetry-After: 5", 7 * time.Second, "Retry-After"},
	{"several numbers in a line", "Retry-After: 3, 7", 7 * time.Second, "Retry-After"},
	{"a field for each limit", "Retry-After-Short: 2\nRetry-After-Long: 20", 20 * time.Second, "Retry-After-*"},
	{"a field for each limit, and one for all", "Retry-After-Long: 20\nRetry-After: 2",
		2 * time.Second, "Retry-After"},
	{"X-Retry-After", "Date: " + httpDate(0) + "\nX-Retry-After: " + fmt.Sprint(began.Unix()+20),
		21 * time.Second, "X-Retry-After"},
	{"milliseconds", "retry-after-ms: 1500", 1500 * time.Millisecond, "retry-after-ms"},
	{"milliseconds of Azure", "x-ms-retry-after-ms: 1500.5", 1500500 * time.Microsecond, "x-ms-retry-after-ms"},
	{"seconds before milliseconds", "Retry-After: 2\nretry-after-ms: 1500", 2 * time.Second, "Retry-After"},
	{"no number of milliseconds", "retry-after-ms: soon", time.Second, "backoff"},
}

// What ends twenty seconds after the answer, in every form in every field. Whole seconds and
// minutes may have been rounded down.
func TestEveryFieldReadsEveryFormOfAMoment(t *testing.T) {
	end := began.Add(20 * time.Second)
	forms := []struct {
		name, text string
		wait       time.Duration
		structured bool // is an Integer of RFC 9651
	}{
		{"seconds to go", "20", 20 * time.Second, true},
		{"decimals", "20.000", 20 * time.Second, false},
		{"seconds", fmt.Sprint(end.Unix()), 21 * time.Second, true},
		{"seconds with decimals", fmt.Sprint(end.Unix()) + ".25", 20250 * time.Millisecond, false},
		{"milliseconds", fmt.Sprint(end.UnixMilli()), 21 * time.Second, true},
		{"milliseconds of no whole second", fmt.Sprint(end.UnixMilli() + 1), 20*time.Second + time.Millisecond, true},
		{"milliseconds with decimals", fmt.Sprint(end.UnixMilli()+1) + ".5",
			20*time.Second + 1500*time.Microsecond, false},
		{"microseconds", fmt.Sprint(end.UnixMicro() + 1), 20*time.Second + time.Microsecond, false},
		{"nanoseconds", fmt.Sprint(end.UnixNano() + 1), 20*time.Second + 1, false},
		{"a date", end.Format(http.TimeFormat), 21 * time.Second, false},
		{"a date of RFC 850", end.Format("Monday, 02-Jan-06 15:04:05 GMT"), 21 * time.Second, false},
		{"a date of RFC 3339", end.Format(time.RFC3339), 21 * time.Second, false},
		{"a date of RFC 3339 with decimals", end.Add(time.Millisecond).Format(time.RFC3339Nano),
			20*time.Second + time.Millisecond, false},
		{"a date in another zone", end.In(time.FixedZone("", 3600)).Format(time.RFC3339), 21 * time.Second, false},
		{"a date without seconds", end.Format("2006-01-02T15:04Z"), time.Minute, false},
		{"a date without a zone", end.Format("2006-01-02 15:04:05"), 21 * time.Second, false},
		{"a date of JavaScript", end.In(time.FixedZone("",
			3600)).Format("Mon Jan 02 2006 15:04:05 GMT-0700 (Central European Standard Time)"),
			21 * time.Second, false},
		{"a date in UTC", end.Format(time.RFC1123), 21 * time.Second, false},
		{"a date of mail", end.Format(time.RFC1123Z), 21 * time.Second, false},
		{"a date of mail, by formatdate", end.Format("Mon, 02 Jan 2006 15:04:05 -0000"), 21 * time.Second, false},
		{"a duration", "20s", 20 * time.Second, false},
		{"a duration with minutes", "0m20s", 20 * time.Second, false},
		{"a duration with decimals", "20.5s", 20500 * time.Millisecond, false},
		{"a duration in milliseconds", "20000ms", 20 * time.Second, false},
	}
	fields := []struct{ name, text, source string }{
		{"Retry-After", "Retry-After: %s", "Retry-After"},
		{"RateLimit of draft -11", `RateLimit: "a";r=0;t=%s`, "RateLimit"},
		{"RateLimit of draft -11, two members", `RateLimit: "a";r=0;t=%[1]s, "b";r=0;t=%[1]s`, "RateLimit"},
		{"RateLimit of draft -07", "RateLimit: limit=9, remaining=0, reset=%s", "RateLimit"},
		{"RateLimit-Reset", "RateLimit-Remaining: 0\nRateLimit-Reset: %s", "RateLimit-Reset"},
		{"X-RateLimit-Reset", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: %s", "X-RateLimit-Reset"},
		{"X-RateLimit-Reset-After", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: %s", "X-RateLimit-Reset-After"},
		{"X-Rate-Limit-Reset", "X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: %s", "X-Rate-Limit-Reset"},
	}
	for _, field := range fields {
		for _, form := range forms {
			if strings.Contains(field.text, "=%") && !form.structured {
				continue
			}
			t.Run(field.name+"/"+form.name, func(t *testing.T) {
				testWait(t, "Date: "+httpDate(0)+"\n"+fmt.Sprintf(field.text, form.text), form.wait, field.source)
			})
		}
	}
}

func TestADenialSaysHowLongToWait(t *testing.T) {
	for _, test := range waits {
		t.Run(test.name, func(t *testing.T) { testWait(t, test.fields, test.wait, test.source) })
	}
}

// testWait tests for how long a denial with these fields holds back, and what is said to ask for
// that.
func testWait(t *testing.T, fields string, wait time.Duration, source string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		server := scripted(func(int, *http.Request) *http.Response {
			return answer(429, list(fields)...)
		})
		var got []client.Event
		c := newClient(t, server, client.Options{
			Attempts: 1,
			Observe:  func(e client.Event) { got = append(got, e) },
		})
		if _, err := get(c, "http://a/"); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0].Kind != client.Limited {
			t.Fatalf("events %v, want limited and gave up", got)
		}
		most := wait + min(wait/16, time.Second) + 1
		if source == "backoff" {
			most = wait + wait/2
		}
		if e := got[0]; e.Wait < wait || e.Wait > most || e.Source != source {
			t.Errorf("wait %v by %s, want %v to %v by %s", e.Wait, e.Source, wait, most, source)
		}
	})
}

// list returns fields, given one a line, as names and values by turns.
func list(lines string) (fields []string) {
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(line, ":")
		fields = append(fields, strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return fields
}

func TestADeniedRequestIsSentAgainWhenTheServerTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return answer(429, "Retry-After", "5")
			}
			return answer(200)
		})
		response, err := get(newClient(t, server, client.Options{}), "http://a/")
		if err != nil || response.StatusCode != 200 || server.count() != 2 {
			t.Fatalf("%v, %v after %d requests, want 200 after 2", response, err, server.count())
		}
		if at := server.at[1]; at < 5*time.Second || at > 5*time.Second+5*time.Second/16 {
			t.Errorf("sent again after %v, want 5s and little more", at)
		}
	})
}

func TestDenialsThatSayNothingAreBackedOffFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(int, *http.Request) *http.Response {
			return answer(429, "Retry-After", "0")
		})
		c := newClient(t, server, client.Options{Attempts: 5, MaxWait: 10 * time.Minute})
		if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 429 || server.count() != 5 {
			t.Fatalf("%v, %v after %d requests, want 429 after 5", response, err, server.count())
		}
		for i, wait := range []struct{ least, most time.Duration }{{1, 2}, {8, 28}, {90, 270},
			{60, 120}} {
			if gap := server.at[i+1] - server.at[i]; gap < wait.least*time.Second || gap > wait.most*time.Second {
				t.Errorf("gap %d is %v, want %d to %d s", i+1, gap, wait.least, wait.most)
			}
		}
	})
}

func TestAShorterWaitEndsNoLongerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, _ *http.Request) *http.Response {
			switch n {
			case 1:
				return answer(200)
			case 2:
				time.Sleep(time.Second)
				return answer(429, "Retry-After", "100")
			case 3:
				time.Sleep(2 * time.Second)
				return answer(429, "Retry-After", "5")
			}
			return answer(200)
		})
		c := newClient(t, server, client.Options{Attempts: 1, MaxWait: time.Hour})
		get(c, "http://a/")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { get(c, "http://a/") })
		}
		wg.Wait()
		get(c, "http://a/")
		if last := server.at[3]; last < 101*time.Second {
			t.Errorf("sent at %v, want 101s at least", server.at)
		}
	})
}

// The server may have carried it out before it answered so.
func TestADenialByAStatusOfOnesOwnIsNotRepeatedForAPost(t *testing.T) {
	for method, want := range map[string]int{"POST": 1, "GET": 2} {
		synctest.Test(t, func(t *testing.T) {
			server := scripted(func(n int, _ *http.Request) *http.Response {
				if n == 1 {
					return answer(509, "Retry-After", "1")
				}
				return answer(200)
			})
			c := newClient(t, server, client.Options{Denials: []int{509}})
			if _, err := c.RoundTrip(request(t, method, "http://a/", nil)); err != nil || server.count() != want {
				t.Errorf("%s was sent %d times (%v), want %d", method, server.count(), err, want)
			}
		})
	}
}

// What is nearly whole did not deny: another limit did, for an unknown time.
func TestADenialWithMuchLeftIsBackedOffFrom(t *testing.T) {
	for _, fields := range []string{
		"RateLimit: \"hour\";r=4999;t=3000\nRateLimit-Policy: \"hour\";q=5000;w=3600",
		"RateLimit: \"hour\";r=4999;t=3000",
		"RateLimit-Limit: 5000\nRateLimit-Remaining: 4999\nRateLimit-Reset: 3000",
		"RateLimit: limit=5000, remaining=4999, reset=3000",
		"X-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 4999\nX-RateLimit-Reset: 3000",
	} {
		synctest.Test(t, func(t *testing.T) {
			server := scripted(func(i int, _ *http.Request) *http.Response {
				if i == 7 {
					return answer(429, list(fields)...)
				}
				return answer(200, list(fields)...)
			})
			c := newClient(t, server, client.Options{})
			for range 720 {
				before := time.Now()
				response, err := get(c, "http://a/")
				if err != nil || response.StatusCode != 200 || time.Since(before) > 3*time.Second {
					t.Fatalf("%q: %v, %v after %v", fields, response, err, time.Since(before))
				}
				time.Sleep(10 * time.Second)
			}
			if n := len(server.at); n != 721 {
				t.Errorf("%q: %d requests", fields, n)
			}
		})
	}
}

// The vectors have redirects that wait. This one asks for more than MaxWait.
func TestARedirectWhoseWaitIsTooLongIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(always(302, "Location", "/elsewhere", "Retry-After", "60"))
		var got []client.Event
		c := &http.Client{Transport: newClient(t, server, client.Options{
			Observe: func(e client.Event) { got = append(got, e) },
		})}
		_, err := c.Get("http://a/")
		wantWaitError(t, err, time.Minute, "Retry-After")
		if server.count() != 1 || len(got) != 1 || got[0].Kind != client.GaveUp {
			t.Errorf("%d requests and events %v, want one request, which gave up", server.count(), got)
		}
	})
}

func TestARequestThatARedirectHeldBackIsToldAsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return answer(307, "Location", "/elsewhere", "Retry-After", "5")
			}
			return answer(200)
		})
		var got []client.Event
		c := &http.Client{Transport: newClient(t, server, client.Options{
			Observe: func(e client.Event) { got = append(got, e) },
		})}
		if response, err := c.Get("http://a/"); err != nil || response.StatusCode != 200 {
			t.Fatal(response, err)
		}
		if len(got) != 1 || got[0].Kind != client.Held || got[0].Wait != 5*time.Second || got[0].Source != "Retry-After" {
			t.Errorf("events %v, want one of a request that was held for 5s by Retry-After", got)
		}
	})
}

func TestAnAllowedAnswerWithNothingLeftIsHeldBackByItsRetryAfter(t *testing.T) {
	const left = "RateLimit-Remaining: %d\nRateLimit-Reset: 5\nRetry-After: %s"
	testLeft(t, fmt.Sprintf(left, 0, "30"), 0, 30*time.Second, "Retry-After")
	testLeft(t, fmt.Sprintf(left, 0, "2"), 0, 5*time.Second, "RateLimit-Reset")
	testLeft(t, fmt.Sprintf(left, 4, "30"), 4, 5*time.Second, "RateLimit-Reset")
}
