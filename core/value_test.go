package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// byName is the value of a request that logs in: user is the address it comes from.
func byName(r request) (string, error) {
	switch r.route {
	case "":
		return "", core.ErrAbsent
	case "none":
		return "", core.ErrDoesNotApply
	case "broken":
		return "", errBroken
	case "panic":
		panic("boom")
	}
	return r.route, nil
}

func namesRule() core.Rule[request] {
	return core.Rule[request]{
		Name: "login", Limit: limits.Distinct(limits.Per(2, 10*time.Minute)), Key: byUser, Value: byName,
	}
}

// elsewhere is a backend that is not in this process, and may fail.
type elsewhere struct {
	inner backends.Backend
	err   error
}

func (e *elsewhere) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if e.err != nil {
		return e.err
	}
	return e.inner.Take(ctx, charges, out)
}

func (e *elsewhere) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return backends.Peek(ctx, e.inner, charges, out)
}

func (*elsewhere) Supports(limits.Limit) bool { return true }

func TestARuleCountsDifferentValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{namesRule()}})
		for range 3 {
			decide(t, l, request{user: "a", route: "ann"}, core.Allowed)
			decide(t, l, request{user: "a", route: ""}, core.Allowed)
		}
		o := decide(t, l, request{user: "a", route: "cat"}, core.Denied)
		if d := o.At(0); d.RetryAfter != 10*time.Minute || d.Remaining != 0 || d.Unit() != core.DistinctValues {
			t.Errorf("%+v, unit %v", d.Decision, d.Unit())
		}
		decide(t, l, request{user: "b", route: "cat"}, core.Allowed)
		if o := decide(t, l, request{user: "a", route: "none"}, core.Allowed); o.Len() != 0 {
			t.Error("a rule that does not apply is part of the outcome")
		}
		time.Sleep(10*time.Minute - time.Microsecond)
		decide(t, l, request{user: "a", route: "cat"}, core.Denied)
		time.Sleep(time.Microsecond)
		decide(t, l, request{user: "a", route: "cat"}, core.Allowed)
	})
}

func TestAValueThatCannotBeFoundFailsLikeAKey(t *testing.T) {
	for _, route := range []string{"broken", "panic"} {
		rule := namesRule()
		l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{rule}})
		o := decide(t, l, request{user: "a", route: route}, core.Unavailable)
		if route == "broken" && !errors.Is(o.Err(), errBroken) ||
			!strings.Contains(o.Err().Error(), `rule "login": key: `) {
			t.Error(o.Err())
		}
		rule.OnFailure = core.FailOpen
		l = core.MustNew(core.Config[request]{Rules: []core.Rule[request]{rule}})
		decide(t, l, request{user: "a", route: route}, core.Allowed)
	}
}

func TestNewReportsEveryMistakeAboutValues(t *testing.T) {
	one := func(request) int64 { return 1 }
	bad := namesRule()
	bad.Name, bad.Value, bad.Cost, bad.Unit = "bad", nil, one, core.ContentBytes
	bad.FinalCost = func(core.Result) int64 { return 0 }
	other, shared := namesRule(), namesRule()
	other.Name, other.Limit = "other", perMinute(3)
	shared.Name, shared.Scope = "shared", "login"
	_, err := core.New(core.Config[request]{
		Rules: []core.Rule[request]{namesRule(), bad, other, shared},
	})
	for _, want := range []string{
		`core: rule "bad": value: is nil`, `core: rule "bad": cost: a distinct limit has none`,
		`core: rule "bad": final cost: a distinct limit has none`,
		`core: rule "bad": unit: a distinct limit counts values`,
		`core: rule "other": value: only a distinct limit counts values`,
		`core: rule "shared": scope: "login" is also the scope of rule "login": a key has one value at a time`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestLimitForFindsLimitsOnValuesIfThereIsAValue(t *testing.T) {
	for _, found := range []limits.Limit{namesRule().Limit, perMinute(3)} {
		rule := namesRule()
		rule.Limit = limits.Limit{}
		rule.LimitFor = func(request, string) (limits.Limit, error) { return found, nil }
		plain := rule
		plain.Value = nil
		for _, rule := range []core.Rule[request]{rule, plain} {
			want := core.Unavailable
			if found.Algorithm().CountsValues() == (rule.Value != nil) {
				want = core.Allowed
			}
			l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{rule}})
			decide(t, l, request{user: "a", route: "ann"}, want)
		}
	}
}

