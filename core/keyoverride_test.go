package core_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// admits returns how many of ten requests of a key are allowed.
func admits(l *core.Limiter[string], key string) (n int) {
	for range 10 {
		if o := l.Decide(context.Background(), key); o.Allowed() {
			n++
		}
	}
	return n
}

func TestAnOverrideOfAKeyIsOfThatKeyAlone(t *testing.T) {
	perDay := func(n int64) limits.Limit { return limits.FixedWindow(limits.PerDay(n)) }
	planned := rule("a", limits.Limit{}, core.Enforce)
	planned.LimitFor = func(string, string) (limits.Limit, error) { return perDay(2), nil }
	shared := func(name string) core.Rule[string] {
		r := rule(name, perDay(2), core.Enforce)
		r.Scope = "both"
		return r
	}
	other := rule("other", perDay(9), core.Enforce)
	for name, rules := range map[string][]core.Rule[string]{
		"the only rule":        {rule("a", perDay(2), core.Enforce)},
		"a rule with LimitFor": {planned},
		"one of two rules":     {rule("a", perDay(2), core.Enforce), other},
		"a rule with a cost":   {{Name: "a", Limit: perDay(2), Key: self, Cost: func(string) int64 { return 1 }}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := core.MustNew(core.Config[string]{Rules: rules})
			o := core.Override{Limit: perDay(5), Until: time.Now().Add(time.Hour), Why: "a launch"}
			if err := l.OverrideKey("a", "ann", o); err != nil {
				t.Fatal(err)
			}
			if got := l.KeyOverrides("a"); len(got) != 1 || got["ann"] != o || len(l.KeyOverrides("other")) != 0 {
				t.Errorf("%s: overrides %+v", name, got)
			}
			if state := l.State().Rules[0]; state.Override != (core.Override{}) || state.Limit != state.GivenLimit {
				t.Errorf("%s: the rule is changed for all keys: %+v", name, state)
			}
			if ann, bob := admits(l, "ann"), admits(l, "bob"); ann != 5 || bob != 2 {
				t.Errorf("%s: %d of ann and %d of bob, want 5 and 2", name, ann, bob)
			}
			if d, err := l.ExplainKey(t.Context(), "a", "ann", limits.Limit{}); err != nil || d.Allowed || d.Remaining != 0 {
				t.Errorf("%s: explained as %+v, %v", name, d, err)
			}
			replace(t, l, rules...)
			o.Limit = perDay(7)
			if err := l.OverrideKey("a", "ann", o); err != nil {
				t.Fatal(err)
			}
			if got := admits(l, "ann"); got != 2 {
				t.Errorf("%s: %d more under 7, want 2", name, got)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := l.KeyOverrides("a"); len(got) != 0 {
				t.Errorf("%s: after its end: %+v", name, got)
			}
			if got := admits(l, "ann"); got != 0 {
				t.Errorf("%s: %d more after its end", name, got)
			}
		})
	}
	// Rules of one scope count together, so the limit of the key is that of both.
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{shared("a"), shared("b")}})
	later := time.Now().Add(time.Hour)
	if err := l.OverrideKey("a", "ann", core.Override{Limit: perDay(6), Until: later}); err != nil {
		t.Fatal(err)
	}
	if got := admits(l, "ann"); got != 3 {
		t.Errorf("%d requests that take one unit under each of two rules, want 3", got)
	}
	err := l.OverrideKey("b", "ann", core.Override{Limit: perDay(7), Until: later})
	if err == nil || !strings.Contains(err.Error(), `rule "a" has the same scope`) ||
		strings.Contains(err.Error(), "ann") {
		t.Errorf("two limits of one key: %v", err)
	}
	if err := l.OverrideKey("a", "ann", core.Override{}); err != nil || len(l.KeyOverrides("a")) != 0 {
		t.Errorf("cleared: %v, %+v", err, l.KeyOverrides("a"))
	}
}

