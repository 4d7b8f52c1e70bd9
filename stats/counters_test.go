package stats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/stats"
)

// slowly counts what outcomes say in the plainest way.
type slowly struct {
	requests stats.Requests
	rules    map[string]*slowRule
}

type slowRule struct {
	decisions            map[string]int64
	binding, near, units int64
}

func (s *slowly) observe(_ context.Context, _ request, o core.Outcome) {
	switch o.Verdict() {
	case core.Allowed:
		s.requests.Allowed++
	case core.Denied:
		s.requests.Denied++
	case core.Unavailable:
		s.requests.Unavailable++
	case core.Abandoned:
		s.requests.Abandoned++
	}
	for i := range o.Len() {
		d := o.At(i)
		if d.Source == limits.SourceNotAsked {
			continue
		}
		rule := s.rules[d.Rule()]
		if rule == nil {
			rule = &slowRule{decisions: make(map[string]int64)}
			s.rules[d.Rule()] = rule
		}
		rule.decisions[fmt.Sprint(d.Allowed, d.Mode(), d.Source)]++
		if o.Verdict() == core.Denied && o.BindingRule() == i {
			rule.binding++
		}
		if o.Allowed() && d.Allowed && d.Source.Counted() && d.Cost > 0 {
			rule.units += d.Cost
			if 5*d.Remaining <= d.Limit().Burst() {
				rule.near++
			}
		}
	}
}

// check compares a snapshot with what s has counted.
func (s *slowly) check(t *testing.T, shot stats.LimiterSnapshot) {
	t.Helper()
	if diff := cmp.Diff(s.requests, shot.Requests); diff != "" {
		t.Errorf("requests, want and got:\n%s", diff)
	}
	for _, rule := range shot.Rules {
		want := s.rules[rule.Name]
		if want == nil {
			want = &slowRule{decisions: make(map[string]int64)}
		}
		got := make(map[string]int64)
		for _, d := range rule.Decisions {
			if d.Count != 0 {
				got[fmt.Sprint(d.Allowed, d.Mode, d.Source)] = d.Count
			}
		}
		if diff := cmp.Diff(want.decisions, got); diff != "" {
			t.Errorf("decisions of %s, want and got:\n%s", rule.Name, diff)
		}
		if rule.Binding != want.binding || rule.NearLimit != want.near || rule.Units != want.units {
			t.Errorf("%s: binding %d, near %d, units %d: want %d, %d, %d", rule.Name, rule.Binding, rule.NearLimit,
				rule.Units, want.binding, want.near, want.units)
		}
	}
}

// request is what the limiters of these tests decide.
type request struct {
	key  string
	cost int64
	key2 error // of the second rule
}

func byKey(r request) (string, error)           { return r.key, nil }
func orFails(r request) (string, error)         { return r.key, r.key2 }
func costOf(r request) int64                    { return r.cost }
func quietly() stats.Options                    { return stats.Options{Logger: discard} }
func only(s *stats.Stats) stats.LimiterSnapshot { return s.Snapshot().Limiters[0] }

// flaky is a memory that fails now and then.
type flaky struct {
	*memory.Memory
	fails bool
}

func (f *flaky) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if f.fails {
		return errors.New("flaky")
	}
	return f.Memory.Take(ctx, charges, out)
}

