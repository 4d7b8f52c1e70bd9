package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	"github.com/weir-go/weir/remote"
)

// farAway hides that a backend is a Memory, as one behind a network is none.
type farAway struct{ *memory.Memory }

func (farAway) Unwrap() backends.Backend { return nil }

func local(r core.Rule[string]) core.Rule[string] {
	r.Local = true
	return r
}

// The last Local rule goes while a request holds one of its units.
func TestUnitsOfALocalRuleThatIsGoneReturn(t *testing.T) {
	backend := &farAway{memory.MustNew(memory.Options{})}
	slots := local(rule("slots", limits.Concurrent(1), core.Enforce))
	elsewhere := rule("elsewhere", limits.Concurrent(9), core.Enforce)
	l := core.MustNew(core.Config[string]{Backend: backend, Rules: []core.Rule[string]{slots, elsewhere}})
	o := l.Decide(context.Background(), "ann")
	replace(t, l, elsewhere)
	o.End(core.Result{})
	replace(t, l, slots, elsewhere)
	if o := l.Decide(context.Background(), "ann"); !o.Allowed() {
		t.Errorf("the slot of a request that has ended is not free: %v", o.Verdict())
	}
}

// A backend that is no pointer shares its fallback with no other limiter, but one limiter
// has one.
func TestTheFallbackOutlivesTheRules(t *testing.T) {
	a := rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	l := core.MustNew(core.Config[string]{Backend: unreachable{}, Rules: []core.Rule[string]{a}})
	if o := l.Decide(context.Background(), "ann"); !o.Allowed() {
		t.Fatal("the first request is denied")
	}
	replace(t, l, a)
	if o := l.Decide(context.Background(), "ann"); o.Allowed() {
		t.Error("a replacement has given the fallback a fresh budget")
	}
}

func replace(t *testing.T, l *core.Limiter[string], rules ...core.Rule[string]) {
	t.Helper()
	if err := l.Replace(rules); err != nil {
		t.Fatal(err)
	}
}

// The first rule with an end comes while requests run that have none.
func TestAnEndThatComesLater(t *testing.T) {
	var settled atomic.Int64
	plain := rule("a", limits.FixedWindow(limits.PerDay(1_000_000)), core.Enforce)
	ending := plain
	ending.FinalCost = func(core.Result) int64 { return 0 }
	slots := rule("slots", limits.Concurrent(64), core.Enforce)
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{plain},
		Observer: core.ObserverFuncs[string]{OnEnd: func(limits.Settlement) { settled.Add(1) }}})
	var deciding sync.WaitGroup
	var kept, ends atomic.Int64
	for range 32 {
		deciding.Go(func() {
			for range 100 {
				var o core.Outcome
				has := l.DecideInto(context.Background(), "ann", &o)
				if !o.Allowed() {
					t.Error("denied below the limit")
				}
				if has {
					ends.Add(int64(o.Len()))
				} else {
					kept.Add(1)
				}
				o.End(core.Result{})
			}
		})
	}
	replace(t, l, ending, slots)
	deciding.Wait()
	if held := l.State().Held; held != 0 || settled.Load() != ends.Load() {
		t.Errorf("%d units held, %d settled of %d", held, settled.Load(), ends.Load())
	}
	d, err := l.ExplainKey(context.Background(), "a", "ann", limits.Limit{})
	if err != nil || d.Remaining != 1_000_000-kept.Load() {
		t.Errorf("%d left (%v), want all but the %d that had no end", d.Remaining, err, kept.Load())
	}
}

// slowToSettle is a backend far away that takes its time to end what it has taken.
type slowToSettle struct{ *memory.Memory }

func (s slowToSettle) Unwrap() backends.Backend { return nil }

func (s slowToSettle) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	time.Sleep(10 * time.Millisecond)
	return s.Memory.Settle(ctx, endings, out)
}

// A client sends one request after the other, and the rule has no end any more.
func TestTheEndOfAnEarlierRuleIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
		refunded := plain
		refunded.FinalCost = func(core.Result) int64 { return 0 }
		l := core.MustNew(core.Config[string]{
			Backend: &slowToSettle{memory.MustNew(memory.Options{})}, Rules: []core.Rule[string]{refunded},
		})
		o := l.Decide(context.Background(), "ann")
		o.End(core.Result{})
		replace(t, l, plain)
		if o := l.Decide(context.Background(), "ann"); !o.Allowed() {
			t.Error("denied by the unit of a request that has ended")
		}
	})
}