// A request that another rule denies leaves no value, also where the rules are in two places.
func TestARequestThatIsDeniedElsewhereLeavesNoValue(t *testing.T) {
	for _, local := range []bool{false, true} {
		rule := namesRule()
		rule.Local = local
		l := core.MustNew(core.Config[request]{
			Backend: &elsewhere{inner: memory.MustNew(memory.Options{})},
			Rules:   []core.Rule[request]{{Name: "requests", Limit: perMinute(1), Key: byUser}, rule},
		})
		decide(t, l, request{user: "a", route: "ann"}, core.Allowed)
		decide(t, l, request{user: "a", route: "bob"}, core.Denied)
		d, err := l.ExplainKey(context.Background(), "login", "a", limits.Limit{})
		if err != nil || d.Remaining != 1 || !d.Allowed {
			t.Errorf("local %t: %+v, %v", local, d, err)
		}
	}
}

func TestTheFallbackCountsValues(t *testing.T) {
	l := core.MustNew(core.Config[request]{
		Backend: &elsewhere{err: errBroken}, Instances: 2, Rules: []core.Rule[request]{namesRule()},
	})
	decide(t, l, request{user: "a", route: "ann"}, core.Allowed)
	decide(t, l, request{user: "a", route: "ann"}, core.Allowed)
	o := decide(t, l, request{user: "a", route: "bob"}, core.Denied)
	if o.At(0).Source != limits.SourceFallback {
		t.Error(o.At(0))
	}
}

func TestAShadowCountsValuesAndDeniesNothing(t *testing.T) {
	rule := namesRule()
	rule.Mode = core.Shadow
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{rule}})
	for i, name := range []string{"ann", "bob", "cat", "ann"} {
		o := decide(t, l, request{user: "a", route: name}, core.Allowed)
		if got := o.At(0).Allowed; got != (i != 2) {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A changed limit keeps the values that are known.
func TestAnOverrideKeepsValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{namesRule()}})
		decide(t, l, request{user: "a", route: "ann"}, core.Allowed)
		decide(t, l, request{user: "a", route: "bob"}, core.Allowed)
		fewer := core.Override{
			Limit: limits.Distinct(limits.PerHour(1)), Until: time.Now().Add(time.Hour),
		}
		if err := l.Override("login", fewer); err != nil {
			t.Fatal(err)
		}
		decide(t, l, request{user: "a", route: "ann"}, core.Allowed)
		decide(t, l, request{user: "a", route: "cat"}, core.Denied)
		fewer.Limit = perMinute(5)
		if err := l.Override("login", fewer); err == nil ||
			!strings.Contains(err.Error(), "only a distinct limit counts values") {
			t.Error(err)
		}
	})
}

func TestADecisionOnAValueAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it is given")
	}
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{namesRule()}})
	var o core.Outcome
	if n := testing.AllocsPerRun(100, func() {
		l.DecideInto(context.Background(), request{user: "a", route: "ann"}, &o)
	}); n != 0 || !o.Allowed() {
		t.Errorf("%v allocations, %v", n, o.Verdict())
	}
}

// sharing is a backend that makes the numbers of values, as one that several processes share does.
type sharing struct {
	backends.Backend
	got []string
}

func (s *sharing) Unwrap() backends.Backend { return s.Backend }

func (s *sharing) Digest(scope, key, value string) uint64 {
	s.got = append(s.got, scope+"/"+key+"/"+value)
	return uint64(len(value)) // so "ann" and "bob" are one value
}

func TestASharedBackendMakesTheNumberOfAValueOnce(t *testing.T) {
	b := &sharing{Backend: memory.MustNew(memory.Options{})}
	l := core.MustNew(core.Config[request]{Backend: b, Rules: []core.Rule[request]{namesRule()}})
	for _, name := range []string{"ann", "bob", "", "cat"} {
		decide(t, l, request{user: "a", route: name}, core.Allowed)
	}
	decide(t, l, request{user: "a", route: "dora"}, core.Denied)
	want := []string{"login/a/ann", "login/a/bob", "login/a/", "login/a/cat", "login/a/dora"}
	if !slices.Equal(b.got, want) {
		t.Errorf("%q, want %q", b.got, want)
	}
}
