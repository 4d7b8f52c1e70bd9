package conform

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// header returns fields by lines such as "RateLimit: limit=10".
func header(lines ...string) http.Header {
	h := make(http.Header)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestEachDialectIsReadAsItsDocumentSays(t *testing.T) {
	none := nothingTold()
	for _, c := range []struct {
		dialect string
		denied  bool
		fields  []string
		want    told
		problem string // a part of the first; "": none
	}{
		{"retry-after", true, []string{"Retry-After: 3"}, told{-1, -1, -1, moment{secondsToGo, 3}}, ""},
		{"retry-after", true, []string{"Retry-After: Fri, 31 Dec 1999 23:59:59 GMT"},
			told{-1, -1, -1, moment{atSecond, 946684799}}, ""},
		{"retry-after", true, []string{"Retry-After: 1.5"}, none, `Retry-After is "1.5"`},
		{"retry-after", true, []string{"Retry-After: +1"}, none, "must be a whole number"},
		{"retry-after", true, []string{"Retry-After: 1", "Retry-After: 1"},
			told{-1, -1, -1, moment{secondsToGo, 1}}, "has 2 lines"},
		{"retry-after", true, nil, none, "a denial has no Retry-After"},
		{"retry-after", false, nil, none, ""},
		{"retry-after", false, []string{"Retry-After: 1"}, told{-1, -1, -1, moment{secondsToGo, 1}}, ""},

		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 9", "X-RateLimit-Reset: 2"},
			told{10, 9, -1, moment{secondsToGo, 2}}, ""},
		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 9",
			"X-RateLimit-Reset: 1800000000"}, told{10, 9, -1, moment{atSecond, 1800000000}}, ""},
		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 9",
			"X-RateLimit-Reset: 1800000000123"}, told{10, 9, -1, moment{atMillisecond, 1800000000123}}, ""},
		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 9",
			"X-RateLimit-Reset: 1800000000.937"}, told{10, 9, -1, moment{atMillisecond, 1800000000937}}, ""},
		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 9",
			"X-RateLimit-Reset: 0.937"}, told{10, 9, -1, moment{secondsToGo, 1}}, ""},
		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 9",
			"X-RateLimit-Reset: Fri, 31 Dec 1999 23:59:59 UTC"}, told{10, 9, -1, moment{atSecond, 946684799}}, ""},
		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 9",
			"X-RateLimit-Reset: 1999-12-31T23:59:59.5Z"}, told{10, 9, -1, moment{atMillisecond, 946684799500}}, ""},
		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 9",
			"X-RateLimit-Reset: soon"}, told{10, 9, -1, moment{}}, `X-RateLimit-Reset is "soon"`},
		{"x-ratelimit", false, []string{"X-Rate-Limit-Limit: 10", "X-Rate-Limit-Remaining: 9"},
			told{10, 9, -1, moment{}}, ""},
		{"x-ratelimit", false, []string{"X-RateLimit-Limit: 10.00", "X-RateLimit-Remaining: 9"},
			told{-1, 9, -1, moment{}}, `X-RateLimit-Limit is "10.00"`},
		{"x-ratelimit", false, nil, none, "there is no X-RateLimit-Limit"},

		{"draft-6", false, []string{"RateLimit-Limit: 10", "RateLimit-Remaining: 9", "RateLimit-Reset: 2",
			"RateLimit-Policy: 10;w=2"}, told{10, 9, 2, moment{secondsToGo, 2}}, ""},
		{"draft-6", false, []string{"RateLimit-Limit: 10", "RateLimit-Remaining: -1", "RateLimit-Reset: 2"},
			told{10, -1, -1, moment{secondsToGo, 2}}, `RateLimit-Remaining is "-1"`},
		{"draft-6", false, []string{"RateLimit-Limit: 10, 10;w=2", "RateLimit-Remaining: 9", "RateLimit-Reset: 2"},
			told{-1, 9, -1, moment{secondsToGo, 2}}, `RateLimit-Limit is "10, 10;w=2"`},
		{"draft-6", false, []string{"RateLimit-Limit: 10", "RateLimit-Remaining: 9"}, told{10, 9, -1, moment{}},
			"there is no RateLimit-Reset"},
		{"draft-6", false, []string{"RateLimit-Limit: 10", "RateLimit-Remaining: 9", "RateLimit-Reset: 2",
			`RateLimit-Policy: "default";q=10;w=2`}, told{10, 9, -1, moment{secondsToGo, 2}}, "RateLimit-Policy is"},

		{"draft-6", false, []string{"RateLimit-Limit: 10", "RateLimit-Reset: 2"},
			told{10, -1, -1, moment{secondsToGo, 2}}, ""},
		{"draft-6", false, []string{"RateLimit-Limit: 10", "RateLimit-Reset: 0", "RateLimit-Policy: 10;w=0"},
			told{10, -1, 0, moment{secondsToGo, 0}}, ""},

		{"draft-7", false, []string{"RateLimit: limit=10, remaining=9, reset=2"},
			told{10, 9, -1, moment{secondsToGo, 2}}, ""},
		{"draft-7", false, []string{"RateLimit: limit=10, reset=2"}, told{10, -1, -1, moment{secondsToGo, 2}}, ""},
		{"draft-7", false, []string{"RateLimit: limit=10, remaining=many, reset=2"}, none, "must be a Dictionary"},
		{"draft-7", false, []string{"RateLimit: limit=10, remaining=9"}, none, "must be a Dictionary"},
		{"draft-7", false, []string{"RateLimit: limit=10;remaining=9;reset=2"}, none, "must be a Dictionary"},

		{"draft-8", false, []string{`RateLimit: "default";r=9;t=2`, `RateLimit-Policy: "default";q=10;w=2`},
			told{10, 9, 2, moment{secondsToGo, 2}}, ""},
		{"draft-8", false, []string{`RateLimit: "a";r=9;t=2, "b";r=3`}, told{-1, 3, -1, moment{}}, ""},
		{"draft-8", false, []string{`RateLimit: "a";t=2, "b";r=3;t=4`, `RateLimit-Policy: "a";q=10;w=0`},
			told{10, 3, 0, moment{secondsToGo, 4}}, ""},
		{"draft-7", false, []string{"RateLimit: limit=10, reset=2", "RateLimit-Policy: 10;w=2;qu=7"},
			told{10, -1, 2, moment{secondsToGo, 2}}, ""},
		{"draft-11", false, []string{`RateLimit: "";r=9;t=2`, `RateLimit-Policy: "";q=10;w=2`},
			told{10, 9, 2, moment{secondsToGo, 2}}, ""},
		{"draft-11", false, []string{`RateLimit: default;r=9;t=2`}, none, "must be a List"},
		{"draft-11", false, []string{`RateLimit: "default";t=2`}, none, "must be a List"},
		{"draft-11", false, []string{`RateLimit: "default";r=9.5;t=2`}, none, "must be a List"},
		{"draft-11", false, []string{`RateLimit: "default";r=9;t=2`, `RateLimit-Policy: "default";q=10;w=0`},
			told{-1, 9, -1, moment{secondsToGo, 2}}, "RateLimit-Policy is"},
		{"draft-11", false, []string{`RateLimit: "default";r=9;t=2`, `RateLimit-Policy: "default";w=2`},
			told{-1, 9, -1, moment{secondsToGo, 2}}, "RateLimit-Policy is"},
	} {
		got, _, problems := dialectOf(c.dialect).read(header(c.fields...), c.denied)
		if got != c.want {
			t.Errorf("%s %q:\ngot  %+v\nwant %+v", c.dialect, c.fields, got, c.want)
		}
		switch {
		case c.problem == "" && len(problems) > 0:
			t.Errorf("%s %q: %s", c.dialect, c.fields, problems[0])
		case c.problem != "" && (len(problems) == 0 || !strings.Contains(problems[0], c.problem)):
			t.Errorf("%s %q: got %q, want %s", c.dialect, c.fields, problems, c.problem)
		}
	}
}

