package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

func rule(name string, limit limits.Limit, mode core.Mode) core.Rule[string] {
	return core.Rule[string]{Name: name, Limit: limit, Key: self, Mode: mode}
}

func TestAShadowNeverStandsInTheWay(t *testing.T) {
	broken := rule("broken", limits.FixedWindow(limits.PerDay(1)), core.Shadow)
	broken.Key = func(string) (string, error) { return "", errors.New("broken") }
	queue := rule("queue", limits.LeakyQueue(limits.PerMinute(1), 100), core.Shadow)
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		rule("shadow", limits.FixedWindow(limits.PerDay(1)), core.Shadow),
		rule("enforced", limits.FixedWindow(limits.PerDay(3)), core.Enforce),
		broken, queue,
	}})
	for i := range 3 {
		o := l.Decide(context.Background(), "ann")
		if !o.Allowed() || o.RetryAfter() != 0 || o.Delay() != 0 || o.Status() != 200 {
			t.Fatalf("request %d: %v, retry after %v, delay %v", i, o.Verdict(), o.RetryAfter(), o.Delay())
		}
		shadow := o.At(0)
		if shadow.Mode() != core.Shadow || shadow.Allowed != (i == 0) {
			t.Errorf("request %d: the shadow says %+v", i, shadow)
		}
		if b := o.BindingRule(); o.At(b).Rule() != "enforced" {
			t.Errorf("request %d: %q binds", i, o.At(b).Rule())
		}
	}
	if o := l.Decide(context.Background(), "ann"); o.Allowed() || o.At(1).Mode() != core.Enforce {
		t.Errorf("beyond the enforced limit: %v", o.Verdict())
	}
}

func TestSwitchingAShadowOnResetsNothing(t *testing.T) {
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{rule("a", limits.FixedWindow(limits.PerDay(2)), core.Shadow)}})
	for range 2 {
		l.Decide(context.Background(), "ann")
	}
	replace(t, l, rule("a", limits.FixedWindow(limits.PerDay(2)), core.Enforce))
	if o := l.Decide(context.Background(), "ann"); o.Allowed() {
		t.Error("a key that was used up as a shadow is fresh when enforced")
	}
}

func TestAShareOfTheKeysIsEnforcedTheSameEverywhere(t *testing.T) {
	enforced := func(percent int) map[string]bool {
		l := core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{rule("a", limits.FixedWindow(limits.PerDay(1)), core.EnforceFor(percent))}})
		keys := map[string]bool{}
		for i := range 2000 {
			key := fmt.Sprint("key", i)
			o := l.Decide(context.Background(), key)
			keys[key] = o.At(0).Mode() == core.Enforce
		}
		return keys
	}
	count := func(keys map[string]bool) (n int) {
		for _, in := range keys {
			if in {
				n++
			}
		}
		return n
	}
	quarter, half := enforced(25), enforced(50)
	if n := count(quarter); n < 400 || n > 600 {
		t.Errorf("25%% enforce for %d of 2000 keys", n)
	}
	if n := count(half); n < 880 || n > 1120 {
		t.Errorf("50%% enforce for %d of 2000 keys", n)
	}
	for key, in := range quarter {
		if in && !half[key] {
			t.Fatalf("%q is enforced at 25%% and not at 50%%", key)
		}
	}
	if again := enforced(25); fmt.Sprint(again) != fmt.Sprint(quarter) {
		t.Error("another limiter enforces for other keys")
	}
}

func TestDisabledRulesAreLeftOut(t *testing.T) {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		rule("off", limits.FixedWindow(limits.PerDay(1)), core.Disabled),
		rule("on", limits.FixedWindow(limits.PerDay(2)), core.Enforce),
	}})
	l.Decide(context.Background(), "ann")
	o := l.Decide(context.Background(), "ann")
	if o.Len() != 1 || o.At(0).Rule() != "on" || o.At(0).Index() != 1 || !o.Allowed() {
		t.Errorf("decided by %d rules, first %+v", o.Len(), o.At(0))
	}
	if rules := l.State().Rules; len(rules) != 2 || rules[0].Mode != core.Disabled {
		t.Errorf("Rules: %+v", rules)
	}
}

