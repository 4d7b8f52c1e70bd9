package core_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// request is what the limiters of these tests decide.
type request struct {
	user, route string
	cost        int64
}

func byUser(r request) (string, error) {
	if r.user == "" {
		return "", core.ErrAbsent
	}
	return r.user, nil
}

func byRoute(r request) (string, error) { return r.route, nil }

var errBroken = errors.New("broken")

func fails(request) (string, error) { return "", errBroken }

func panics(request) (string, error) { panic("boom") }

func decide(t *testing.T, l *core.Limiter[request], r request, want core.Verdict) core.Outcome {
	t.Helper()
	o := l.Decide(context.Background(), r)
	if o.Verdict() != want {
		t.Fatalf("%+v: %v (%v), want %v", r, o.Verdict(), o.Err(), want)
	}
	return o
}

func perMinute(n int64) limits.Limit { return limits.FixedWindow(limits.PerMinute(n)) }

func TestNewReportsEveryMistakeAtOnce(t *testing.T) {
	_, err := core.New(core.Config[request]{
		Instances: -1,
		Rules: []core.Rule[request]{
			{Name: "login", Limit: limits.SlidingWindow(limits.Per(3, -time.Second)), Key: byUser},
			{Name: "login", Limit: perMinute(1)},
			{Name: "", Limit: perMinute(1), Key: byUser},
			{Name: "naïve", Limit: perMinute(1), Key: byUser},
			{Name: strings.Repeat("x", 65), Limit: perMinute(1), Key: byUser},
			{Name: "plan", Limit: perMinute(1),
				LimitFor: func(request, string) (limits.Limit, error) { return limits.Limit{}, nil }, Key: byUser},
			{Name: "unset", Key: byUser},
			{Name: "policy", Limit: perMinute(1), Key: byUser, OnFailure: 9},
			{Name: "unit", Limit: perMinute(1), Key: byUser, Unit: 7},
			{Name: "a", Scope: "shared", Limit: perMinute(1), Key: byUser},
			{Name: "b", Scope: "shared", Limit: perMinute(2), Key: byUser},
			{Name: "when", Limit: perMinute(1), Key: core.When(nil, byUser)},
			{Name: "scoped", Scope: "a\nb", Limit: perMinute(1), Key: byUser},
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"core: instances: must be positive, or 0 for 1 (got -1)",
		`core: rule "login": limit: period must be positive (got -1s)`,
		`core: rule "login": name: another rule has the same name: rename one`,
		`core: rule "login": key: is nil`,
		`core: rule 3 of 13: name: is empty`,
		`core: rule "naïve": name: must be printable ASCII`,
		"must be at most 64 characters (got 65)",
		`core: rule "plan": limit: both Limit and LimitFor are set`,
		`core: rule "unset": limit: limit is not set`,
		`core: rule "policy": on failure: must be`,
		`core: rule "unit": unit: must be Requests, ContentBytes, Tokens, InputTokens, OutputTokens or Money (got 7)`,
		`core: rule "b": scope: "shared" is also the scope of rule "a"`,
		`core: rule "when": key: is nil`,
		`core: rule "scoped": scope: must be printable ASCII`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s\nin:\n%v", want, err)
		}
	}
	if _, err := core.New(core.Config[request]{}); err == nil || !strings.Contains(err.Error(), "no rules") {
		t.Errorf("a limiter without rules: %v", err)
	}
}

func TestMustNewPanicsWithTheMistake(t *testing.T) {
	defer func() {
		if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "no rules") {
			t.Errorf("panic %v, want one that says no rules", v)
		}
	}()
	core.MustNew(core.Config[request]{})
}