// A rule changes its limit, and its kind, while a request holds a unit.
func TestHeldUnitsOutliveTheirLimit(t *testing.T) {
	at := func(limit limits.Limit) core.Rule[string] { return rule("a", limit, core.Enforce) }
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{at(limits.Concurrent(1))}})
	first := l.Decide(context.Background(), "ann")
	replace(t, l, at(limits.Concurrent(2)))
	second := l.Decide(context.Background(), "ann")
	if third := l.Decide(context.Background(), "ann"); !second.Allowed() || third.Allowed() {
		t.Errorf("with one of two held: %v, then %v", second.Verdict(), third.Verdict())
	}
	replace(t, l, at(limits.FixedWindow(limits.PerDay(5))))
	first.End(core.Result{})
	second.End(core.Result{})
	replace(t, l, at(limits.Concurrent(1)))
	if o := l.Decide(context.Background(), "ann"); !o.Allowed() {
		t.Error("a unit is still held after both requests have ended")
	}
}

func TestARenamedRuleOfOneScopeKeepsItsCount(t *testing.T) {
	old := rule("old", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	old.Scope = "a"
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{old}})
	l.Decide(context.Background(), "ann")
	renamed := old
	renamed.Name = "new"
	replace(t, l, renamed)
	if o := l.Decide(context.Background(), "ann"); o.Allowed() || o.At(0).Rule() != "new" {
		t.Errorf("after the rule has another name: %v by %q", o.Verdict(), o.At(0).Rule())
	}
}

func TestNoRulesAreAMistake(t *testing.T) {
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)}})
	if err := l.Replace(nil); err == nil || !strings.Contains(err.Error(), "no rules") {
		t.Errorf("Replace(nil): %v", err)
	}
	if o := l.Decide(context.Background(), "ann"); o.Len() != 1 {
		t.Errorf("decided by %d rules", o.Len())
	}
	replace(t, l, rule("a", limits.FixedWindow(limits.PerDay(1)), core.Disabled))
	if o := l.Decide(context.Background(), "ann"); !o.Allowed() || o.Len() != 0 || o.Revision() != 2 {
		t.Errorf("all rules are disabled: %v by %d rules", o.Verdict(), o.Len())
	}
}

// A denial that is cached is one of its limit.
func TestACachedDenialDoesNotOutliveItsLimit(t *testing.T) {
	at := func(n int64) core.Rule[string] { return rule("a", limits.FixedWindow(limits.PerDay(n)), core.Enforce) }
	cache := remote.MustNewDenialCache(&farAway{memory.MustNew(memory.Options{})}, remote.DenialCacheOptions{})
	l := core.MustNew(core.Config[string]{Backend: cache, Rules: []core.Rule[string]{at(1)}})
	l.Decide(context.Background(), "ann")
	l.Decide(context.Background(), "ann")
	if o := l.Decide(context.Background(), "ann"); o.At(0).Source != limits.SourceDenialCache {
		t.Fatalf("the denial is not cached: %v", o.At(0).Source)
	}
	replace(t, l, at(3))
	if o := l.Decide(context.Background(), "ann"); !o.Allowed() || o.At(0).Remaining != 1 {
		t.Errorf("under the higher limit: %v, %d left", o.Verdict(), o.At(0).Remaining)
	}
	err := l.Override("a", core.Override{Limit: limits.FixedWindow(limits.PerDay(2)), Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if o := l.Decide(context.Background(), "ann"); o.Allowed() {
		t.Error("allowed beyond the lower limit")
	}
}

// An override hides a mistake in the rules only until it ends.
func TestAnOverrideHidesNoMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
		a.Scope = "shared"
		b := a
		b.Name = "b"
		l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{a, b}})
		more := core.Override{Limit: limits.FixedWindow(limits.PerDay(9)), Until: time.Now().Add(time.Minute)}
		if err := l.Override("a", more); err != nil {
			t.Fatal(err)
		}
		b.Limit = limits.FixedWindow(limits.PerDay(2))
		if err := l.Replace([]core.Rule[string]{a, b}); err == nil ||
			!strings.Contains(err.Error(), "need one fixed, equal limit") {
			t.Errorf("limits that differ, under an override: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if state := l.State().Rules[0]; state.Override != (core.Override{}) || state.Limit != a.Limit {
			t.Errorf("the override has not ended: %+v", state)
		}
	})
}