func TestAShadowThatFailsClosedClosesNothing(t *testing.T) {
	shadow := rule("shadow", limits.FixedWindow(limits.PerDay(1)), core.Shadow)
	shadow.OnFailure = core.FailClosed
	open := rule("open", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	open.OnFailure = core.FailOpen
	l := core.MustNew(core.Config[string]{Backend: unreachable{}, Rules: []core.Rule[string]{shadow, open}})
	o := l.Decide(context.Background(), "ann")
	if !o.Allowed() || o.At(0).Source != limits.SourceClosed || o.At(1).Source != limits.SourceOpen {
		t.Errorf("%v: %v, %v", o.Verdict(), o.At(0).Source, o.At(1).Source)
	}
}

func TestAReplacementWithAMistakeChangesNothing(t *testing.T) {
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)}})
	bad := []core.Rule[string]{rule("", limits.Limit{}, core.Mode(700)),
		rule("b", limits.FixedWindow(limits.PerDay(0)), core.Enforce)}
	err := l.Replace(bad)
	if err == nil || !strings.Contains(err.Error(), "mode") || !strings.Contains(err.Error(), `rule "b"`) {
		t.Errorf("Replace: %v", err)
	}
	l.Decide(context.Background(), "ann")
	if o := l.Decide(context.Background(), "ann"); o.Allowed() || o.At(0).Rule() != "a" {
		t.Errorf("after a replacement that failed: %v by %q", o.Verdict(), o.At(0).Rule())
	}
}