func TestEveryRequestIsCountedOnceAsItsOutcomeSays(t *testing.T) {
	limit := limits.FixedWindow(limits.PerHour(6))
	for _, rules := range [][]core.Rule[request]{
		{{Name: "one", Limit: limit, Key: byKey}},
		{{Name: "shadow", Limit: limit, Key: byKey, Mode: core.Shadow}},
		{{Name: "cost", Limit: limit, Key: byKey, Cost: costOf}},
		{{Name: "closed", Limit: limit, Key: orFails, OnFailure: core.FailClosed}},
		{{Name: "open", Limit: limit, Key: orFails, OnFailure: core.FailOpen}},
		{{Name: "closed shadow", Limit: limit, Key: orFails, OnFailure: core.FailClosed, Mode: core.Shadow}},
		{{Name: "share", Limit: limit, Key: byKey, Mode: core.EnforceFor(50)}},
		{{Name: "local", Limit: limit, Key: byKey, Local: true}},
		{{Name: "held", Limit: limits.Concurrent(3), Key: byKey}},
		{
			{Name: "a", Limit: limit, Key: byKey},
			{Name: "b", Limit: limits.TokenBucket(limits.PerHour(9), 4), Key: orFails, Cost: costOf},
			{Name: "c", Limit: limit, Key: byKey, Mode: core.Shadow},
			{Name: "d", Limit: limits.FixedWindow(limits.PerHour(5)), Key: byKey, Local: true},
			{Name: "e", Limit: limit, Key: byKey, OnFailure: core.FailOpen},
		},
	} {
		t.Run(rules[0].Name, func(t *testing.T) {
			random := testrun.Random(t)
			slow := &slowly{rules: make(map[string]*slowRule)}
			counts := stats.New(quietly())
			backend := &flaky{Memory: memory.MustNew(memory.Options{})}
			l := core.MustNew(core.Config[request]{
				Rules: rules, Backend: remote.MustNewDenialCache(backend, remote.DenialCacheOptions{}),
				Observer: core.ObserverFuncs[request]{OnDecision: slow.observe, Next: counts.Limiter("api")},
			})
			counts.Limiter("api").ObserveLimiter(l)
			ended, end := context.WithCancel(t.Context())
			end()
			for range 500 {
				r := request{key: fmt.Sprint(random.IntN(12)), cost: random.Int64N(4)}
				if random.IntN(10) == 0 {
					r.key2 = errors.New("no key")
				}
				backend.fails = random.IntN(8) == 0
				ctx := t.Context()
				if random.IntN(20) == 0 {
					ctx = ended
				}
				l.Decide(ctx, r)
			}
			slow.check(t, only(counts))
		})
	}
}

// Leases allow and denial caches deny: the two share counters.
func TestDecisionsByLeasesAreCountedAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		leases := remote.MustNewLeaseCache(memory.MustNew(memory.Options{}), remote.LeaseOptions{})
		l := core.MustNew(core.Config[request]{
			Backend: remote.MustNewDenialCache(leases, remote.DenialCacheOptions{}),
			Rules: []core.Rule[request]{
				{Name: "per-client", Limit: limits.FixedWindow(limits.PerMinute(6000)), Key: byKey, Cost: costOf},
			},
			Observer: counts.Limiter("api"),
		})
		for range 12 {
			l.Decide(t.Context(), request{key: "ann", cost: 1})
			synctest.Wait()
		}
		for range 3 {
			l.Decide(t.Context(), request{key: "ann", cost: 6000})
		}
		got := map[limits.Source]int64{}
		for _, d := range only(counts).Rules[0].Decisions {
			got[d.Source] += d.Count
			if d.Count > 0 && d.Allowed != (d.Source <= limits.SourceLease && d.Source != limits.SourceDenialCache) &&
				d.Source != limits.SourcePrimary {
				t.Errorf("%+v", d)
			}
		}
		if got[limits.SourcePrimary] != 9 || got[limits.SourceLease] != 4 || got[limits.SourceDenialCache] != 2 {
			t.Errorf("decisions by source: %v, want 9 by the backend, 4 by a lease and 2 by the denial cache", got)
		}
	})
}

