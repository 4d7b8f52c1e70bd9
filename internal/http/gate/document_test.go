package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// documented has a rule for each way in which documents differ, each for requests that name it.
func documented(options headers.Options) Config[*http.Request] {
	rule := func(name string, rate limits.Rate) core.Rule[*http.Request] {
		return core.Rule[*http.Request]{Name: name, Limit: limits.FixedWindow(rate),
			Key: func(r *http.Request) (string, error) {
				if !slices.Contains(r.Header["Rule"], name) {
					return "", core.ErrDoesNotApply
				}
				return "", nil
			}}
	}
	capacity, large, broken := rule("capacity", limits.PerHour(1)), rule("large", limits.PerHour(1)),
		rule("broken", limits.PerHour(1))
	busy := rule("busy", limits.PerSecond(1))
	hidden := rule("hidden", limits.PerHour(1))
	capacity.DenyAs503, busy.DenyAs503, hidden.Hidden = true, true, true
	large.Unit, large.Cost = core.Tokens, func(*http.Request) int64 { return 2 }
	broken.Key = func(r *http.Request) (string, error) {
		if !slices.Contains(r.Header["Rule"], "broken") {
			return "", core.ErrDoesNotApply
		}
		return "", errors.New("no key")
	}
	rules := []core.Rule[*http.Request]{rule("a", limits.PerHour(1)), rule("b", limits.PerHour(1)),
		hidden, rule("minute", limits.PerMinute(1)), capacity, busy, large, broken}
	for i := len(rules); i < 70; i++ { // more than a saying has bits
		rules = append(rules, rule(fmt.Sprint("rule", i), limits.PerHour(1)))
	}
	return Config[*http.Request]{Config: core.Config[*http.Request]{Rules: rules}, Headers: options}
}

// A document is sent again if it says the same. Each answer to a denied request must be the one that
// a limiter without a former answer gives.
func TestADocumentIsSentAgainOnlyIfItSaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, options := range []headers.Options{
			{}, {Body: headers.Bots}, {Show: headers.Omit}, {MaxRetryAfter: 60e9},
		} {
			g, err := New(documented(options))
			if err != nil {
				t.Fatal(err)
			}
			var denied []*http.Request
			for _, names := range [][]string{
				{"a"}, {"b"}, {"a", "b"}, {"hidden"}, {"a", "hidden"}, {"minute"}, {"capacity"},
				{"a", "capacity"}, {"busy"}, {"large"}, {"broken"}, {"rule63"}, {"rule64"}, {"rule69"}, {"a", "rule64"},
			} {
				r := httptest.NewRequest("GET", "/", nil)
				r.Header["Rule"] = names
				denied = append(denied, r)
				g.engine.Decide(r.Context(), r)
			}
			large := httptest.NewRequest("GET", "/", nil)
			large.Header["Rule"] = []string{"large"}
			denied = append(denied, large.WithContext(
				WithCause(context.Background(), func() string { return "It is long." })))
			// answered returns the answer to r by an answering that may remember a document.
			answered := func(a *answering, r *http.Request) string {
				o := g.engine.Decide(r.Context(), r)
				if o.Allowed() {
					t.Fatal(r.Header, "is allowed")
				}
				w := httptest.NewRecorder()
				a.fields.Write(w.Header(), &o)
				a.writeProblem(w, r, &o, o.Status(), options.Body)
				return w.Body.String()
			}
			remembers := g.newest.Load()
			texts := make(map[string]bool)
			for _, first := range denied {
				for _, second := range denied {
					answered(remembers, first)
					got := answered(remembers, second)
					want := answered(&answering{fields: remembers.fields, violated: remembers.violated}, second)
					if got != want {
						t.Errorf("%v after %v: got %s, want %s", second.Header, first.Header, got, want)
					}
					texts[got] = true
				}
			}
			if len(texts) < 6 {
				t.Errorf("%d different documents of %d requests", len(texts), len(denied))
			}
		}
	})
}

func TestADocumentIsNotSentAgainUnderOtherRules(t *testing.T) {
	rules := []core.Rule[*http.Request]{{Name: "before", Limit: limits.FixedWindow(limits.PerHour(1)),
		Key: func(*http.Request) (string, error) { return "", nil }}}
	g, err := New(Config[*http.Request]{Config: core.Config[*http.Request]{Rules: rules}})
	if err != nil {
		t.Fatal(err)
	}
	body := func() string {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		_ = g.Serve(w, r, r, func(http.ResponseWriter, *http.Request) error { return nil })
		return w.Body.String()
	}
	body()
	before := body()
	rules = slices.Clone(rules)
	rules[0].Name, rules[0].Scope = "after", "before"
	if err := g.Replace(rules); err != nil {
		t.Fatal(err)
	}
	if after := body(); after == before || after == "" {
		t.Errorf("got %s before and after", after)
	}
}