func TestARequestIsAllowedUntilOneRuleIsExceeded(t *testing.T) {
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
		{Name: "user", Limit: perMinute(2), Key: byUser},
		{Name: "route", Limit: perMinute(3), Key: byRoute},
	}})
	decide(t, l, request{user: "ann", route: "/"}, core.Allowed)
	decide(t, l, request{user: "ann", route: "/"}, core.Allowed)
	o := decide(t, l, request{user: "ann", route: "/"}, core.Denied)
	if user, route := o.At(0), o.At(1); user.Allowed || !route.Allowed || route.Remaining != 1 {
		t.Errorf("user %+v, route %+v: want user denied and route untouched at 1", user, route)
	}
	if o.BindingRule() != 0 {
		t.Errorf("binding = %d, want 0: the denied rule", o.BindingRule())
	}
	decide(t, l, request{user: "bob", route: "/"}, core.Allowed) // what ann's denied request left alone
	decide(t, l, request{user: "bob", route: "/"}, core.Denied)
}

func TestADeniedRequestBurnsNoOtherLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
			{Name: "minute", Limit: perMinute(1), Key: byUser},
			{Name: "hour", Limit: limits.FixedWindow(limits.PerHour(3)), Key: byUser},
		}})
		for range 3 {
			decide(t, l, request{user: "ann"}, core.Allowed)
			for range 10 {
				decide(t, l, request{user: "ann"}, core.Denied)
			}
			time.Sleep(time.Minute)
		}
		o := decide(t, l, request{user: "ann"}, core.Denied)
		if d := o.At(1); d.Allowed || d.Remaining != 0 {
			t.Errorf("hour: %+v, want spent by three requests", d)
		}
	})
}

func TestDeniedAlwaysWinsTheMerge(t *testing.T) {
	// The allowed rule has less remaining and resets later than the denied one.
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
		{Name: "small", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: byRoute},
		{Name: "costly", Limit: perMinute(5), Key: byUser, Cost: func(r request) int64 { return r.cost }},
	}})
	o := decide(t, l, request{user: "ann", route: "/", cost: 6}, core.Denied)
	if o.BindingRule() != 1 || o.RetryAfter() != limits.Never || o.At(1).Remaining != 5 {
		t.Errorf("binding %d, retry after %v: want the denied rule and Never", o.BindingRule(), o.RetryAfter())
	}
}

func TestRetryAfterIsTheLongestOfTheDenied(t *testing.T) {
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
		{Name: "second", Limit: limits.TokenBucket(limits.PerSecond(1), 1), Key: byUser},
		{Name: "hour", Limit: limits.TokenBucket(limits.PerHour(1), 1), Key: byUser},
	}})
	decide(t, l, request{user: "ann"}, core.Allowed)
	o := decide(t, l, request{user: "ann"}, core.Denied)
	if got := o.RetryAfter(); got < 59*time.Minute {
		t.Errorf("retry after %v, want the hour's", got)
	}
	if o.BindingRule() != 1 {
		t.Errorf("binding = %d, want the rule with the longest wait", o.BindingRule())
	}
}

func TestRequestsWithoutTheKeyShareOne(t *testing.T) {
	for name, key := range map[string]func(request) (string, error){
		"ErrAbsent": byUser,
		"wrapped":   func(request) (string, error) { return "ignored", fmt.Errorf("no cookie: %w", core.ErrAbsent) },
		"empty key": func(request) (string, error) { return "", nil },
	} {
		l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: key}}})
		o := decide(t, l, request{route: "/a"}, core.Allowed)
		if o.At(0).Key != "" {
			t.Errorf("%s: key %q, want the reserved one", name, o.At(0).Key)
		}
		decide(t, l, request{route: "/b"}, core.Denied)
	}
}

func TestWhenLeavesARuleOut(t *testing.T) {
	isAPI := func(r request) bool { return r.route == "/api" }
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
		{Name: "api", Limit: perMinute(1), Key: core.When(isAPI, byUser)},
	}})
	for range 3 {
		if o := decide(t, l, request{user: "ann", route: "/"}, core.Allowed); o.Len() != 0 || o.BindingRule() != -1 {
			t.Errorf("%d rules apply, binding %d: want none", o.Len(), o.BindingRule())
		}
	}
	decide(t, l, request{user: "ann", route: "/api"}, core.Allowed)
	decide(t, l, request{user: "ann", route: "/api"}, core.Denied)
}