func TestDecisionsThatARuleMayMakeAreThereAtZero(t *testing.T) {
	counts := stats.New(quietly())
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
		{Name: "enforced", Limit: limits.FixedWindow(limits.PerHour(6)), Key: byKey},
		{Name: "tomorrow", Limit: limits.TokenBucket(limits.PerHour(3), 9), Key: byKey, Mode: core.Shadow},
		{Name: "share", Limit: limits.FixedWindow(limits.PerHour(6)), Key: byKey, Mode: core.EnforceFor(5)},
		{Name: "off", Limit: limits.FixedWindow(limits.PerHour(6)), Key: byKey, Mode: core.Disabled},
		{Name: "here", Limit: limits.FixedWindow(limits.PerHour(6)), Key: byKey, Local: true},
	}})
	counts.Limiter("api").ObserveLimiter(l)
	shot := only(counts)
	if len(shot.Rules) != 5 || shot.Rules[1].Mode != core.Shadow || shot.Rules[1].Limit.Burst() != 9 ||
		!shot.Rules[0].InForce {
		t.Fatalf("rules: %+v", shot.Rules)
	}
	zeros := func(mode, second string) []string {
		return []string{
			mode + " true primary 0", mode + " true " + second + " 0", mode + " true open 0",
			mode + " false primary 0", mode + " false " + second + " 0", mode + " false closed 0",
		}
	}
	for i, want := range [][]string{
		zeros("enforce", "fallback"),
		zeros("shadow", "fallback"),
		append(zeros("enforce", "fallback"), zeros("shadow", "fallback")...),
		nil,
		zeros("enforce", "local"),
	} {
		var got []string
		for _, d := range shot.Rules[i].Decisions {
			got = append(got, fmt.Sprint(d.Mode, " ", d.Allowed, " ", d.Source, " ", d.Count))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, want and got:\n%s", shot.Rules[i].Name, diff)
		}
	}
}

func TestRulesThatAreGoneKeepTheirCounters(t *testing.T) {
	counts := stats.New(quietly())
	rule := func(name string) core.Rule[request] {
		return core.Rule[request]{Name: name, Limit: limits.FixedWindow(limits.PerHour(100)), Key: byKey}
	}
	l := core.MustNew(core.Config[request]{
		Rules:    []core.Rule[request]{rule("a"), rule("b")},
		Observer: counts.Limiter("api"),
	})
	counts.Limiter("api").ObserveLimiter(l)
	decide := func(n int) {
		for range n {
			l.Decide(t.Context(), request{key: "k"})
		}
	}
	decide(1)
	if err := l.Replace([]core.Rule[request]{rule("b"), rule("c")}); err != nil {
		t.Fatal(err)
	}
	decide(2) // before a snapshot has seen the new rules
	want := map[string]int64{"a": 1, "b": 3, "c": 2}
	check := func() {
		t.Helper()
		for _, r := range only(counts).Rules {
			if r.Units != want[r.Name] || r.InForce != (r.Name != "a") {
				t.Errorf("%s: %d units, in force %v: want %d", r.Name, r.Units, r.InForce, want[r.Name])
			}
		}
	}
	check()
	decide(4)
	want["b"], want["c"] = 7, 6
	check()
}

func TestBeyondAThousandNamesRulesAreCountedTogether(t *testing.T) {
	counts := stats.New(quietly())
	l := core.MustNew(core.Config[request]{
		Rules:    []core.Rule[request]{{Name: "first", Limit: limits.FixedWindow(limits.PerHour(1)), Key: byKey}},
		Observer: counts.Limiter("api"),
	})
	for i := range 1099 {
		next := core.Rule[request]{
			Name: fmt.Sprint("rule ", i), Limit: limits.FixedWindow(limits.PerHour(1)), Key: byKey,
		}
		if err := l.Replace([]core.Rule[request]{next}); err != nil {
			t.Fatal(err)
		}
		l.Decide(t.Context(), request{key: "k"})
	}
	shot := only(counts)
	if last := shot.Rules[len(shot.Rules)-1]; len(shot.Rules) != 1001 || last.Name != stats.Other || last.Units != 100 {
		t.Errorf("%d rules, the last %q with %d units: want 1001, %q with 100", len(shot.Rules), last.Name, last.Units,
			stats.Other)
	}
}

// 100,000 keys make no series, and no key is where it would become public.
func TestKeysAreNoNames(t *testing.T) {
	counts := stats.New(quietly())
	l := core.MustNew(core.Config[request]{
		Rules: []core.Rule[request]{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerHour(1)), Key: byKey, Cost: costOf},
		},
		Observer: counts.Limiter("api"),
	})
	counts.Limiter("api").ObserveLimiter(l)
	before := len(only(counts).Rules[0].Decisions)
	for i := range 100_000 {
		l.Decide(t.Context(), request{key: fmt.Sprint("secret-", i), cost: int64(1 + i%2)})
	}
	shot := counts.Snapshot()
	if rules := shot.Limiters[0].Rules; len(rules) != 1 || len(rules[0].Decisions) != before {
		t.Errorf("%d rules with %d series: want 1 with %d", len(rules), len(rules[0].Decisions), before)
	}
	if len(shot.Limiters[0].Top.Keys) == 0 || len(shot.Limiters[0].Denials) == 0 {
		t.Fatal("no denials")
	}
	text, err := json.Marshal(shot)
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("error %v, or a key in the JSON of a snapshot", err)
	}
}

