package core_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// A new limit is tried on everybody's requests before it denies any.
func ExampleShadow() {
	byName := func(name string) (string, error) { return name, nil }
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		{Name: "old", Limit: limits.FixedWindow(limits.PerDay(100)), Key: byName},
		{Name: "new", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byName, Mode: core.Shadow},
	}})
	for range 2 {
		o := l.Decide(context.Background(), "ann")
		fmt.Println(o.Verdict())
		for i := range o.Len() {
			if d := o.At(i); d.Mode() == core.Shadow && !d.Allowed {
				fmt.Println("would be denied by", d.Rule())
			}
		}
	}
	// Output:
	// allowed
	// allowed
	// would be denied by new
}

// A limit is enforced for a quarter of the keys, then for all. All keys were counted.
func ExampleEnforceFor() {
	rules := func(mode core.Mode) []core.Rule[string] {
		return []core.Rule[string]{{
			Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(1)), Mode: mode,
			Key: func(user string) (string, error) { return user, nil },
		}}
	}
	l := core.MustNew(core.Config[string]{Rules: rules(core.EnforceFor(25))})
	denied := func() (n int) {
		for user := range 1000 {
			if o := l.Decide(context.Background(), fmt.Sprint("user", user)); !o.Allowed() {
				n++
			}
		}
		return n
	}
	fmt.Println(l.State().Rules[0].Mode, denied() == 0, denied() < 300)
	if err := l.Replace(rules(core.Enforce)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(l.State().Rules[0].Mode, denied() == 1000)
	// Output:
	// enforce 25% true true
	// enforce true
}

// A mistake changes nothing.
func ExampleLimiter_Replace() {
	rule := core.Rule[string]{
		Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(10)),
		Key: func(user string) (string, error) { return user, nil },
	}
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{rule}})
	rule.Limit = limits.FixedWindow(limits.PerDay(0))
	fmt.Println(l.Replace([]core.Rule[string]{rule}))
	fmt.Println(l.State().Rules[0].Limit)
	// Output:
	// core: rule "per-user": limit: units of a fixed-window must be 1 to 1000000000 (got 0)
	// fixed-window 10/1d
}

// A limit is doubled for the evening, in this process.
func ExampleLimiter_Override() {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(10)),
		Key: func(user string) (string, error) { return user, nil },
	}}})
	err := l.Override("per-user", core.Override{
		Limit: limits.FixedWindow(limits.PerDay(20)), Until: time.Now().Add(4 * time.Hour), Why: "tickets are on sale",
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(l.State().Rules[0].Limit, l.State().Rules[0].Override.Why)
	if err := l.Override("per-user", core.Override{}); err != nil { // before its time
		fmt.Println(err)
	}
	fmt.Println(l.State().Rules[0].Limit)
	// Output:
	// fixed-window 20/1d tickets are on sale
	// fixed-window 10/1d
}

// One user may do more for a day. The others keep their limit.
func ExampleLimiter_OverrideKey() {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: func(user string) (string, error) { return user, nil },
	}}})
	err := l.OverrideKey("per-user", "ann", core.Override{
		Limit: limits.FixedWindow(limits.PerDay(2)), Until: time.Now().Add(24 * time.Hour), Why: "moves her data",
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, user := range []string{"ann", "ann", "bob", "bob"} {
		o := l.Decide(context.Background(), user)
		fmt.Println(user, o.Verdict())
	}
	// Output:
	// ann allowed
	// ann allowed
	// bob allowed
	// bob denied
}

// A page shows how many keys have limits of their own.
func ExampleLimiter_KeyOverrides() {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: func(user string) (string, error) { return user, nil },
	}}})
	more := core.Override{Limit: limits.FixedWindow(limits.PerDay(2)), Until: time.Now().Add(time.Hour)}
	if err := l.OverrideKey("per-user", "ann", more); err != nil {
		fmt.Println(err)
	}
	for _, o := range l.KeyOverrides("per-user") {
		fmt.Println(o.Limit)
	}
	if err := l.OverrideKey("per-user", "ann", core.Override{}); err != nil { // before its time
		fmt.Println(err)
	}
	fmt.Println(len(l.KeyOverrides("per-user")))
	// Output:
	// fixed-window 2/1d
	// 0
}

// A page shows how much a user has left under each rule. Asking takes nothing.
func ExampleLimiter_Peek() {
	byName := func(name string) (string, error) { return name, nil }
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		{Name: "a minute", Limit: limits.TokenBucket(limits.PerMinute(60), 10), Key: byName},
		{Name: "a day", Limit: limits.FixedWindow(limits.PerDay(1000)), Key: byName},
	}})
	l.Decide(context.Background(), "ann")
	for range 2 {
		o := l.Peek(context.Background(), "ann")
		for i := range o.Len() {
			d := o.At(i)
			fmt.Println(d.Rule(), d.Remaining, "of", d.Limit().Burst())
		}
	}
	// Output:
	// a minute 9 of 10
	// a day 999 of 1000
	// a minute 9 of 10
	// a day 999 of 1000
}

// A page shows how much a user has left on each path, all under the same rules.
func ExampleLimiter_PeekEach() {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "per-path", Limit: limits.FixedWindow(limits.PerMinute(60)),
		Key: func(path string) (string, error) { return path, nil },
	}}})
	l.Decide(context.Background(), "/search")
	paths := []string{"/search", "/items"}
	for o := range l.PeekEach(context.Background(), slices.Values(paths)) {
		fmt.Println(o.At(0).Key, o.At(0).Remaining)
	}
	// Output:
	// /search 59
	// /items 60
}