// Sixty-four goroutines decide while rules are replaced all the time between two sets of
// one scope. Every decision is by one of the sets, whole, and nothing is admitted beyond
// the limit that both have.
func TestReplacingUnderLoadLosesAndMixesNothing(t *testing.T) {
	sets := [2][]core.Rule[string]{}
	for i, suffix := range []string{"-one", "-two"} {
		for _, name := range []string{"a", "b"} {
			r := rule(name+suffix, limits.FixedWindow(limits.PerDay(5000)), core.Enforce)
			r.Scope = name
			sets[i] = append(sets[i], r)
		}
	}
	var names sync.Map // of the first rules, by revision
	l := core.MustNew(core.Config[string]{Rules: sets[0],
		Observer: prepares(func(revision int32, rules []core.Rule[string]) error {
			names.Store(revision, rules[0].Name)
			return nil
		})})
	var admitted, decided atomic.Int64
	var done atomic.Bool
	var deciding, replacing sync.WaitGroup
	replacing.Go(func() {
		for i := 1; !done.Load(); i++ {
			if err := l.Replace(sets[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	for range 64 {
		deciding.Go(func() {
			for range 200 {
				o := l.Decide(context.Background(), "ann")
				decided.Add(1)
				if o.Allowed() {
					admitted.Add(1)
				}
				name, _ := names.Load(o.Revision())
				if o.Len() != 2 || o.At(0).Rule()[1:] != o.At(1).Rule()[1:] || name != o.At(0).Rule() {
					t.Errorf("a request is decided by a mixture: %q, %q, %v", o.At(0).Rule(), o.At(1).Rule(), name)
				}
			}
		})
	}
	deciding.Wait()
	done.Store(true)
	replacing.Wait()
	if admitted.Load() != 5000 || decided.Load() != 64*200 {
		t.Errorf("%d of %d admitted, want 5000 of 12800", admitted.Load(), decided.Load())
	}
}

func TestARequestEndsByTheRulesThatDecidedIt(t *testing.T) {
	var ended []limits.Settlement
	refunded := rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	refunded.FinalCost = func(core.Result) int64 { return 0 }
	at := []core.Rule[string]{refunded, rule("at once", limits.Concurrent(1), core.Enforce)}
	l := core.MustNew(core.Config[string]{Rules: at,
		Observer: core.ObserverFuncs[string]{OnEnd: func(s limits.Settlement) { ended = append(ended, s) }}})
	o := l.Decide(context.Background(), "ann")
	replace(t, l, rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce))
	if held := l.State().Held; held != 1 {
		t.Errorf("Held = %d after the rule is gone, want 1", held)
	}
	o.End(core.Result{})
	if len(ended) != 2 || ended[0].Returned != 1 || ended[1].Returned != 1 {
		t.Errorf("settled %+v", ended)
	}
	if o := l.Decide(context.Background(), "ann"); !o.Allowed() {
		t.Error("the unit that was returned is not there")
	}
}

func TestAnOverrideEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{rule("a", limits.TokenBucket(limits.PerHour(1), 1), core.Enforce)}})
		more := core.Override{Limit: limits.TokenBucket(limits.PerHour(1), 3), Until: time.Now().Add(time.Minute),
			Why: "a busy day"}
		if err := l.Override("a", more); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if o := l.Decide(context.Background(), "ann"); o.Allowed() != (i < 3) {
				t.Errorf("request %d under the override: %v", i, o.Verdict())
			}
		}
		if state := l.State().Rules[0]; state.Limit != more.Limit || state.Override.Why != "a busy day" {
			t.Errorf("Rules: %+v", state)
		}
		replace(t, l, rule("a", limits.TokenBucket(limits.PerHour(1), 2), core.Enforce))
		if state := l.State().Rules[0]; state.Limit != more.Limit {
			t.Errorf("a replacement outranks the override: %+v", state)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if state := l.State().Rules[0]; state.Limit != limits.TokenBucket(limits.PerHour(1), 2) ||
			state.Override != (core.Override{}) {
			t.Errorf("after its end: %+v", state)
		}
		shadow := core.Shadow
		if err := l.Override("a", core.Override{Mode: &shadow, Until: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		if o := l.Decide(context.Background(), "ann"); !o.Allowed() || o.At(0).Mode() != core.Shadow {
			t.Errorf("overridden to a shadow: %v", o.Verdict())
		}
		if err := l.Override("a", core.Override{}); err != nil {
			t.Fatal(err)
		}
		if o := l.Decide(context.Background(), "ann"); o.Allowed() {
			t.Error("the override was cleared and is still in force")
		}
		if err := l.Override("a", core.Override{Mode: &shadow, Until: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		replace(t, l, rule("b", limits.TokenBucket(limits.PerHour(1), 2), core.Enforce))
		replace(t, l, rule("a", limits.TokenBucket(limits.PerHour(1), 2), core.Enforce))
		if state := l.State().Rules[0]; state.Mode != core.Enforce {
			t.Errorf("the override outlived its rule: %+v", state)
		}
	})
}

// A limit that is not set has no text, and would make the whole page an error.
func TestRulesAreJSON(t *testing.T) {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		rule("fixed", limits.SlidingWindow(limits.PerMinute(100)), core.EnforceFor(25)),
		{Name: "by plan", Key: self, Local: true, LimitFor: func(string, string) (limits.Limit, error) {
			return limits.FixedWindow(limits.PerDay(1)), nil
		}},
	}})
	shadow, until := core.Shadow, time.Now().Add(time.Hour)
	if err := l.Override("fixed", core.Override{Mode: &shadow, Until: until, Why: "an incident"}); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(l.State().Rules)
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := json.Marshal(until)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"Name":"fixed","Scope":"fixed","Limit":"sliding-window 100/1m","Mode":"shadow",` +
		`"Override":{"Mode":"shadow","Until":` + string(stamp) + `,"Why":"an incident"},` +
		`"GivenLimit":"sliding-window 100/1m","GivenMode":"enforce 25%"},` +
		`{"Name":"by plan","Scope":"by plan","Mode":"enforce","Local":true,"GivenMode":"enforce"}]`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestOverrideSaysWhatIsWrong(t *testing.T) {
	varying := rule("plan", limits.Limit{}, core.Enforce)
	varying.LimitFor = func(string, string) (limits.Limit, error) { return limits.FixedWindow(limits.PerDay(1)), nil }
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce), varying}})
	later, invalid := time.Now().Add(time.Hour), core.Mode(123)
	for want, try := range map[string]struct {
		rule string
		core.Override
	}{
		"no rule of this name":  {"none", core.Override{Until: later}},
		"until: is not set":     {"a", core.Override{Why: "because"}},
		"must be in the future": {"a", core.Override{Until: time.Unix(1, 0)}},
		"mode: must be":         {"a", core.Override{Mode: &invalid, Until: later}},
		"period must be":        {"a", core.Override{Limit: limits.FixedWindow(limits.Per(1, -1)), Until: later}},
		"override the mode":     {"plan", core.Override{Limit: limits.FixedWindow(limits.PerDay(1)), Until: later}},
	} {
		if err := l.Override(try.rule, try.Override); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// leavingCaller is a backend that fails because its caller has gone.
type leavingCaller struct {
	*memory.Memory
	leave context.CancelFunc
}

func (l leavingCaller) Peek(ctx context.Context, _ []backends.Charge, _ []limits.Decision) error {
	l.leave()
	return ctx.Err()
}

func TestAnExplanationThatNobodyAwaitsIsAbandoned(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	far := rule("far", limits.FixedWindow(limits.PerDay(2)), core.Enforce)
	near := rule("near", limits.FixedWindow(limits.PerDay(2)), core.Enforce)
	near.Local = true
	l := core.MustNew(core.Config[string]{
		Backend: &leavingCaller{memory.MustNew(memory.Options{}), cancel}, Rules: []core.Rule[string]{far, near},
	})
	if o := l.Explain(ctx, "ann"); o.Verdict() != core.Abandoned || o.Len() != 0 || !errors.Is(o.Err(), context.Canceled) {
		t.Errorf("%v by %d rules: %v", o.Verdict(), o.Len(), o.Err())
	}
}

func TestExplainTakesNothing(t *testing.T) {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		rule("a", limits.FixedWindow(limits.PerDay(2)), core.Enforce),
		rule("b", limits.FixedWindow(limits.PerDay(1)), core.Shadow),
	}})
	for range 5 {
		o := l.Explain(context.Background(), "ann")
		if !o.Allowed() || o.Len() != 2 || o.At(0).Remaining != 2 {
			t.Fatalf("%v of %d rules, %d left", o.Verdict(), o.Len(), o.At(0).Remaining)
		}
	}
	l.Decide(context.Background(), "ann")
	d, err := l.ExplainKey(context.Background(), "a", "ann", limits.Limit{})
	if err != nil || !d.Allowed || d.Remaining != 1 {
		t.Errorf("ExplainKey: %+v, %v", d, err)
	}
	if _, err := l.ExplainKey(context.Background(), "none", "ann", limits.Limit{}); err == nil {
		t.Error("ExplainKey explains a rule that there is not")
	}
}

func TestOneListOfRulesAnswersAllPeeks(t *testing.T) {
	old := rule("old", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{old}})
	peeks := l.PeekEach(t.Context(), slices.Values([]string{"ann", "bob", "eve"}))
	for range 2 { // each time the rules that are in force then
		var told []string
		for o := range peeks {
			told = append(told, o.At(0).Rule())
			replaced := rule(told[0]+"er", limits.FixedWindow(limits.PerDay(2)), core.Enforce)
			if err := l.Replace([]core.Rule[string]{replaced}); err != nil {
				t.Fatal(err)
			}
			if len(told) == 2 {
				break
			}
		}
		if len(told) != 2 || told[1] != told[0] {
			t.Errorf("got rules %v", told)
		}
	}
	if now := l.State().Rules[0].Name; now != "olderer" {
		t.Errorf("the rule in force is %q", now)
	}
}

func TestAPeekAsksForRulesBehindALocalDenial(t *testing.T) {
	b := newRemote(0)
	far := rule("far", limits.FixedWindow(limits.PerDay(9)), core.Enforce)
	near := rule("near", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	near.Local = true
	l := core.MustNew(core.Config[string]{Backend: b, Rules: []core.Rule[string]{far, near}})
	decideOn(l, "ann")
	if o := l.Explain(t.Context(), "ann"); o.At(0).Source != limits.SourceNotAsked {
		t.Errorf("Explain asks the backend: %+v", o.At(0))
	}
	o := l.Peek(t.Context(), "ann")
	if o.Verdict() != core.Denied || o.At(0).Remaining != 8 || o.At(1).Remaining != 0 {
		t.Errorf("%v: %+v and %+v", o.Verdict(), o.At(0), o.At(1))
	}
	b.fails.Store(true)
	if o := l.Peek(t.Context(), "ann"); o.Verdict() != core.Unavailable || o.Err() == nil {
		t.Errorf("%v with a failed backend: %v", o.Verdict(), o.Err())
	}
}