func TestAnOverrideOfAKeySaysWhatIsWrong(t *testing.T) {
	waiting := rule("queue", limits.LeakyQueue(limits.PerSecond(1), 9), core.Enforce)
	waiting.NoDelay = 3
	distinct := rule("values", limits.Distinct(limits.PerHour(3)), core.Enforce)
	distinct.Value = self
	perDay := limits.FixedWindow(limits.PerDay(1))
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		rule("a", perDay, core.Enforce), rule("held", limits.Concurrent(2), core.Enforce), waiting, distinct,
	}})
	later, shadow := time.Now().Add(time.Hour), core.Shadow
	for _, row := range []struct {
		rule, want string
		core.Override
	}{
		{"none", "no rule of this name", core.Override{Limit: perDay, Until: later}},
		{"a", "until: is not set", core.Override{Limit: perDay}},
		{"a", "must be in the future", core.Override{Limit: perDay, Until: time.Unix(1, 0)}},
		{"a", "limit: ", core.Override{Until: later}},
		{"a", "got 0", core.Override{Limit: limits.FixedWindow(limits.PerDay(0)), Until: later}},
		{"a", "mode: is that of all keys", core.Override{Limit: perDay, Mode: &shadow, Until: later}},
		{"a", "concurrency limit", core.Override{Limit: limits.Concurrent(1), Until: later}},
		{"a", "distinct limit", core.Override{Limit: limits.Distinct(limits.PerHour(3)), Until: later}},
		{"held", "concurrency limit", core.Override{Limit: perDay, Until: later}},
		{"queue", "NoDelay", core.Override{Limit: limits.LeakyQueue(limits.PerSecond(2), 9), Until: later}},
		{"values", "distinct limit", core.Override{Limit: perDay, Until: later}},
	} {
		err := l.OverrideKey(row.rule, "the-key", row.Override)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "the-key") {
			t.Errorf("%s: want %q, got %v", row.rule, row.want, err)
		}
		if got := l.KeyOverrides(row.rule); len(got) != 0 {
			t.Errorf("%s: something has changed: %+v", row.rule, got)
		}
	}
	for i := range 1000 {
		if err := l.OverrideKey("a", fmt.Sprint(i), core.Override{Limit: perDay, Until: later}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.OverrideKey("a", "more", core.Override{Limit: perDay, Until: later}); err == nil ||
		!strings.Contains(err.Error(), "1000 keys have overrides") {
		t.Errorf("one more than 1,000: %v", err)
	}
	if err := l.OverrideKey("a", "7", core.Override{Limit: perDay, Until: later.Add(1)}); err != nil {
		t.Errorf("one of 1,000 again: %v", err)
	}
	replacing := l.Replace([]core.Rule[string]{rule("a", limits.Concurrent(2), core.Enforce)})
	if replacing == nil || !strings.Contains(replacing.Error(), `with the overrides in force: core: rule "a"`) {
		t.Errorf("rules that the overrides of keys do not suit: %v", replacing)
	}
	replace(t, l, rule("b", limits.Concurrent(2), core.Enforce))
	replace(t, l, rule("a", perDay, core.Enforce))
	if got := l.KeyOverrides("a"); len(got) != 0 {
		t.Errorf("overrides outlive their rule: %d", len(got))
	}
}

func TestRulesThatShareAScopeLaterMustAgreeOnAKey(t *testing.T) {
	perDay := func(n int64) limits.Limit { return limits.FixedWindow(limits.PerDay(n)) }
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		rule("a", perDay(2), core.Enforce), rule("b", perDay(2), core.Enforce),
	}})
	until := time.Now().Add(time.Hour)
	for name, n := range map[string]int64{"a": 3, "b": 4} {
		if err := l.OverrideKey(name, "ann", core.Override{Limit: perDay(n), Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	joined := []core.Rule[string]{rule("a", perDay(2), core.Enforce), rule("b", perDay(2), core.Enforce)}
	joined[1].Scope = "a"
	if err := l.Replace(joined); err == nil || !strings.Contains(err.Error(), `"a": end that one first`) {
		t.Errorf("%v", err)
	}
	if err := l.OverrideKey("b", "ann", core.Override{}); err != nil {
		t.Fatal(err)
	}
	replace(t, l, joined...)
}
