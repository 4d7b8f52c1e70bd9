package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// rulesOf returns the names of the rules that apply to path.
func rulesOf(l *core.Limiter[string], path string) (names []string) {
	o := l.Decide(context.Background(), path)
	for i := range o.Len() {
		names = append(names, o.At(i).Rule())
	}
	return names
}

func TestTheLastRuleIsForWhatNoOtherLimits(t *testing.T) {
	is := func(want string) func(string) bool { return func(path string) bool { return path == want } }
	everybody := func(string) (string, error) { return "all", nil }
	broken := errors.New("no key")
	limit := limits.FixedWindow(limits.PerMinute(1000))
	rules := []core.Rule[string]{
		{Name: "a", Limit: limit, Key: core.When(is("/a"), everybody)},
		{Name: "b", Limit: limit, Key: core.When(is("/b"), everybody)},
		{Name: "b too", Limit: limit, Key: core.When(is("/b"), everybody)},
		{Name: "absent", Limit: limit,
			Key: core.When(is("/absent"), func(string) (string, error) { return "", core.ErrAbsent })},
		{Name: "fails", Limit: limit, Key: core.When(is("/fails"), func(string) (string, error) { return "", broken }),
			OnFailure: core.FailOpen},
		{Name: "panics", Limit: limit, Key: core.When(is("/panics"), func(string) (string, error) { panic("boom") }),
			OnFailure: core.FailOpen},
		{Name: "shadow", Limit: limit, Key: core.When(is("/shadow"), everybody), Mode: core.Shadow},
		{Name: "disabled", Limit: limit, Key: core.When(is("/disabled"), everybody), Mode: core.Disabled},
	}
	other := core.Rule[string]{Name: "other", Limit: limit, Key: core.Otherwise(rules, everybody)}
	without := core.MustNew(core.Config[string]{Rules: rules})
	with := core.MustNew(core.Config[string]{Rules: append(rules, other)})
	for path, want := range map[string][]string{
		"/a": {"a"}, "/b": {"b", "b too"}, "/absent": {"absent"}, "/fails": {"fails"}, "/panics": {"panics"},
		"/shadow": {"shadow", "other"}, "/disabled": {"other"}, "/else": {"other"},
	} {
		if got := rulesOf(with, path); !slices.Equal(got, want) {
			t.Errorf("%s: %v apply, want %v", path, got, want)
		}
		if got := without.Applies(path); got == slices.Contains(want, "other") {
			t.Errorf("%s: without the last rule, Applies is %t", path, got)
		}
		if !with.Applies(path) {
			t.Errorf("%s: nothing limits it", path)
		}
	}
	rules[0].Key = everybody // too late
	if got := rulesOf(with, "/else"); !slices.Equal(got, []string{"other"}) {
		t.Errorf("the rules were not copied: %v", got)
	}
}

// A rule for a share of the keys leaves the others to the last rule.
func TestTheLastRuleIsForKeysThatAShareLeavesOut(t *testing.T) {
	limit := limits.FixedWindow(limits.PerMinute(1000))
	byPath := func(path string) (string, error) { return path, nil }
	rules := []core.Rule[string]{{Name: "share", Limit: limit, Key: byPath, Mode: core.EnforceFor(50)}}
	l := core.MustNew(core.Config[string]{
		Rules: append(rules, core.Rule[string]{Name: "other", Limit: limit, Key: core.Otherwise(rules, byPath)})})
	both := 0
	for c := 'a'; c <= 'z'; c++ {
		o := l.Decide(t.Context(), string(c))
		enforced := o.At(0).Mode() == core.Enforce
		if enforced != (o.Len() == 1) {
			t.Errorf("%c: enforced %t, and %d rules apply", c, enforced, o.Len())
		}
		if !enforced {
			both++
		}
	}
	if both == 0 || both == 26 {
		t.Errorf("%d of 26 keys are left out", both)
	}
	if core.Otherwise[string](nil, nil) != nil {
		t.Error("no key function is a key function")
	}
}

// A rule applies as soon as it has a key. A limit that fails then is a failure, whatever its error wraps:
// the rule had been left out, and the last rule had left the request to it.
func TestARuleWhoseLimitFailsIsNotLeftOut(t *testing.T) {
	everybody := func(string) (string, error) { return "all", nil }
	limit := limits.FixedWindow(limits.PerMinute(1))
	wrapped := fmt.Errorf("plan: %w", core.ErrDoesNotApply)
	for name, rule := range map[string]core.Rule[string]{
		"LimitFor":             {LimitFor: func(string, string) (limits.Limit, error) { return limits.Limit{}, wrapped }},
		"LimitFor that panics": {LimitFor: func(string, string) (limits.Limit, error) { panic(wrapped) }},
		"Key that panics":      {Limit: limit, Key: func(string) (string, error) { panic(wrapped) }},
	} {
		rule.Name = "named"
		if rule.Key == nil {
			rule.Key = everybody
		}
		rest := core.Rule[string]{Name: "rest", Limit: limit, Key: core.Otherwise([]core.Rule[string]{rule}, everybody)}
		l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{rule, rest}})
		o := l.Decide(t.Context(), "/")
		if o.Verdict() != core.Unavailable || o.Len() != 1 || o.At(0).Rule() != "named" || o.Err() == nil {
			t.Errorf("%s: %v by %d rules, error %v; want it unavailable", name, o.Verdict(), o.Len(), o.Err())
		}
	}
}