// A server need not tell what is left in each answer.
func TestFieldsMayBeAbsentFromSomeAnswersButNotFromAll(t *testing.T) {
	p := fakeProfile(t)
	for most, want := range map[int]Verdict{-1: Fails, 3: Holds} {
		open := func(s *store, _ bool) http.Handler {
			f := &fake{profile: p, store: s}
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := httptest.NewRecorder()
				f.ServeHTTP(answer, r)
				left, _ := strconv.Atoi(answer.Header().Get("RateLimit-Remaining"))
				for name, lines := range answer.Header() {
					if left <= most || !strings.Contains(name, "Ratelimit") {
						w.Header()[name] = lines
					}
				}
				w.WriteHeader(answer.Code)
			})
		}
		r := runServer(t, p, none, open, "syntax").Results[0]
		if r.Verdict != want {
			t.Errorf("fields if at most %d are left: %s: %s: %q", most, r.Verdict, r.Found, r.Evidence)
		}
		if want == Fails && !strings.Contains(strings.Join(r.Evidence, "\n"), "no answer has the fields of draft-11") {
			t.Errorf("got %q", r.Evidence)
		}
	}
}

// denialsAt returns denials with Retry-After, each a number of milliseconds after the first.
func denialsAt(told map[int]string, ms ...int) (denials []exchange) {
	start := time.Unix(1_800_000_000, 0)
	for _, at := range ms {
		sent := start.Add(time.Duration(at) * time.Millisecond)
		denials = append(denials, exchange{sent: sent, answered: sent.Add(time.Millisecond), status: 429, denial: 429,
			header: header("Retry-After: " + told[at])})
	}
	return denials
}

func TestAResetWobblesOnlyIfNoRoundingExplainsIt(t *testing.T) {
	d := dialectOf("retry-after")
	for name, c := range map[string]struct {
		told    map[int]string
		wobbles bool
	}{
		"up, at 1.5 s":        {map[int]string{0: "2", 400: "2", 600: "1", 1400: "1"}, false},
		"down, at 1.5 s":      {map[int]string{0: "1", 400: "1", 600: "0", 1400: "0"}, false},
		"nearest, at 1.2 s":   {map[int]string{0: "1", 600: "1", 800: "0", 1100: "0"}, false},
		"a second more":       {map[int]string{0: "1", 100: "2"}, true},
		"never less":          {map[int]string{0: "2", 1500: "2"}, true},
		"up and down in turn": {map[int]string{0: "2", 100: "1", 800: "1", 900: "0", 1000: "1"}, true},
	} {
		var ms []int
		for at := range 2000 {
			if _, ok := c.told[at]; ok {
				ms = append(ms, at)
			}
		}
		if _, text := wobble(d, denialsAt(c.told, ms...)); (text != "") != c.wobbles {
			t.Errorf("%s: %q", name, text)
		}
	}
}
