package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// outside is a backend around another one.
type outside struct{ backends.Backend }

func (w *outside) Unwrap() backends.Backend { return w.Backend }

// TestASecondLimiterOfAnotherKindIsAMistake: their states are apart, so the two would not share the
// limit of the scope, as limiters of equal scope do.
func TestASecondLimiterOfAnotherKindIsAMistake(t *testing.T) {
	rate := limits.SlidingLog(limits.Per(5, 10*time.Minute))
	ban := limits.Ban(limits.PerHour(10), time.Hour)
	rule := func(name string, limit limits.Limit) core.Rule[string] {
		key := func(s string) (string, error) { return s, nil }
		r := core.Rule[string]{Name: name, Limit: limit, Key: key}
		if limit.Algorithm().CountsValues() {
			r.Value = r.Key
		}
		return r
	}
	type limiter = *core.Limiter[string]
	on := func(b backends.Backend, rules ...core.Rule[string]) (limiter, error) {
		return core.New(core.Config[string]{Backend: b, Rules: rules})
	}
	must := func(l limiter, err error) limiter {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	m := memory.MustNew(memory.Options{})
	first := must(on(m, rule("login", rate), rule("strikes", ban)))
	_, err := on(&outside{m}, rule("login", ban), rule("strikes", limits.Concurrent(3)),
		rule("names", limits.Limit{}))
	for _, want := range []string{
		`core: rule "login": scope: another limiter on this backend counts a rate under "login", ` +
			`and this rule counts towards a ban: these count apart, so give this rule a scope of its own`,
		`core: rule "strikes": scope: another limiter on this backend counts towards a ban under ` +
			`"strikes", and this rule counts requests at once`,
		`core: rule "names": limit`, // other mistakes are told, too
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a second limiter: got %v, want %q", err, want)
		}
	}
	must(on(m, rule("login", limits.FixedWindow(limits.PerDay(3))))) // counts alike
	other := rule("login", ban)
	other.Scope = "bans"
	must(on(m, other))
	must(on(memory.MustNew(memory.Options{}), rule("login", ban)))
	off := rule("login", ban)
	off.Mode = core.Disabled
	must(on(m, off, rule("on", rate)))
	changed := []core.Rule[string]{rule("login", rate), rule("strikes", rate)}
	if err := first.Replace(changed); err != nil {
		t.Errorf("one limiter changes its kind: %v", err)
	}
	if _, err := on(m, rule("strikes", ban)); err == nil {
		t.Error("another limiter uses the former kind")
	}
	must(on(m, rule("strikes", rate)))
	if _, err := on(m, rule("new", ban), rule("login", ban)); err == nil {
		t.Error("a limiter with a mistake was made")
	}
	must(on(m, rule("new", rate))) // nothing is left of the mistake
	values := rule("values", limits.Distinct(limits.PerDay(3)))
	must(on(m, values))
	values.LimitFor = func(string, string) (limits.Limit, error) { return values.Limit, nil }
	values.Limit = limits.Limit{}
	must(on(m, values))
	varies := rule("values", limits.Limit{})
	varies.LimitFor = values.LimitFor
	must(on(m, varies)) // its kind is not known
}
