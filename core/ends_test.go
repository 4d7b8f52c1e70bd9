package core_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// tagged is a backend that cannot be compared.
type tagged struct {
	backends.Backend
	tags []string
}

func (t tagged) Unwrap() backends.Backend { return t.Backend }

func TestABackendThatCannotBeComparedIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[string]{
			Backend: tagged{newRemote(0), nil},
			Rules:   []core.Rule[string]{{Name: "c", Limit: limits.Concurrent(1), Key: self}},
		})
		for range 3 {
			o := l.Decide(t.Context(), "ann")
			if !o.Allowed() {
				t.Fatal("denied by an end of its own process")
			}
			o.End(core.Result{})
			synctest.Wait()
		}
	})
}

// The state of a key in debt stays above the full one when it is displaced.
func TestADisplacedDebtStaysADebt(t *testing.T) {
	for _, limit := range []limits.Limit{limits.TokenBucket(limits.PerHour(10), 10),
		limits.TokenBucket(limits.PerSecond(10_000_000), 10_000)} {
		now := time.UnixMicro(1_700_000_000_000_000)
		m := memory.MustNew(memory.Options{MaxKeys: 4, Clock: func() time.Time { return now }})
		take := func(i int, n int64) limits.Decision {
			out := make([]limits.Decision, 1)
			if err := m.Take(t.Context(), []backends.Charge{{Scope: fmt.Sprint(i), Limit: limit, Cost: n}}, out); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		for i := range 60 {
			d := take(i, limit.Burst())
			asking.Settle(t, m, backends.Ending{Scope: fmt.Sprint(i), Limit: limit, Taken: limit.Burst(),
				Final: 3 * limit.Burst(), Ticket: d.Ticket})
		}
		for i := range 60 {
			if take(i, 1).Allowed {
				t.Fatalf("%v: key %d owes its maximum, was displaced, and is admitted", limit, i)
			}
		}
	}
}

// A refund may empty a state. Whoever read the clock before must not find a fresh key.
func TestALateCallerDoesNotReviveTheWindowBeforeARefund(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	now, next := start, []time.Time(nil)
	m := memory.MustNew(memory.Options{Clock: func() time.Time {
		if len(next) > 0 {
			at := next[0]
			next = next[1:]
			return at
		}
		return now
	}})
	limit := limits.FixedWindow(limits.Per(10, 10*time.Second))
	asking.Lasting(t, m, "k", limit, 10)
	now = start.Add(10 * time.Second)
	asking.Settle(t, m, asking.EndingOf(asking.Lasting(t, m, "k", limit, 1), "k", limit, 1, 0))
	next = []time.Time{now.Add(-time.Microsecond)}
	now = now.Add(2 * time.Millisecond)
	if d := asking.Lasting(t, m, "k", limit, 5); d.At < start.Add(10*time.Second).UnixMicro() {
		t.Errorf("a late caller counts in the window before: %+v", d)
	}
}

// A callback may end the goroutine, as t.FailNow does.
func TestNothingIsLostWhenACallbackEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, backend := range map[string]backends.Backend{"memory": nil, "remote": newRemote(0)} {
			exit := func(core.Result) int64 { runtime.Goexit(); return 0 }
			l := core.MustNew(core.Config[string]{
				Backend: backend,
				Rules: []core.Rule[string]{
					{Name: "c", Limit: limits.Concurrent(1), Key: self},
					{Name: "f", Limit: limits.SlidingWindow(limits.PerHour(100)), Key: self, FinalCost: exit},
				},
				Observer: core.ObserverFuncs[string]{OnEnd: func(limits.Settlement) { runtime.Goexit() }},
			})
			for i := range 3 {
				o := l.Decide(t.Context(), "ann")
				if !o.Allowed() {
					t.Fatalf("%s: request %d: the unit of the one before is lost", name, i)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					o.End(core.Result{})
				}()
				<-ended
				synctest.Wait()
			}
		}
	})
}

