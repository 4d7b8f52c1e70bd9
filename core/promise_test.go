package core_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// tenPerSecond has no burst beyond a second's units.
var tenPerSecond = limits.TokenBucket(limits.PerSecond(10), 10)

// exhaust decides requests until one is denied, and returns that outcome.
func exhaust(t *testing.T, l *core.Limiter[request], r request) core.Outcome {
	t.Helper()
	for range 1000 {
		if o := l.Decide(t.Context(), r); !o.Allowed() {
			return o
		}
	}
	t.Fatal("1,000 requests are allowed")
	panic("unreachable")
}

func wantTurn(t *testing.T, o core.Outcome, turn, least time.Duration) {
	t.Helper()
	if o.Turn() != turn || o.RetryAfter() != least {
		t.Errorf("turn %v, least wait %v; want %v and %v", o.Turn(), o.RetryAfter(), turn, least)
	}
}

func TestADeniedRequestIsPromisedTheTurnAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[request]{MaxPromise: time.Minute,
			Rules: []core.Rule[request]{{Name: "user", Limit: tenPerSecond, Key: byUser}}})
		ann := request{user: "ann"}
		wantTurn(t, decide(t, l, ann, core.Allowed), 0, 0)
		wantTurn(t, exhaust(t, l, ann), 100*time.Millisecond, 100*time.Millisecond)
		wantTurn(t, decide(t, l, ann, core.Denied), 200*time.Millisecond, 100*time.Millisecond)
		wantTurn(t, exhaust(t, l, request{user: "bob"}), 100*time.Millisecond, 100*time.Millisecond)
		o := l.Explain(t.Context(), ann)
		wantTurn(t, o, 100*time.Millisecond, 100*time.Millisecond)

		o = decide(t, l, ann, core.Denied)
		wantTurn(t, o, 300*time.Millisecond, 100*time.Millisecond)
		time.Sleep(time.Second)
		l.DecideInto(t.Context(), ann, &o)
		wantTurn(t, o, 0, 0)
	})
}

// It sends unevenly, and waits in whole seconds as it is told.
func TestAClientThatIsAloneIsToldTheLeastWait(t *testing.T) {
	twenty := limits.Per(20, 20*time.Second)
	for _, limit := range []limits.Limit{
		tenPerSecond, limits.TokenBucket(limits.PerSecond(10), 2), limits.LeakyBucket(limits.Per(1, 3*time.Second), 5),
		limits.FixedWindow(twenty), limits.FixedWindow(limits.Per(2, 300*time.Millisecond)), limits.AnchoredWindow(twenty),
		limits.SlidingWindow(twenty), limits.SlidingLog(twenty),
	} {
		synctest.Test(t, func(t *testing.T) {
			l := core.MustNew(core.Config[request]{MaxPromise: time.Minute,
				Rules: []core.Rule[request]{{Name: "user", Limit: limit, Key: byUser}}})
			for i := range 300 {
				o := l.Decide(t.Context(), request{user: "ann"})
				if o.Allowed() {
					time.Sleep(time.Duration(i*i%11) * 40 * time.Millisecond)
					continue
				}
				if o.Turn() != o.RetryAfter() {
					t.Errorf("%v: told %v, the least wait is %v", limit, o.Turn(), o.RetryAfter())
				}
				time.Sleep((o.Turn() + time.Second - 1).Truncate(time.Second))
			}
		})
	}
}

func TestAPromiseTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[request]{MaxPromise: time.Minute,
			Rules: []core.Rule[request]{{Name: "user", Limit: tenPerSecond, Key: byUser}}})
		for range 300 {
			l.Decide(t.Context(), request{user: "ann"})
		}
		time.Sleep(time.Second) // 290 were promised turns, and do not come
		for range 10 {
			decide(t, l, request{user: "ann"}, core.Allowed)
		}
	})
}