func TestPlansHaveTheirOwnLimits(t *testing.T) {
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{{
		Name: "plan", Key: byUser,
		LimitFor: func(r request, _ string) (limits.Limit, error) {
			if r.user == "pro" {
				return perMinute(3), nil
			}
			return perMinute(1), nil
		},
	}}})
	decide(t, l, request{user: "free"}, core.Allowed)
	decide(t, l, request{user: "free"}, core.Denied)
	for range 3 {
		o := decide(t, l, request{user: "pro"}, core.Allowed)
		if o.At(0).Limit() != perMinute(3) {
			t.Errorf("limit %v, want pro's", o.At(0).Limit())
		}
	}
	decide(t, l, request{user: "pro"}, core.Denied)
}

func TestLimitForIsPassedTheKeyThatWasFound(t *testing.T) {
	asked := 0
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{{
		Name: "plan",
		Key: func(r request) (string, error) {
			asked++
			if r.user == "nobody" {
				return "ignored", core.ErrAbsent
			}
			return "user:" + r.user, nil
		},
		LimitFor: func(r request, key string) (limits.Limit, error) {
			if want := map[string]string{"pro": "user:pro", "nobody": "", "free": "user:free"}[r.user]; key != want {
				t.Errorf("%s: got the key %q, want %q", r.user, key, want)
			}
			if key == "user:pro" {
				return perMinute(3), nil
			}
			return perMinute(1), nil
		},
	}}})
	for _, user := range []string{"pro", "free", "nobody"} {
		asked = 0
		want := perMinute(1)
		if user == "pro" {
			want = perMinute(3)
		}
		if o := decide(t, l, request{user: user}, core.Allowed); o.At(0).Limit() != want {
			t.Errorf("%s: limit %v, want %v", user, o.At(0).Limit(), want)
		}
		if o := l.Explain(t.Context(), request{user: user}); o.At(0).Limit() != want {
			t.Errorf("%s: explained by %v, want %v", user, o.At(0).Limit(), want)
		}
		if asked != 2 {
			t.Errorf("%s: the key was found %d times for two calls", user, asked)
		}
	}
	if _, err := l.ExplainKey(t.Context(), "plan", "user:pro", limits.Limit{}); err == nil {
		t.Error("the limit of a key is explained without one")
	}
}

func TestARequestWithoutAnIdentityIsUnavailableAndFree(t *testing.T) {
	one := func(request) int64 { return 1 }
	for name, rule := range map[string]core.Rule[request]{
		"key fails":     {Limit: perMinute(1), Key: fails},
		"key panics":    {Limit: perMinute(1), Key: panics},
		"cost negative": {Limit: perMinute(1), Key: byUser, Cost: func(request) int64 { return -3 }},
		"cost panics":   {Limit: perMinute(1), Key: byUser, Cost: func(request) int64 { panic("boom") }},
		"limit fails": {Key: byUser,
			LimitFor: func(request, string) (limits.Limit, error) { return perMinute(1), errBroken }},
		"limit illegal": {Key: byUser, LimitFor: func(request, string) (limits.Limit, error) { return perMinute(0), nil }},
		"limit for key": {Key: byUser,
			LimitFor: func(request, string) (limits.Limit, error) { return perMinute(1), errBroken }},
		"of key, illegal": {Key: byUser, LimitFor: func(request, string) (limits.Limit, error) { return perMinute(0), nil }},
		"of key, panics":  {Key: byUser, LimitFor: func(request, string) (limits.Limit, error) { panic("boom") }, Cost: one},
		"limit panics":    {Key: byUser, LimitFor: func(request, string) (limits.Limit, error) { panic("boom") }, Cost: one},
		"fallback policy": {Limit: perMinute(1), Key: fails, OnFailure: core.FallBack},
		"closed policy":   {Limit: perMinute(1), Key: fails, OnFailure: core.FailClosed},
	} {
		t.Run(name, func(t *testing.T) {
			rule.Name = "broken"
			m := memory.MustNew(memory.Options{})
			first := core.Rule[request]{Name: "first", Limit: perMinute(1), Key: byUser}
			l := core.MustNew(core.Config[request]{Backend: m, Rules: []core.Rule[request]{first, rule}})
			o := decide(t, l, request{user: "ann"}, core.Unavailable)
			if o.Err() == nil || !strings.Contains(o.Err().Error(), `core: rule "broken": `) {
				t.Errorf("error %v does not name the rule", o.Err())
			}
			if n, _ := m.Count(t.Context()); n != 0 {
				t.Errorf("%d keys were charged, want none", n)
			}
			if d := o.At(0); d.Source != limits.SourceNotAsked {
				t.Errorf("first: %+v, want not asked", d)
			}
			if d := o.At(o.Len() - 1); d.Source != limits.SourceClosed || d.Allowed || d.RetryAfter <= 0 {
				t.Errorf("broken: %+v, want closed, with a wait", d)
			}

			rule.OnFailure = core.FailOpen
			l = core.MustNew(core.Config[request]{Backend: m, Rules: []core.Rule[request]{first, rule}})
			o = decide(t, l, request{user: "ann"}, core.Allowed)
			if d := o.At(1); d.Source != limits.SourceOpen || !d.Allowed || o.Err() == nil {
				t.Errorf("broken rule that fails open: %+v, %v", d, o.Err())
			}
			decide(t, l, request{user: "ann"}, core.Denied) // the other rule was counted
		})
	}
}