// Each ending is reported, though an observer ends its goroutine.
func TestEachEndIsReportedWhateverTheObserverDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := newRemote(time.Second)
		var reported atomic.Int64
		l := core.MustNew(core.Config[string]{
			Backend: backend,
			Rules:   []core.Rule[string]{{Name: "c", Limit: limits.Concurrent(100), Key: self}},
			Observer: core.ObserverFuncs[string]{OnEnd: func(limits.Settlement) {
				if reported.Add(1)%3 == 0 {
					runtime.Goexit()
				}
			}},
		})
		for range 50 {
			o := l.Decide(t.Context(), "ann")
			o.End(core.Result{})
		}
		endings.Await(t.Context(), backend)
		if n := reported.Load(); n != 50 {
			t.Errorf("%d of 50 ends are reported", n)
		}
	})
}

func TestALocalRuleMayHaveAnyLimitThatThisProcessDecides(t *testing.T) {
	l := core.MustNew(core.Config[string]{
		Backend: unreachable{},
		Rules: []core.Rule[string]{{
			Name: "ban", Local: true, Key: self,
			LimitFor: func(string, string) (limits.Limit, error) { return limits.Ban(limits.PerHour(1), time.Hour), nil },
		}},
	})
	if o := l.Decide(t.Context(), "ann"); !o.Allowed() || o.At(0).Source != limits.SourceLocal {
		t.Errorf("%v: %v", o.Verdict(), o.Err())
	}
}

func TestEndingsOfTwoLimitersOnOneBackendGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := newRemote(time.Second)
		var limiters []*core.Limiter[string]
		for _, name := range []string{"a", "b"} {
			limiters = append(limiters, core.MustNew(core.Config[string]{
				Backend: remote.MustNewDenialCache(backend, remote.DenialCacheOptions{}),
				Rules:   []core.Rule[string]{{Name: name, Limit: limits.Concurrent(1000), Key: self}},
			}))
		}
		for i := range 200 {
			o := limiters[i%2].Decide(t.Context(), "ann")
			o.End(core.Result{})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls := backend.settles.Load(); calls > 5 {
			t.Errorf("%d calls for 200 endings that waited", calls)
		}
	})
}

// divided keeps keys on servers of their own, of which some are silent.
type divided struct {
	*afar
	silent string
}

func (d divided) ServerOf(_, key string, _ limits.Limit) any {
	switch key {
	case "nowhere":
		panic("no server has it")
	case "anywhere":
		return []string{"which cannot be compared"}
	}
	return key
}

func (d divided) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	for _, e := range endings {
		if e.Key == d.silent {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	return d.afar.Settle(ctx, endings, out)
}

// The ends of one request go to the servers of its keys by themselves, and each is reported once.
func TestEndingsForASilentServerDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, began := &divided{newRemote(time.Millisecond), "silent"}, time.Now()
		reported := make(map[string][]time.Duration)
		var mu sync.Mutex
		rule := func(name, key string) core.Rule[string] {
			return core.Rule[string]{Name: name, Limit: limits.Concurrent(1),
				Key: func(string) (string, error) { return key, nil }}
		}
		l := core.MustNew(core.Config[string]{
			Backend: backend,
			Rules: []core.Rule[string]{rule("a", "silent"), rule("b", "well"), rule("c", "nowhere"), rule("d", "well"),
				rule("e", "anywhere")},
			Observer: core.ObserverFuncs[string]{OnEnd: func(s limits.Settlement) {
				mu.Lock()
				defer mu.Unlock()
				if wrong := s.Err != nil; wrong != (s.Rule == "a") {
					t.Errorf("%+v", s)
				}
				reported[s.Rule] = append(reported[s.Rule], time.Since(began))
			}},
		})
		o := l.Decide(t.Context(), "")
		o.End(core.Result{})
		endings.Await(t.Context(), backend)
		want := map[string][]time.Duration{
			"a": {5 * time.Second}, "b": {time.Millisecond}, "c": {time.Millisecond}, "d": {time.Millisecond},
			"e": {time.Millisecond},
		}
		if !maps.EqualFunc(reported, want, slices.Equal) {
			t.Errorf("reported after %v, want %v", reported, want)
		}
	})
}