// The wide rule admits one a second, the narrow one ten.
func TestOfSeveralRulesTheLastThatAdmitsPromises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wide := core.Rule[request]{Name: "wide", Limit: limits.TokenBucket(limits.PerSecond(1), 10), Key: byRoute}
		narrow := core.Rule[request]{Name: "narrow", Limit: tenPerSecond, Key: byUser}
		shadow := core.Rule[request]{Name: "shadow", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byUser,
			Mode: core.Shadow}
		l := core.MustNew(core.Config[request]{MaxPromise: time.Minute,
			Rules: []core.Rule[request]{shadow, narrow, wide}})
		ann := request{user: "ann", route: "a"}
		wantTurn(t, exhaust(t, l, ann), time.Second, time.Second)
		wantTurn(t, decide(t, l, ann, core.Denied), 2*time.Second, time.Second)
		// Another route: only the narrow rule denies, whose line is empty.
		wantTurn(t, decide(t, l, request{user: "ann", route: "b"}, core.Denied), 100*time.Millisecond,
			100*time.Millisecond)
	})
}

// Both rules count under one key, so a request takes two units. One that is denied later may need
// one unit alone.
func TestRulesThatCountTogetherPromiseTheirSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := core.Rule[request]{Name: "mine", Scope: "both", Limit: tenPerSecond, Key: byUser}
		theirs := mine
		theirs.Name, theirs.Key = "theirs", byRoute
		l := core.MustNew(core.Config[request]{MaxPromise: time.Minute,
			Rules: []core.Rule[request]{mine, theirs}})
		twice := request{user: "ann", route: "ann"}
		wantTurn(t, exhaust(t, l, twice), 200*time.Millisecond, 200*time.Millisecond)
		wantTurn(t, decide(t, l, twice, core.Denied), 400*time.Millisecond, 200*time.Millisecond)
		wantTurn(t, decide(t, l, request{user: "ann", route: "bob"}, core.Denied),
			500*time.Millisecond, 100*time.Millisecond)
	})
}

func TestRequestsAtOnceAndBansPromiseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []limits.Limit{limits.Concurrent(1), limits.Ban(limits.PerMinute(1), 10*time.Second)} {
			l := core.MustNew(core.Config[request]{MaxPromise: time.Minute,
				Rules: []core.Rule[request]{{Name: "user", Limit: limit, Key: byUser}}})
			first := exhaust(t, l, request{user: "ann"})
			wantTurn(t, decide(t, l, request{user: "ann"}, core.Denied), first.RetryAfter(), first.RetryAfter())
		}
	})
}

func TestACostThatNeverFitsIsPromisedNothing(t *testing.T) {
	l := core.MustNew(core.Config[request]{MaxPromise: time.Minute,
		Rules: []core.Rule[request]{{Name: "user", Limit: tenPerSecond, Key: byUser,
			Cost: func(r request) int64 { return r.cost }}}})
	o := decide(t, l, request{user: "ann", cost: 11}, core.Denied)
	wantTurn(t, o, limits.Never, limits.Never)
}

// shared is a backend that other processes share.
type shared struct{ backends.Backend }