func TestABackendThatFailsEndsAsTheRulesSay(t *testing.T) {
	rule := func(name string, key func(request) (string, error), f core.FailurePolicy) core.Rule[request] {
		return core.Rule[request]{Name: name, Limit: perMinute(2), Key: key, OnFailure: f}
	}
	for _, down := range []*asking.Broken{{Err: errBroken}, {Err: nil}} {
		back, backToo := rule("back", byUser, core.FallBack), rule("back too", byRoute, core.FallBack)
		open, closed := rule("open", byRoute, core.FailOpen), rule("closed", byUser, core.FailClosed)

		t.Run("fall back and open", func(t *testing.T) {
			l := core.MustNew(core.Config[request]{Backend: down, Rules: []core.Rule[request]{back, open, backToo}})
			for range 2 {
				o := decide(t, l, request{user: "ann", route: "/"}, core.Allowed)
				s := [3]limits.Source{o.At(0).Source, o.At(1).Source, o.At(2).Source}
				if s != [3]limits.Source{limits.SourceFallback, limits.SourceOpen, limits.SourceFallback} {
					t.Errorf("sources %v", s)
				}
				if o.Err() == nil {
					t.Error("the failure is not in the outcome")
				}
				if down.Err != nil && !errors.Is(o.Err(), errBroken) {
					t.Errorf("error %v, want the backend's", o.Err())
				}
			}
			o := decide(t, l, request{user: "ann", route: "/"}, core.Denied)
			if o.At(0).Allowed || !o.At(1).Allowed {
				t.Errorf("back %+v, open %+v", o.At(0), o.At(1))
			}
		})
		t.Run("any closed rule closes the request", func(t *testing.T) {
			local := memory.MustNew(memory.Options{})
			l := core.MustNew(core.Config[request]{Backend: down, Fallback: local,
				Rules: []core.Rule[request]{back, open, closed}})
			o := decide(t, l, request{user: "ann", route: "/"}, core.Unavailable)
			if o.At(2).Source != limits.SourceClosed || o.At(0).Source != limits.SourceNotAsked ||
				o.At(1).Source != limits.SourceNotAsked {
				t.Errorf("sources %v %v %v", o.At(0).Source, o.At(1).Source, o.At(2).Source)
			}
			if n, _ := local.Count(t.Context()); n != 0 {
				t.Errorf("%d keys were charged locally, want none", n)
			}
		})
		t.Run("one closed rule alone", func(t *testing.T) {
			l := core.MustNew(core.Config[request]{Backend: down, Rules: []core.Rule[request]{closed}})
			decide(t, l, request{user: "ann"}, core.Unavailable)
		})
		t.Run("a fallback that fails too", func(t *testing.T) {
			l := core.MustNew(core.Config[request]{Backend: down, Fallback: down, Rules: []core.Rule[request]{back, open}})
			o := decide(t, l, request{user: "ann", route: "/"}, core.Unavailable)
			if o.At(0).Source != limits.SourceClosed || o.At(1).Source != limits.SourceOpen {
				t.Errorf("sources %v %v", o.At(0).Source, o.At(1).Source)
			}
		})
	}
}