func TestAnOverriddenLimitYieldsToALimitFor(t *testing.T) {
	shadow := core.Shadow
	a := rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{a}})
	more := core.Override{Mode: &shadow, Limit: limits.FixedWindow(limits.PerDay(9)), Until: time.Now().Add(time.Hour)}
	if err := l.Override("a", more); err != nil {
		t.Fatal(err)
	}
	a.Limit = limits.Limit{}
	a.LimitFor = func(string, string) (limits.Limit, error) { return limits.FixedWindow(limits.PerDay(1)), nil }
	replace(t, l, a)
	if o := l.Decide(context.Background(), "ann"); o.At(0).Limit() != limits.FixedWindow(limits.PerDay(1)) ||
		o.At(0).Mode() != core.Shadow {
		t.Errorf("decided by %+v", o.At(0))
	}
	if _, err := l.ExplainKey(context.Background(), "a", "ann", limits.Limit{}); err == nil ||
		!strings.Contains(err.Error(), "pass the limit of the key") {
		t.Errorf("ExplainKey without a limit: %v", err)
	}
}

func TestTwoOverridesOfAScopeNeedOneLimit(t *testing.T) {
	a := rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	a.Scope = "shared"
	b := a
	b.Name = "b"
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{a, b}})
	until := time.Now().Add(time.Hour)
	if err := l.Override("a", core.Override{Limit: limits.FixedWindow(limits.PerDay(8)), Until: until}); err != nil {
		t.Fatal(err)
	}
	if err := l.Override("b", core.Override{Limit: limits.FixedWindow(limits.PerDay(9)), Until: until}); err == nil ||
		!strings.Contains(err.Error(), `rule "a" has the same scope`) {
		t.Errorf("another limit: %v", err)
	}
	if err := l.Override("b", core.Override{Limit: limits.FixedWindow(limits.PerDay(8)), Until: until}); err != nil {
		t.Errorf("the same limit: %v", err)
	}
	if err := l.Override("a", core.Override{}); err != nil {
		t.Error(err)
	}
	if states := l.State().Rules; states[0].Limit != limits.FixedWindow(limits.PerDay(8)) ||
		states[1].Limit != states[0].Limit {
		t.Errorf("one override is left: %+v", states)
	}
}

func TestAnOverrideSharesNothingWithItsCaller(t *testing.T) {
	mode := core.Shadow
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)}})
	if err := l.Override("a", core.Override{Mode: &mode, Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
		t.Fatal(err)
	}
	mode = core.Disabled
	*l.State().Rules[0].Override.Mode = core.Disabled
	replace(t, l, rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce))
	if state := l.State().Rules[0]; state.Mode != core.Shadow {
		t.Errorf("the mode is %v", state.Mode)
	}
	if o := l.Decide(context.Background(), "ann"); o.Len() != 1 || o.At(0).Mode() != core.Shadow {
		t.Errorf("decided by %d rules", o.Len())
	}
}

// Overrides end, are replaced and cleared while requests and replacements run.
func TestOverridesEndUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := rule("a", limits.FixedWindow(limits.PerDay(1_000_000)), core.Enforce)
		l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{a}})
		var work sync.WaitGroup
		for i := range 8 {
			work.Go(func() {
				shadow := core.Shadow
				for n := range 100 {
					o := core.Override{Mode: &shadow, Until: time.Now().Add(time.Duration(1+(i+n)%3) * time.Millisecond)}
					switch {
					case i == 0:
						o = core.Override{}
					case i == 1:
						if err := l.Replace([]core.Rule[string]{a}); err != nil {
							t.Error(err)
						}
					}
					if err := l.Override("a", o); err != nil {
						t.Error(err)
					}
					if o := l.Decide(context.Background(), "ann"); !o.Allowed() || o.Len() != 1 {
						t.Errorf("%v by %d rules", o.Verdict(), o.Len())
					}
					l.State()
					time.Sleep(time.Millisecond)
				}
			})
		}
		work.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if state := l.State().Rules[0]; state.Override != (core.Override{}) || state.Mode != core.Enforce {
			t.Errorf("after all have ended: %+v", state)
		}
	})
}

// An override that ends in years does not keep a limiter that nobody uses.
func TestAnOverrideKeepsNoLimiter(t *testing.T) {
	collected := make(chan struct{})
	func() {
		l := core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)}})
		if err := l.Override("a", core.Override{Why: "forever", Until: time.Now().AddDate(100, 0, 0)}); err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(l, func(collected chan struct{}) { close(collected) }, collected)
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-collected:
			return
		default:
			runtime.Gosched()
		}
	}
	select {
	case <-collected:
	case <-time.After(30 * time.Second):
		t.Error("the limiter is still there")
	}
}