// Each of three processes promises every third turn, except where it decides alone.
func TestInstancesShareTheTurns(t *testing.T) {
	second := limits.TokenBucket(limits.PerSecond(1), 1)
	for name, tt := range map[string]struct {
		backend func() backends.Backend
		rule    core.Rule[request]
		want    time.Duration // the second turn
	}{
		"in this process": {func() backends.Backend { return memory.MustNew(memory.Options{}) },
			core.Rule[request]{}, 2 * time.Second},
		"shared": {func() backends.Backend { return shared{memory.MustNew(memory.Options{})} },
			core.Rule[request]{}, 4 * time.Second},
		"a denial cache": {func() backends.Backend {
			return remote.MustNewDenialCache(shared{memory.MustNew(memory.Options{})}, remote.DenialCacheOptions{})
		}, core.Rule[request]{}, 4 * time.Second},
		"counted": {func() backends.Backend { return countingThree{memory.MustNew(memory.Options{})} },
			core.Rule[request]{}, 4 * time.Second},
		"local": {func() backends.Backend { return shared{memory.MustNew(memory.Options{})} },
			core.Rule[request]{Local: true}, 2 * time.Second},
		"the share of a fallback": {func() backends.Backend { return newCounting(3) },
			core.Rule[request]{}, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			rule := tt.rule
			rule.Name, rule.Key, rule.Limit = "user", byUser, second
			config := core.Config[request]{MaxPromise: time.Minute, Backend: tt.backend(), Instances: 3,
				Rules: []core.Rule[request]{rule}}
			if name == "counted" {
				config.Instances = 0
			}
			l := core.MustNew(config)
			wantTurn(t, exhaust(t, l, request{user: "ann"}), time.Second, time.Second)
			o := decide(t, l, request{user: "ann"}, core.Denied)
			if o.Turn() != tt.want || o.RetryAfter() != time.Second {
				t.Errorf("%s: turn %v, least wait %v; want %v and 1s", name, o.Turn(), o.RetryAfter(), tt.want)
			}
		})
	}
}

// countingThree counts three processes that share it.
type countingThree struct{ backends.Backend }

func (countingThree) Instances() int { return 3 }

// A limiter without promises must not keep those of an outcome that it overwrites.
func TestAnOutcomeForgetsAnEarlierTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := []core.Rule[request]{{Name: "user", Limit: tenPerSecond, Key: byUser}}
		promising := core.MustNew(core.Config[request]{MaxPromise: time.Minute, Rules: rules})
		plain := core.MustNew(core.Config[request]{Rules: rules})
		exhaust(t, promising, request{user: "ann"})
		o := decide(t, promising, request{user: "ann"}, core.Denied)
		exhaust(t, plain, request{user: "ann"})
		plain.DecideInto(t.Context(), request{user: "ann"}, &o)
		wantTurn(t, o, 100*time.Millisecond, 100*time.Millisecond)
	})
}

func TestAResetForgetsTheTurnsOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[request]{MaxPromise: time.Minute,
			Rules: []core.Rule[request]{{Name: "user", Limit: tenPerSecond, Key: byUser}}})
		for range 300 {
			l.Decide(t.Context(), request{user: "ann"})
			l.Decide(t.Context(), request{user: "bob"})
		}
		if err := l.ResetKey(t.Context(), "user", "ann"); err != nil {
			t.Fatal(err)
		}
		wantTurn(t, exhaust(t, l, request{user: "ann"}), 100*time.Millisecond, 100*time.Millisecond)
		wantTurn(t, decide(t, l, request{user: "bob"}, core.Denied), 29100*time.Millisecond, 100*time.Millisecond)
	})
}

func TestTurnsOutlastAChangeOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := []core.Rule[request]{{Name: "user", Limit: tenPerSecond, Key: byUser}}
		l := core.MustNew(core.Config[request]{MaxPromise: time.Minute, Rules: rules})
		exhaust(t, l, request{user: "ann"})
		rules[0].Limit = limits.FixedWindow(limits.PerMinute(1))
		if err := l.Replace(rules); err != nil {
			t.Fatal(err)
		}
		if o := decide(t, l, request{user: "ann"}, core.Denied); o.Turn() < o.RetryAfter() || o.Turn() > time.Minute {
			t.Errorf("turn %v, least wait %v", o.Turn(), o.RetryAfter())
		}
	})
}

func TestMaxPromiseIsTwoSecondsToADay(t *testing.T) {
	for reach, legal := range map[time.Duration]bool{
		-1: false, 0: true, 2*time.Second - 1: false, 2 * time.Second: true, 24 * time.Hour: true, 24*time.Hour + 1: false,
	} {
		_, err := core.New(core.Config[request]{MaxPromise: reach, Rules: sixty})
		if (err == nil) != legal || err != nil && !strings.Contains(err.Error(), "core: max promise: must be 2s to 24h") {
			t.Errorf("%v: error %v, want legal %v", reach, err, legal)
		}
	}
}