func TestEachInstanceFallsBackToItsShare(t *testing.T) {
	l := core.MustNew(core.Config[request]{
		Backend: &asking.Broken{Err: errBroken}, Instances: 4,
		Rules: []core.Rule[request]{{Name: "user", Limit: perMinute(10), Key: byUser}},
	})
	for range 3 {
		o := decide(t, l, request{user: "ann"}, core.Allowed)
		if o.At(0).Limit() != perMinute(3) {
			t.Errorf("limit %v, want the share", o.At(0).Limit())
		}
	}
	decide(t, l, request{user: "ann"}, core.Denied)
}

func TestEachPlanFallsBackToItsOwnShare(t *testing.T) {
	l := core.MustNew(core.Config[request]{
		Backend: &asking.Broken{Err: errBroken}, Instances: 4,
		Rules: []core.Rule[request]{{
			Name: "plan", Key: byUser,
			LimitFor: func(r request, _ string) (limits.Limit, error) {
				if r.user == "pro" {
					return limits.TokenBucket(limits.PerMinute(10), 7), nil
				}
				return perMinute(1), nil
			},
		}, {
			Name: "route", Limit: perMinute(100), Key: byRoute,
		}},
	})
	for i := range 2 {
		o := decide(t, l, request{user: "pro", route: "/"}, core.Allowed)
		plan, route := o.At(0), o.At(1)
		if plan.Limit() != limits.TokenBucket(limits.PerMinute(3), 2) || plan.Remaining != int64(1-i) ||
			plan.Source != limits.SourceFallback {
			t.Errorf("plan %+v, want a quarter of pro's", plan)
		}
		if route.Limit() != perMinute(25) || route.Remaining != int64(24-i) {
			t.Errorf("route %+v, want a quarter", route)
		}
	}
	decide(t, l, request{user: "pro", route: "/"}, core.Denied)
	if o := decide(t, l, request{user: "free", route: "/"}, core.Allowed); o.At(0).Limit() != perMinute(1) {
		t.Errorf("plan %+v, want free's, which is not less than 1", o.At(0))
	}
	decide(t, l, request{user: "free", route: "/"}, core.Denied)
}

// A rule whose shape the memory refuses must end as a failure, also where the
// limiter takes its shortcut for one rule on memory.
func TestAMemoryThatRefusesAChargeIsAFailure(t *testing.T) {
	m := memory.MustNew(memory.Options{})
	rule := core.Rule[request]{Name: "user", Limit: perMinute(10), Key: byUser,
		Cost: func(r request) int64 { return r.cost }}
	l := core.MustNew(core.Config[request]{Backend: m, Rules: []core.Rule[request]{rule}})
	decide(t, l, request{user: "ann", cost: -1}, core.Unavailable)
	decide(t, l, request{user: "ann", cost: 0}, core.Allowed)
	decide(t, l, request{user: "ann", cost: 11}, core.Denied)
	decide(t, l, request{user: "ann", cost: 10}, core.Allowed)
	decide(t, l, request{user: "ann", cost: 0}, core.Allowed)
}

func TestAnEndedContextGetsNoAnswerAndCostsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := memory.MustNew(memory.Options{})
	var observed []core.Verdict
	l := core.MustNew(core.Config[request]{
		Backend: m,
		Rules:   []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}},
		Observer: core.ObserverFuncs[request]{
			OnDecision: func(_ context.Context, _ request, o core.Outcome) { observed = append(observed, o.Verdict()) }},
	})
	o := l.Decide(ctx, request{user: "ann"})
	if o.Verdict() != core.Abandoned || !errors.Is(o.Err(), context.Canceled) || o.Allowed() {
		t.Errorf("verdict %v, error %v", o.Verdict(), o.Err())
	}
	if n, _ := m.Count(t.Context()); n != 0 {
		t.Errorf("%d keys charged: want none", n)
	}
	if !slices.Equal(observed, []core.Verdict{core.Abandoned}) {
		t.Errorf("observed %v: want abandoned, once", observed)
	}
}

