package core_test

import (
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// What a limiter keeps of a request serves others when the request has ended. Copies of its
// outcome must do nothing to them, after however many: more than numbers tell apart.
func TestAnOutcomeThatHasEndedEndsNoOtherRequest(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that records live long
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		{Name: "busy", Limit: limits.Concurrent(1), Key: self},
		{Name: "tokens", Limit: limits.SlidingLog(limits.PerDay(1)), Key: self,
			FinalCost: core.OnStatus(func(int) bool { return false })},
	}})
	var old []core.Outcome
	requests := 1<<17 + 5
	if raceEnabled {
		requests = 1000 // records do not live long
	}
	for i := range requests {
		o := decideOn(l, "k")
		if !o.Allowed() {
			t.Fatalf("request %d is denied: something of the one before is left", i)
		}
		for _, old := range old {
			old.End(core.Result{Status: 200})
			if _, ok := old.Detach(); ok || old.Spend("tokens", 1) {
				t.Fatalf("request %d: an outcome that has ended is detached, or spends", i)
			}
		}
		if s := l.State(); s.Held != 1 || s.HeldSince.IsZero() {
			t.Fatalf("request %d: %d units are held, want 1: an outcome that has ended ended it", i, s.Held)
		}
		o.End(core.Result{Status: 200})
		if i&(i-1) == 0 && i < 1<<15 {
			old = append(old, o)
		}
	}
}

// Outcomes are ended by several goroutines at once, while the records of their requests
// already serve others.
func TestRequestsEndOnceThoughOutcomesAreEndedByMany(t *testing.T) {
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{{Name: "busy", Limit: limits.Concurrent(4), Key: self}}})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2000 {
				o := decideOn(l, "k")
				if !o.Allowed() {
					t.Error("denied: a unit was not released")
					return
				}
				copied, ended := o, make(chan struct{})
				go func() {
					defer close(ended)
					copied.End(core.Result{})
				}()
				o.End(core.Result{})
				if o.Spend("busy", 1) {
					t.Error("Spend after End counts")
				}
				<-ended
			}
		})
	}
	all.Wait()
	if s := l.State(); s.Held != 0 || !s.HeldSince.IsZero() {
		t.Errorf("%d units are held since %v after all have ended", s.Held, s.HeldSince)
	}
}

func TestUnitsAreReleasedThoughAnObserverEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{
				{Name: "a", Limit: limits.Concurrent(1), Key: self},
				{Name: "b", Limit: limits.Concurrent(1), Key: self},
				{Name: "c", Limit: limits.Concurrent(1), Key: self},
			},
			Observer: core.ObserverFuncs[string]{OnEnd: func(limits.Settlement) { runtime.Goexit() }},
		})
		for i := range 3 {
			o := decideOn(l, "k")
			if !o.Allowed() {
				t.Fatalf("request %d is denied: units of the one before are held", i)
			}
			go o.End(core.Result{})
			synctest.Wait()
		}
	})
}

func TestARequestWithAnEndCostsNoAllocation(t *testing.T) {
	held := core.Rule[string]{Name: "busy", Limit: limits.Concurrent(5), Key: self}
	rate := core.Rule[string]{Name: "rate", Limit: limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000_000),
		Key: self}
	tokens := core.Rule[string]{Name: "tokens", Limit: rate.Limit, Key: self, Cost: func(string) int64 { return 4 },
		FinalCost: func(core.Result) int64 { return 1 }}
	for name, rules := range map[string][]core.Rule[string]{
		"concurrency":     {held},
		"a rate as well":  {rate, held},
		"a final cost":    {rate, tokens},
		"two with an end": {held, tokens},
	} {
		l := core.MustNew(core.Config[string]{Rules: rules})
		got := testing.AllocsPerRun(1000, func() {
			o := decideOn(l, "k")
			o.End(core.Result{})
		})
		if got > 0 && !raceEnabled {
			t.Errorf("%s: %v allocations from start to end, want 0", name, got)
		}
	}
}
