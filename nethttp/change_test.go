package nethttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// Only requests that a rule with a FinalCost may have decided get a writer that counts.
func TestTheWriterFollowsTheRulesOfTheRequest(t *testing.T) {
	plain := perClient(limits.FixedWindow(limits.PerMinute(100))).Rules
	looking := perClient(limits.FixedWindow(limits.PerMinute(100))).Rules
	var results []core.Result
	looking[0].FinalCost = func(r core.Result) int64 { results = append(results, r); return 1 }
	limit := nethttp.MustNew(nethttp.Config{Rules: plain})
	var seen http.ResponseWriter
	handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen = w
		w.WriteHeader(http.StatusTeapot)
	}))
	off := perClient(limits.FixedWindow(limits.PerMinute(100))).Rules
	off[0].FinalCost, off[0].Name, off[0].Mode = looking[0].FinalCost, "off", core.Disabled
	off = append(off, nethttp.Rule{Name: "slots", Limit: limits.Concurrent(9), Key: off[0].Key})
	for i, rules := range [][]nethttp.Rule{plain, looking, plain, looking, off} {
		if err := limit.Replace(rules); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if watched := seen != http.ResponseWriter(w); watched != (i == 1 || i == 3) {
			t.Errorf("request %d: the handler got a %T", i, seen)
		}
	}
	want := core.Result{Status: http.StatusTeapot, Cost: 1, Spent: -1}
	if len(results) != 2 || results[0] != want || results[1] != want {
		t.Errorf("results %+v, want %+v twice", results, want)
	}
}

// The options of the header fields are read at every change.
func TestTheHeaderOptionsAreCopied(t *testing.T) {
	config := perClient(limits.FixedWindow(limits.PerMinute(100)))
	config.Headers = headers.Options{
		Formats:       []headers.Format{headers.Discord},
		DiscordScopes: map[string]headers.DiscordScope{config.Rules[0].Name: headers.DiscordShared},
	}
	limit := nethttp.MustNew(config)
	config.Headers.Formats[0] = headers.GitHub
	config.Headers.DiscordScopes["another"] = headers.DiscordShared
	if err := limit.Replace(config.Rules); err != nil {
		t.Error(err)
	}
}

// A request to which no rule applies is answered by the newest rules.
func TestNoRuleAppliesAfterAReplacement(t *testing.T) {
	never := core.When(func(*http.Request) bool { return false }, keyfuncs.Path)
	rules := []nethttp.Rule{{Name: "none", Limit: limits.FixedWindow(limits.PerMinute(1)), Key: never}}
	custom := 0
	limit := nethttp.MustNew(nethttp.Config{
		Rules: rules, Headers: headers.Options{Custom: func(http.Header, core.Outcome) { custom++ }},
	})
	handler := limit.Handler(&hello{})
	wantStatus(t, get(handler), http.StatusOK)
	if err := limit.Replace(rules); err != nil {
		t.Fatal(err)
	}
	if w := get(handler); w.Code != http.StatusOK || len(w.Header()["Ratelimit"]) != 0 || custom != 2 {
		t.Errorf("%d, fields %v, Custom was called %d times", w.Code, w.Header(), custom)
	}
}

// A limiter whose rules have changed costs what one does whose rules never have.
func TestAChangeCostsNoAllocationLater(t *testing.T) {
	for name, limit := range map[string]limits.Limit{
		"allowed": limits.SlidingWindow(limits.PerSecond(1_000_000)), "denied": limits.SlidingWindow(limits.PerDay(1)),
	} {
		config := perClient(limit)
		never, changed := nethttp.MustNew(config), nethttp.MustNew(config)
		for i := range 50 {
			if err := changed.Replace(config.Rules); err != nil {
				t.Fatal(err)
			}
			mode := core.Shadow
			o := core.Override{Mode: &mode, Until: time.Now().Add(time.Hour), Why: fmt.Sprint(i)}
			if i == 49 {
				o = core.Override{}
			}
			if err := changed.Override(config.Rules[0].Name, o); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := allocationsOf(changed), allocationsOf(never); got != want && !raceEnabled {
			t.Errorf("%s: %v allocations after changes, %v without", name, got, want)
		}
	}
}

func allocationsOf(limit *nethttp.Limiter) float64 {
	handler := limit.Handler(nothing)
	r, _ := http.NewRequest("GET", "/", nil)
	r.RemoteAddr = "198.51.100.7:4711"
	w := &sink{http.Header{}}
	return testing.AllocsPerRun(200, func() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	})
}

func BenchmarkReplaceAThousandRules(b *testing.B) {
	rules := make([]nethttp.Rule, 1000)
	for i := range rules {
		rules[i] = nethttp.Rule{
			Name: fmt.Sprint("rule", i), Limit: limits.SlidingWindow(limits.PerMinute(int64(1 + i))),
			Key: keyfuncs.Address(keyfuncs.Peer),
		}
	}
	limit := nethttp.MustNew(nethttp.Config{Rules: rules})
	b.ReportAllocs()
	for b.Loop() {
		if err := limit.Replace(rules); err != nil {
			b.Fatal(err)
		}
	}
}

// While rules change, each denial names the rules that decided it. Few changes are under way at once,
// so that no request outlasts more than a gate remembers.
func TestADenialNamesTheRulesThatDecidedIt(t *testing.T) {
	names := regexp.MustCompile(`"(one|two)"`)
	for range 100 {
		rules := func(name string) []nethttp.Rule {
			return []nethttp.Rule{{Name: name, Key: keyfuncs.Constant[*http.Request]("all"), Scope: "all",
				Limit: limits.FixedWindow(limits.PerDay(1))}}
		}
		l := nethttp.MustNew(nethttp.Config{Rules: rules("one")})
		handler := l.Handler(http.NotFoundHandler())
		ask := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w
		}
		ask()
		var all sync.WaitGroup
		all.Go(func() {
			for i := range 50 {
				l.Replace(rules([]string{"two", "one"}[i%2]))
			}
		})
		for range 3 {
			all.Go(func() {
				for range 30 {
					w := ask()
					field, body := names.FindString(w.Header().Get("RateLimit")), names.FindString(w.Body.String())
					if w.Code != http.StatusTooManyRequests || field == "" || field != body {
						t.Errorf("%d: RateLimit names %s, and the document %s", w.Code, field, body)
					}
				}
			})
		}
		all.Wait()
	}
}