func TestARequestThatIsAbandonedWhileItIsDecidedIsObserved(t *testing.T) {
	for name, key := range map[string]func(cancel func()) func(request) (string, error){
		"in the key function": func(cancel func()) func(request) (string, error) {
			return func(request) (string, error) { cancel(); return "ann", nil }
		},
		"in the backend": func(func()) func(request) (string, error) { return byUser },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var observed []core.Verdict
		l := core.MustNew(core.Config[request]{
			Backend: leaving{cancel},
			Rules:   []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: key(cancel)}},
			Observer: core.ObserverFuncs[request]{
				OnDecision: func(_ context.Context, _ request, o core.Outcome) { observed = append(observed, o.Verdict()) }},
		})
		if l.Decide(ctx, request{user: "ann"}); !slices.Equal(observed, []core.Verdict{core.Abandoned}) {
			t.Errorf("%s: observed %v: want abandoned, once", name, observed)
		}
	}
}

// leaving is a backend whose caller leaves while it is asked.
type leaving struct{ cancel context.CancelFunc }

func (b leaving) Take(ctx context.Context, _ []backends.Charge, _ []limits.Decision) error {
	b.cancel()
	return ctx.Err()
}

func TestACancelledRequestIsNoBackendFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	local := &asking.Broken{Err: errBroken}
	l := core.MustNew(core.Config[request]{
		Backend: leaving{cancel}, Fallback: local,
		Rules: []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}},
	})
	if o := l.Decide(ctx, request{user: "ann"}); o.Verdict() != core.Abandoned || local.Asked != 0 {
		t.Errorf("verdict %v, fallback asked %d times: want abandoned, never", o.Verdict(), local.Asked)
	}
}

// A backend that watches the deadline fails when it has passed, maybe before the context ends.
func TestADeadlineThatHasPassedIsNoBackendFailure(t *testing.T) {
	local := &asking.Broken{Err: errBroken}
	l := core.MustNew(core.Config[request]{
		Backend: &asking.Broken{Err: os.ErrDeadlineExceeded}, Fallback: local,
		Rules: []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}},
	})
	o := l.Decide(due{t.Context()}, request{user: "ann"})
	if o.Verdict() != core.Abandoned || !errors.Is(o.Err(), context.DeadlineExceeded) || local.Asked != 0 {
		t.Errorf("verdict %v, %v, fallback asked %d times: want abandoned, never", o.Verdict(), o.Err(), local.Asked)
	}
}

// due is a context whose deadline has passed, and which has not ended yet.
type due struct{ context.Context }

func (due) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

func TestAContextThatEndsWhileTheKeyIsFoundGetsNoAnswer(t *testing.T) {
	other := core.Rule[request]{Name: "other", Limit: perMinute(9), Key: byRoute}
	for name, keyErr := range map[string]error{"found": nil, "failed": context.Canceled} {
		for rules := 1; rules <= 2; rules++ {
			ctx, cancel := context.WithCancel(context.Background())
			m := memory.MustNew(memory.Options{})
			rule := core.Rule[request]{Name: "user", Limit: perMinute(9), Key: func(request) (string, error) {
				cancel()
				return "ann", keyErr
			}}
			l := core.MustNew(core.Config[request]{Backend: m, Rules: []core.Rule[request]{rule, other}[:rules]})
			o := l.Decide(ctx, request{user: "ann", route: "/"})
			if n, _ := m.Count(t.Context()); o.Verdict() != core.Abandoned || n != 0 {
				t.Errorf("%s, %d rules: %v, %d keys charged: want abandoned, none", name, rules, o.Verdict(), n)
			}
		}
	}
}

// silent is a backend that answers without deciding.
type silent struct{ answers []limits.Decision }

func (s *silent) Take(_ context.Context, _ []backends.Charge, out []limits.Decision) error {
	copy(out, s.answers)
	return nil
}