// prepares is an Observer that prepares for rules before they come into force, as adapters do.
type prepares func(revision int32, rules []core.Rule[string]) error

func (p prepares) Prepare(revision int32, rules []core.Rule[string]) error { return p(revision, rules) }
func (p prepares) Observed() core.Observer                                 { return nil }
func (p prepares) ObserveDecision(context.Context, any, core.Outcome)      {}
func (p prepares) ObserveEnd(limits.Settlement)                            {}
func (p prepares) ObserveLimiter(interface{ State() core.State })          {}

// A change that is refused while it is prepared for, or in which that panics, has not happened.
func TestAChangeThatIsRefusedChangesNothing(t *testing.T) {
	fail, boom := false, false
	modes := make(map[int32]core.Mode)
	a := rule("a", limits.FixedWindow(limits.PerDay(2)), core.Enforce)
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{a},
		Observer: prepares(func(revision int32, rules []core.Rule[string]) error {
			if boom {
				panic("boom")
			}
			if fail {
				return errors.New("no")
			}
			modes[revision] = rules[0].Mode
			return nil
		})})
	shadow := core.Override{Mode: new(core.Mode), Until: time.Now().Add(time.Hour)}
	*shadow.Mode = core.Shadow
	fail = true
	if err := l.Override("a", shadow); err == nil {
		t.Error("the override is in force")
	}
	boom = true
	func() {
		defer func() { _ = recover() }()
		_ = l.Override("a", shadow)
	}()
	fail, boom = false, false
	if state := l.State().Rules[0]; state.Mode != core.Enforce || state.Override != (core.Override{}) {
		t.Errorf("after changes that failed: %+v", state)
	}
	if err := l.Override("a", core.Override{}); err != nil {
		t.Error(err)
	}
	if err := l.Override("a", shadow); err != nil {
		t.Error(err)
	}
	if o := l.Decide(context.Background(), "ann"); modes[o.Revision()] != core.Shadow {
		t.Errorf("revision %d of %v", o.Revision(), modes)
	}
}

func TestRulesSayWhichDenialsAre503(t *testing.T) {
	key := func(int) (string, error) { return "k", nil }
	l, err := core.New(core.Config[int]{Rules: []core.Rule[int]{
		{Name: "client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: key},
		{Name: "service", Limit: limits.Concurrent(1), Key: key, DenyAs503: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if states := l.State().Rules; states[0].DenyAs503 || !states[1].DenyAs503 {
		t.Errorf("%+v", states)
	}
}

// A request keeps what the rules said when they decided it, also if its key has a share of its own, or
// another limit.
func TestARuleIsHiddenFromClientsAlone(t *testing.T) {
	shown := rule("shown", limits.FixedWindow(limits.PerHour(9)), core.Enforce)
	hidden := rule("hidden", limits.FixedWindow(limits.PerHour(9)), core.EnforceFor(50))
	hidden.Hidden = true
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{shown, hidden}})
	if states := l.State().Rules; states[0].Hidden || !states[1].Hidden {
		t.Errorf("%+v", states)
	}
	var kept []core.Outcome
	for i := range 20 {
		kept = append(kept, l.Decide(context.Background(), fmt.Sprint("key", i)))
	}
	if err := l.OverrideKey("hidden", "ann",
		core.Override{Limit: limits.FixedWindow(limits.PerHour(5)), Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, l.Decide(context.Background(), "ann"))
	shown.Hidden, hidden.Hidden = true, false
	if err := l.Replace([]core.Rule[string]{shown, hidden}); err != nil {
		t.Fatal(err)
	}
	for _, o := range kept {
		if o.Len() != 2 || o.At(0).Hidden() || !o.At(1).Hidden() || o.At(2).Hidden() {
			t.Errorf("decided before the change: %+v", o)
		}
	}
	if o := l.Decide(context.Background(), "ann"); !o.At(0).Hidden() || o.At(1).Hidden() {
		t.Errorf("decided after the change: %+v", o)
	}
	if states := l.State().Rules; !states[0].Hidden || states[1].Hidden {
		t.Errorf("%+v", states)
	}
}

func TestRulesSayWhatTheirKeysAre(t *testing.T) {
	named := rule("named", limits.FixedWindow(limits.PerHour(1)), core.Enforce)
	named.KeyName = "user or address"
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{named}})
	if got := l.State().Rules[0].KeyName; got != "user or address" {
		t.Errorf("it says %q", got)
	}
}
