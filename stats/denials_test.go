package stats_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

// denying returns a limiter that denies every request, and its counters.
func denying(o stats.Options, rules ...core.Rule[request]) (*core.Limiter[request], *stats.Stats) {
	counts := stats.New(o)
	if len(rules) == 0 {
		rules = []core.Rule[request]{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerHour(1)), Key: byKey, Cost: costOf},
		}
	}
	l := core.MustNew(core.Config[request]{Rules: rules, Observer: counts.Limiter("api")})
	counts.Limiter("api").ObserveLimiter(l)
	return l, counts
}

const tooMuch = 2

func TestTheKeysDeniedMostAreFoundAmongAnyNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counts := denying(quietly())
		random := testrun.Random(t)
		zipf := rand.NewZipf(random, 1.2, 1, 20_000)
		exact, total := make(map[string]int64), int64(0)
		for minute := range 2 {
			for range 30_000 {
				key := fmt.Sprint(zipf.Uint64())
				if minute == 1 && random.IntN(4) == 0 {
					key = "the new one"
				}
				exact[key]++
				total++
				l.Decide(t.Context(), request{key: key, cost: tooMuch})
			}
			if minute == 0 {
				time.Sleep(time.Minute)
				synctest.Wait() // else the look for quiet rules may use the lists while this denies
			}
		}
		top := only(counts).Top
		if top.Denials != total || top.Spread || !top.Since.Equal(time.Now().Add(-time.Minute)) {
			t.Errorf("%d denials since %v, spread %v: want %d", top.Denials, top.Since, top.Spread, total)
		}
		found := make(map[string]bool)
		for i, key := range top.Keys {
			found[key.Key] = true
			if n := exact[key.Key]; n > key.Count || n < key.Count-key.Error {
				t.Errorf("%s: %d denials, outside %d − %d to %d", key.Key, n, key.Count, key.Error, key.Count)
			}
			if i > 0 && key.Count > top.Keys[i-1].Count {
				t.Errorf("%d after %d", key.Count, top.Keys[i-1].Count)
			}
		}
		for key, n := range exact {
			if n > total/256 && !found[key] {
				t.Errorf("%s: %d of %d denials, and not found", key, n, total)
			}
		}
		if len(top.Keys) > 512 || !found["the new one"] || !found["0"] {
			t.Errorf("%d keys, the first %+v", len(top.Keys), top.Keys[0])
		}
	})
}

func TestDenialsSpreadOverManyKeysAreCalledSpread(t *testing.T) {
	l, counts := denying(quietly())
	for i := range 20_000 {
		l.Decide(t.Context(), request{key: fmt.Sprint("rotating-", i), cost: tooMuch})
	}
	if top := only(counts).Top; !top.Spread || len(top.Keys) != 256 {
		t.Errorf("spread %v with %d keys: want true, 256", top.Spread, len(top.Keys))
	}
}

func TestWhatWasDeniedMostIsForgottenInTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counts := denying(quietly())
		l.Decide(t.Context(), request{key: "ann", cost: tooMuch})
		time.Sleep(90 * time.Second)
		l.Decide(t.Context(), request{key: "bob", cost: tooMuch})
		if top := only(counts).Top; len(top.Keys) != 2 || top.Denials != 2 {
			t.Errorf("%+v: want two keys", top)
		}
		time.Sleep(time.Minute)
		if top := only(counts).Top; len(top.Keys) != 1 || top.Keys[0].Key != "bob" {
			t.Errorf("%+v: want bob alone", top)
		}
		time.Sleep(time.Minute)
		if top := only(counts).Top; len(top.Keys) != 0 || top.Denials != 0 {
			t.Errorf("%+v: want nobody", top)
		}
	})
}

func TestAKeyCountsApartForWhenItsRuleWasAShadow(t *testing.T) {
	l, counts := denying(quietly())
	shadow := core.Shadow
	if err := l.Override("per-client", core.Override{Mode: &shadow, Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.Decide(t.Context(), request{key: "ann", cost: tooMuch})
	}
	if err := l.Override("per-client", core.Override{}); err != nil {
		t.Fatal(err)
	}
	l.Decide(t.Context(), request{key: "ann", cost: tooMuch})
	top := only(counts).Top.Keys
	if len(top) != 2 || top[0].Mode != core.Shadow || top[0].Count != 3 || top[1].Mode != core.Enforce ||
		top[1].Count != 1 {
		t.Errorf("%+v: want 3 that would have been denied and 1 that was", top)
	}
}

func TestAKeyCountsApartForEachRuleAndForItsShadow(t *testing.T) {
	l, counts := denying(quietly(),
		core.Rule[request]{Name: "a", Limit: limits.FixedWindow(limits.PerHour(1)), Key: byKey},
		core.Rule[request]{Name: "b", Limit: limits.FixedWindow(limits.PerHour(2)), Key: byKey, Mode: core.Shadow},
		core.Rule[request]{
			Name: "c", Limit: limits.TokenBucket(limits.PerHour(1), 1), Key: byKey, Cost: costOf, Mode: core.Shadow,
		},
	)
	for range 3 {
		l.Decide(t.Context(), request{key: "ann", cost: tooMuch})
	}
	shot := only(counts)
	got := ""
	for _, key := range shot.Top.Keys {
		got += fmt.Sprintf("%s %s %s %d±%d; ", key.Rule, key.Mode, key.Key, key.Count, key.Error)
	}
	if want := "c shadow ann 3±0; a enforce ann 2±0; "; got != want {
		t.Errorf("%s: want %s", got, want)
	}
	if len(shot.Denials) != 2 || shot.Denials[0].Rule != "a" {
		t.Errorf("denials: %+v: want those of a", shot.Denials)
	}
}

func TestTheLastDenialsAreKeptForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counts := denying(quietly())
		l.Decide(t.Context(), request{key: "early", cost: tooMuch})
		time.Sleep(time.Hour)
		long := strings.Repeat("x", 200)
		l.Decide(t.Context(), request{key: long, cost: tooMuch})
		time.Sleep(time.Second)
		l.Decide(t.Context(), request{key: "late", cost: 1})
		l.Decide(t.Context(), request{key: "late", cost: 1})
		now := time.Now()
		got := only(counts).Denials
		want := []stats.Denial{
			{At: now, Rule: "per-client", Key: "late", Limit: limits.FixedWindow(limits.PerHour(1)), Cost: 1,
				RetryAfter: now.Truncate(time.Hour).Add(time.Hour).Sub(now)},
			{At: now.Add(-time.Second), Rule: "per-client", Key: long[:92], Cut: true,
				Limit: limits.FixedWindow(limits.PerHour(1)), Cost: tooMuch, Remaining: 1, RetryAfter: limits.Never},
			{At: now.Add(-time.Second - time.Hour), Rule: "per-client", Key: "early",
				Limit: limits.FixedWindow(limits.PerHour(1)), Cost: tooMuch, Remaining: 1, RetryAfter: limits.Never},
		}[:2]
		if len(got) != 2 || !same(got[0], want[0]) || !same(got[1], want[1]) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		for range 300 {
			l.Decide(t.Context(), request{key: "bob", cost: tooMuch})
		}
		if got := only(counts).Denials; len(got) != 256 || got[255].Key != "bob" {
			t.Errorf("%d denials, the oldest of %s: want 256 of bob", len(got), got[len(got)-1].Key)
		}
	})
}

func same(a, b stats.Denial) bool {
	at := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return at && a == b
}
