package core_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

func TestADecisionReadInPlaceIsTheSame(t *testing.T) {
	plans := map[string]limits.Limit{"ann": limits.TokenBucket(limits.PerMinute(5), 9), "bob": perMinute(2)}
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
		{Name: "a", Limit: limits.LeakyQueue(limits.PerSecond(1), 5), Key: byUser},
		{Name: "b", Key: byUser, LimitFor: func(r request) (limits.Limit, error) { return plans[r.user], nil }},
		{Name: "c", Limit: perMinute(1), Key: byUser, Mode: core.Shadow},
		{Name: "d", Limit: perMinute(3), Key: byUser, Cost: byCost},
	}})
	for i := range 6 {
		o := l.Decide(t.Context(), request{user: []string{"ann", "bob"}[i%2], cost: 2})
		for i := range o.Len() {
			d, p := o.At(i), o.InPlace(i)
			got := fmt.Sprint(p.Index(), p.Rule(), p.Mode(), p.Cost(), p.Allowed(), p.Source(), p.Remaining(), p.Delay(), p.Most())
			want := fmt.Sprint(d.Index, d.Rule, d.Mode, d.Cost, d.Allowed, d.Source, d.Remaining, d.Delay, d.Limit.Burst())
			if got != want {
				t.Errorf("%s: want %s", got, want)
			}
		}
	}
}

func byCost(r request) int64 { return r.cost }

// Counters read every decision, so they read it in place.
func ExampleOutcome_InPlace() {
	taken := map[string]int64{}
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{{
			Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(9)),
			Key: func(client string) (string, error) { return client, nil },
		}},
		Observe: func(_ context.Context, _ string, o core.Outcome) {
			for i := range o.Len() {
				if p := o.InPlace(i); o.Allowed() && p.Allowed() {
					taken[p.Rule()] += p.Cost()
				}
			}
		},
	})
	l.Decide(context.Background(), "ann")
	fmt.Println(taken)
	// Output: map[per-client:1]
}

func TestDisplacedKeysAreCounted(t *testing.T) {
	m := memory.New(memory.Options{MaxKeys: 64})
	out := make([]limits.Decision, 1)
	for i := range 500 {
		if err := m.Take(t.Context(), []limits.Charge{{Scope: "s", Key: fmt.Sprint(i), Limit: perMinute(9), Cost: 1}}, out); err != nil {
			t.Fatal(err)
		}
	}
	live, _ := m.Count(t.Context())
	if int(m.Displaced())+live != 500 || live < 64 || m.MaxKeys() != 64 {
		t.Errorf("%d displaced, %d live of %d: want 500 in all", m.Displaced(), live, m.MaxKeys())
	}
	if n := memory.New(memory.Options{}).MaxKeys(); n != 262_144 {
		t.Errorf("MaxKeys is %d unless set", n)
	}
}

func ExampleMemory_Displaced() {
	m := memory.New(memory.Options{MaxKeys: 1000})
	fmt.Println(m.Displaced(), "keys displaced of", m.MaxKeys())
	// Output: 0 keys displaced of 1000
}