func TestWhatABackendDoesNotDecideIsDenied(t *testing.T) {
	b := &silent{answers: []limits.Decision{{Allowed: true, Remaining: 41}}}
	l := core.MustNew(core.Config[request]{Backend: b,
		Rules: []core.Rule[request]{{Name: "user", Limit: perMinute(50), Key: byUser}}})
	decide(t, l, request{user: "ann"}, core.Allowed)
	b.answers = nil
	for range 100 {
		decide(t, l, request{user: "bob"}, core.Denied)
	}
}

func TestEveryLineOfAnErrorNamesItsRule(t *testing.T) {
	_, err := core.New(core.Config[request]{
		Rules: []core.Rule[request]{{Name: "user", Limit: limits.TokenBucket(limits.Per(0, 0), 0), Key: byUser}}})
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, `core: rule "user": limit: `) {
			t.Errorf("line %q does not say whose limit", line)
		}
	}
}

func TestTheObserverSeesEveryDecidedRequestOnce(t *testing.T) {
	var seen []string
	l := core.MustNew(core.Config[request]{
		Rules: []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}},
		Observer: core.ObserverFuncs[request]{OnDecision: func(_ context.Context, r request, o core.Outcome) {
			seen = append(seen, fmt.Sprint(r.user, " ", o.Verdict(), " ", o.At(0).Rule(), " ", o.At(0).Source))
		}},
	})
	decide(t, l, request{user: "ann"}, core.Allowed)
	decide(t, l, request{user: "ann"}, core.Denied)
	if got, want := strings.Join(seen, ", "), "ann allowed user primary, ann denied user primary"; got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
}

func TestRulesOfOneScopeCountTogether(t *testing.T) {
	m := memory.MustNew(memory.Options{})
	rule := func(name, scope string) core.Rule[request] {
		return core.Rule[request]{Name: name, Scope: scope, Limit: perMinute(1), Key: byUser}
	}
	a := core.MustNew(core.Config[request]{Backend: m, Rules: []core.Rule[request]{rule("a", "accounts")}})
	b := core.MustNew(core.Config[request]{Backend: m, Rules: []core.Rule[request]{rule("b", "accounts")}})
	c := core.MustNew(core.Config[request]{Backend: m, Rules: []core.Rule[request]{rule("c", "")}})
	decide(t, a, request{user: "ann"}, core.Allowed)
	decide(t, b, request{user: "ann"}, core.Denied)
	decide(t, c, request{user: "ann"}, core.Allowed)
}

func TestTwoEqualRulesInOneRequestChargeBoth(t *testing.T) {
	rule := core.Rule[request]{Name: "a", Scope: "same", Limit: perMinute(4), Key: byUser}
	twin := rule
	twin.Name = "b"
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{rule, twin}})
	decide(t, l, request{user: "ann"}, core.Allowed)
	o := decide(t, l, request{user: "ann"}, core.Allowed)
	if o.At(0).Remaining != 0 || o.At(1).Remaining != 0 {
		t.Errorf("remaining %d and %d, want 0: two units each time", o.At(0).Remaining, o.At(1).Remaining)
	}
	decide(t, l, request{user: "ann"}, core.Denied)
}

func TestAnOutcomeHoldsAnyNumberOfRules(t *testing.T) {
	var rules []core.Rule[request]
	for i := range 9 {
		rules = append(rules, core.Rule[request]{Name: fmt.Sprint("rule ", i), Limit: perMinute(int64(20 - i)), Key: byUser})
	}
	l := core.MustNew(core.Config[request]{Rules: rules})
	o := decide(t, l, request{user: "ann"}, core.Allowed)
	for i := range 9 {
		d := o.At(i)
		if d.Index() != i || d.Rule() != rules[i].Name || d.Scope() != d.Rule() || d.Key != "ann" || d.Cost != 1 ||
			d.Remaining != int64(19-i) {
			t.Errorf("decision %d: %+v", i, d)
		}
	}
	if o.BindingRule() != 8 {
		t.Errorf("binding %d, want the lowest remaining", o.BindingRule())
	}
}