func TestCountersNeverFallAndLoseNothing(t *testing.T) {
	counts := stats.New(quietly())
	rules := []core.Rule[request]{
		{Name: "a", Limit: limits.FixedWindow(limits.PerHour(1000)), Key: byKey},
		{Name: "b", Limit: limits.FixedWindow(limits.PerHour(5000)), Key: byKey, Cost: costOf},
	}
	l := core.MustNew(core.Config[request]{Rules: rules, Observer: counts.Limiter("api")})
	counts.Limiter("api").ObserveLimiter(l)
	var decided atomic.Int64
	var deciding sync.WaitGroup
	for range 4 {
		deciding.Go(func() {
			for i := range 2000 {
				l.Decide(t.Context(), request{key: "k", cost: int64(i % 3)})
				decided.Add(1)
				if i%500 == 0 {
					if err := l.Replace(rules[:1+i/500%2]); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { deciding.Wait(); close(done) }()
	var before stats.LimiterSnapshot
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		shot := only(counts)
		if shot.Requests.Total() < before.Requests.Total() {
			t.Errorf("%d requests after %d", shot.Requests.Total(), before.Requests.Total())
		}
		for i, r := range before.Rules {
			if shot.Rules[i].Units < r.Units || shot.Rules[i].Count(nil) < r.Count(nil) {
				t.Errorf("%s: %d units after %d, %d decisions after %d", r.Name, shot.Rules[i].Units, r.Units,
					shot.Rules[i].Count(nil), r.Count(nil))
			}
		}
		before = shot
	}
	if got := only(counts); got.Requests.Total() != decided.Load() || got.Rules[0].Units != 1000 {
		t.Errorf("%d requests, %d units: want %d, 1000", got.Requests.Total(), got.Rules[0].Units, decided.Load())
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	for name, o := range outcomes() {
		counts := stats.New(quietly())
		observe := counts.Limiter("api").ObserveDecision
		observe(t.Context(), "key", o)
		if n := testing.AllocsPerRun(200, func() { observe(t.Context(), "key", o) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestEndsAreCountedByRule(t *testing.T) {
	counts := stats.New(quietly())
	api := counts.Limiter("api")
	l := core.MustNew(core.Config[request]{
		Rules: []core.Rule[request]{
			{Name: "tokens", Limit: limits.FixedWindow(limits.PerHour(10)), Key: byKey, Cost: costOf,
				FinalCost: core.SpentCost},
			{Name: "at-once", Limit: limits.Concurrent(5), Key: byKey},
		},
		Observer: api,
	})
	less, more := l.Decide(t.Context(), request{key: "k", cost: 4}), l.Decide(t.Context(), request{key: "k", cost: 4})
	if shot := only(counts); shot.Held != 2 || shot.HeldSince.IsZero() {
		t.Errorf("%d held since %v: want 2", shot.Held, shot.HeldSince)
	}
	less.Spend("tokens", 1)
	more.Spend("tokens", 30)
	less.End(core.Result{})
	more.End(core.Result{})
	api.ObserveEnd(limits.Settlement{Rule: "tokens", Err: fmt.Errorf("x: %w", backends.ErrEndingDropped)})
	api.ObserveEnd(limits.Settlement{Rule: "tokens", Err: errors.New("away")})
	shot := only(counts)
	if got, want := shot.Rules[0].Settlements,
		(stats.Settlements{Ended: 4, Returned: 3, Charged: 15, Forgiven: 11, Lost: 1, Dropped: 1}); got != want {
		t.Errorf("tokens: %+v: want %+v", got, want)
	}
	if got, want := shot.Rules[1].Settlements, (stats.Settlements{Ended: 2, Returned: 2}); got != want ||
		shot.Held != 0 {
		t.Errorf("at-once: %+v, %d held: want %+v, 0", got, shot.Held, want)
	}
}

// Ends are done, lost or dropped. What was none of them in one snapshot would be a counter
// that falls in the next.
func TestEndsAreCountedByWhatBecameOfThem(t *testing.T) {
	s := stats.New(stats.Options{})
	l := s.Limiter("api")
	var all sync.WaitGroup
	for _, err := range []error{errors.New("down"), backends.ErrEndingDropped} {
		all.Go(func() {
			for range 100_000 {
				l.ObserveEnd(limits.Settlement{Rule: "r", Err: err})
			}
		})
	}
	ended := make(chan bool)
	go func() { all.Wait(); close(ended) }()
	for going := true; going; {
		select {
		case <-ended:
			going = false
		default:
		}
		for _, r := range s.Snapshot().Limiters[0].Rules {
			if done := r.Settlements.Ended - r.Settlements.Lost - r.Settlements.Dropped; done != 0 {
				t.Fatalf("%d of %+v are done", done, r.Settlements)
			}
		}
	}
}

func TestWhatFailedIsCountedByReason(t *testing.T) {
	down := errors.New("client 203.0.113.7 is unknown")
	counts := stats.New(quietly())
	limit := limits.FixedWindow(limits.PerMinute(1000))
	decide := func(n int, backend, fallback backends.Backend, rules ...core.Rule[request]) {
		l := core.MustNew(core.Config[request]{
			Rules: rules, Backend: backend, Fallback: fallback, Observer: counts.Limiter("api"),
		})
		for range n {
			l.Decide(t.Context(), request{})
		}
	}
	works := func(request) (string, error) { return "k", nil }
	fails := func(request) (string, error) { return "", down }
	decide(1, nil, nil, core.Rule[request]{Name: "key", Limit: limit, Key: fails})
	decide(2, nil, nil, core.Rule[request]{Name: "key", Limit: limit, Key: fails, OnFailure: core.FailOpen})
	decide(
		3, nil, nil, core.Rule[request]{
			Name: "key", Limit: limit, Key: func(request) (string, error) { panic("boom") }, Mode: core.Shadow,
		})
	decide(
		4, nil, nil, core.Rule[request]{
			Name: "limit", LimitFor: func(request, string) (limits.Limit, error) { return limits.Limit{}, nil },
			Key: works,
		})
	decide(5, nil, nil,
		core.Rule[request]{Name: "cost", Limit: limit, Key: works, Cost: func(request) int64 { return -1 }})
	away := &elsewhere{fails: true}
	decide(6, away, nil, core.Rule[request]{Name: "backend", Limit: limit, Key: works, OnFailure: core.FailClosed})
	decide(7, away, nil, core.Rule[request]{Name: "backend", Limit: limit, Key: works, OnFailure: core.FailOpen})
	decide(8, away, away, core.Rule[request]{Name: "fallback", Limit: limit, Key: works},
		core.Rule[request]{Name: "backend", Limit: limit, Key: works, OnFailure: core.FailOpen})
	decide(9, away, nil, core.Rule[request]{Name: "fine", Limit: limit, Key: works}) // the fallback decides
	decide(10, nil, nil, core.Rule[request]{Name: "fine", Limit: limit, Key: works},
		core.Rule[request]{Name: "key", Limit: limit, Key: fails})

	got := make(map[string]stats.Failures)
	for _, rule := range counts.Snapshot().Limiters[0].Rules {
		got[rule.Name] = rule.Failures
	}
	want := map[string]stats.Failures{
		"key": {Key: 16}, "limit": {Limit: 4}, "cost": {Cost: 5}, "backend": {Backend: 21}, "fallback": {Fallback: 8},
		"fine": {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures by rule, want and got:\n%s", diff)
	}
	for series := range seriesOf(counts.Snapshot()) {
		if strings.Contains(series, "203.0.113") {
			t.Errorf("a label has the text of an error: %s", series)
		}
	}
}
