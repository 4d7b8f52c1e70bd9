package core_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// far is a memory that counts as elsewhere, since limiters do not know it.
type far struct{ *memory.Memory }

func TestAKeyIsResetWhereItsRuleIsDecided(t *testing.T) {
	here := rule("here", limits.FixedWindow(limits.PerDay(1)), core.Enforce)
	here.Local = true
	there := rule("there", limits.FixedWindow(limits.PerDay(2)), core.Enforce)
	there.Scope = "elsewhere"
	b := far{memory.MustNew(memory.Options{})}
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{here, there}, Backend: b})
	ctx := context.Background()
	l.Decide(ctx, "ann")
	for i, name := range []string{"here", "there"} {
		if err := l.ResetKey(ctx, name, "ann"); err != nil {
			t.Fatal(err)
		}
		o := l.Explain(ctx, "ann")
		if got, want := o.At(i).Remaining, int64(i+1); got != want {
			t.Errorf("after the reset of %q: %d left, want %d", name, got, want)
		}
	}
}

func TestAResetThatCannotBeDoneSaysWhy(t *testing.T) {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{rule("at-once", limits.Concurrent(1), core.Enforce)}})
	for _, name := range []string{"none", "at-once"} {
		if err := l.ResetKey(context.Background(), name, "ann"); err == nil {
			t.Errorf("a key of %q is reset", name)
		}
	}
	broken := core.MustNew(core.Config[string]{
		Rules:   []core.Rule[string]{rule("a", limits.FixedWindow(limits.PerDay(1)), core.Enforce)},
		Backend: panicking{},
	})
	if err := broken.ResetKey(context.Background(), "a", "ann"); err == nil {
		t.Error("a backend that panics has reset a key")
	}
}

type panicking struct{}

func (panicking) Take(context.Context, []backends.Charge, []limits.Decision) error { panic("take") }
func (panicking) Reset(context.Context, string, string) error                      { panic("reset") }

func TestRulesTellWhatIsGivenFromWhatIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := limits.FixedWindow(limits.PerDay(1))
		l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{rule("a", given, core.EnforceFor(25))}})
		shadow := core.Shadow
		over := core.Override{Mode: &shadow, Limit: limits.FixedWindow(limits.PerDay(9)), Until: time.Now().Add(time.Minute)}
		if err := l.Override("a", over); err != nil {
			t.Fatal(err)
		}
		if r := l.State().Rules[0]; r.Limit != over.Limit || r.Mode != shadow || r.GivenLimit != given ||
			r.GivenMode != core.EnforceFor(25) {
			t.Errorf("with an override: %+v", r)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if r := l.State().Rules[0]; r.Limit != given || r.GivenLimit != given || r.Mode != r.GivenMode {
			t.Errorf("after the override: %+v", r)
		}
	})
}

// A customer who was denied by mistake is let in at once.
func ExampleLimiter_ResetKey() {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		{Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(1)), Key: self},
		{Name: "at-once", Limit: limits.Concurrent(9), Key: self},
	}})
	for range 2 {
		o := l.Decide(context.Background(), "ann")
		fmt.Println(o.Verdict())
	}
	if err := l.ResetKey(context.Background(), "per-user", "ann"); err != nil {
		fmt.Println(err)
	}
	o := l.Decide(context.Background(), "ann")
	fmt.Println(o.Verdict())
	fmt.Println(l.ResetKey(context.Background(), "at-once", "ann"))
	// Output:
	// allowed
	// denied
	// allowed
	// core: reset: rule "at-once": a concurrency limit has nothing to reset: its units are released when the requests end
}