func TestTheZeroOutcomeAndDecisionDeny(t *testing.T) {
	var o core.Outcome
	var d limits.Decision
	if o.Allowed() || o.Verdict() != core.Denied || d.Allowed {
		t.Error("a zero value allows")
	}
}

func TestManyGoroutinesNeverGetOneUnitTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still while goroutines run
		l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
			{Name: "user", Limit: perMinute(100), Key: byUser},
			{Name: "route", Limit: limits.SlidingLog(limits.PerMinute(1000)), Key: byRoute},
		}})
		var wg sync.WaitGroup
		var mu sync.Mutex
		allowed := 0
		for range 64 {
			wg.Go(func() {
				for range 50 {
					o := l.Decide(context.Background(), request{user: "ann", route: "/"})
					mu.Lock()
					if o.Allowed() {
						allowed++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if allowed != 100 {
			t.Errorf("%d allowed, want 100", allowed)
		}
	})
}

// meeting is a backend whose callers wait for each other.
type meeting struct {
	inner   backends.Backend
	missing atomic.Int64
	all     chan struct{}
}

func (b *meeting) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if b.missing.Add(-1) == 0 {
		close(b.all)
	}
	<-b.all
	return b.inner.Take(ctx, charges, out)
}

// One request that waits for a far backend must not keep others from asking it,
// be they about other keys or the same one: with a lock held this never ends.
func TestNoLockIsHeldWhileABackendIsAsked(t *testing.T) {
	for _, cached := range []bool{false, true} {
		far := &meeting{inner: memory.MustNew(memory.Options{}), all: make(chan struct{})}
		far.missing.Store(20)
		var backend backends.Backend = far
		if cached {
			backend = remote.MustNewDenialCache(far, remote.DenialCacheOptions{MaxEntries: 1})
		}
		l := core.MustNew(core.Config[request]{Backend: backend, Rules: []core.Rule[request]{
			{Name: "user", Limit: perMinute(2), Key: byUser},
			{Name: "route", Limit: perMinute(20), Key: byRoute},
		}})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if o := l.Decide(t.Context(), request{user: fmt.Sprint(i / 2), route: "/"}); !o.Allowed() {
					t.Errorf("request %d: %v, %v", i, o.Verdict(), o.Err())
				}
			})
		}
		wg.Wait()
	}
}

// Decisions on two rules are in the outcome, those on more in one piece.
func TestADecisionByTwoRulesAllocatesNothing(t *testing.T) {
	keys := [...]string{"a", "b", "c", "d"}
	for n := 1; n <= len(keys); n++ {
		var rules []core.Rule[request]
		for i := range n {
			rules = append(rules,
				core.Rule[request]{Name: keys[i], Limit: limits.SlidingWindow(limits.PerMinute(5)), Key: byUser})
		}
		l := core.MustNew(core.Config[request]{Rules: rules})
		got := testing.AllocsPerRun(100, func() { l.Decide(context.Background(), request{user: "ann"}) })
		most := 0.0
		if n > 2 {
			most = 1
		}
		if got > most && !raceEnabled {
			t.Errorf("%d rules: %v allocations, want %v", n, got, most)
		}
	}
}

func TestADecisionNamesTheLimitOfItsRequest(t *testing.T) {
	for _, n := range []int64{1, 120, 1000} {
		var at int64
		limitOf := func() limits.Limit { return limits.TokenBucket(limits.PerMinute(1+at/100), 1+at%100) }
		l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{{
			Name: "plan", Key: byUser, LimitFor: func(request, string) (limits.Limit, error) { return limitOf(), nil },
		}}})
		decide := func() {
			at = (at + 1) % n
			o := l.Decide(context.Background(), request{user: "ann"})
			if got := o.At(0).Limit(); got != limitOf() {
				t.Errorf("limit %v, want %v", got, limitOf())
			}
		}
		each := func() {
			for range n {
				decide()
			}
		}
		if got := testing.AllocsPerRun(10, each); got > 2 && n <= 120 && !raceEnabled { // 2: a pool may be emptied
			t.Errorf("%d limits, each decided once: %v allocations, want 0", n, got)
		}
	}
}
