package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
)

// job is a request of an application that is not about HTTP at all.
type job struct {
	customer string
	bytes    int64
}

func byCustomer(j job) (string, error) { return j.customer, nil }

func Example() {
	limiter := core.MustNew(core.Config[job]{
		Rules: []core.Rule[job]{{
			Name:  "per-customer",
			Limit: core.TokenBucket(core.PerHour(60), 2),
			Key:   byCustomer,
		}},
	})
	for range 3 {
		outcome := limiter.Decide(context.Background(), job{customer: "ann"})
		fmt.Println(outcome.Verdict(), outcome.At(0).Remaining, outcome.RetryAfter().Round(time.Second))
	}
	// Output:
	// allowed 1 0s
	// allowed 0 0s
	// denied 0 1m0s
}

func ExampleNew() {
	_, err := core.New(core.Config[job]{
		Rules: []core.Rule[job]{
			{Name: "per-customer", Limit: core.SlidingWindow(core.Per(10, -time.Second)), Key: byCustomer},
			{Name: "volume", Limit: core.TokenBucket(core.PerMinute(100), 0)},
		},
	})
	fmt.Println(err)
	// Output:
	// core: rule "per-customer": limit: period must be positive (got -1s)
	// core: rule "volume": key: is nil: set Key to a key function, such as one of package keyfuncs
	// core: rule "volume": limit: burst must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	core.MustNew(core.Config[job]{})
	// Output: core: no rules: a limiter needs at least one
}

func ExampleLimiter_Decide() {
	limiter := core.MustNew(core.Config[job]{
		Rules: []core.Rule[job]{
			{Name: "jobs", Limit: core.FixedWindow(core.PerDay(100)), Key: byCustomer},
			{Name: "bytes", Limit: core.FixedWindow(core.PerDay(5000)), Key: byCustomer, Cost: func(j job) int64 { return j.bytes }},
		},
	})
	for _, j := range []job{{"ann", 4000}, {"ann", 2000}, {"ann", 1000}} {
		outcome := limiter.Decide(context.Background(), j)
		fmt.Println(j.bytes, outcome.Verdict())
		for i := range outcome.Len() {
			d := outcome.At(i)
			fmt.Println(" ", d.Rule, d.Allowed, d.Remaining)
		}
	}
	// The denied job took nothing, not even from "jobs".

	// Output:
	// 4000 allowed
	//   jobs true 99
	//   bytes true 1000
	// 2000 denied
	//   jobs true 99
	//   bytes false 1000
	// 1000 allowed
	//   jobs true 98
	//   bytes true 0
}

func ExampleRule_limitFor() {
	plans := map[string]core.Limit{
		"ann": core.FixedWindow(core.PerDay(1000)),
	}
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "plan",
		Key:  byCustomer,
		LimitFor: func(j job) (core.Limit, error) {
			if limit, ok := plans[j.customer]; ok {
				return limit, nil
			}
			return core.FixedWindow(core.PerDay(10)), nil
		},
	}}})
	for _, customer := range []string{"ann", "bob"} {
		outcome := limiter.Decide(context.Background(), job{customer: customer})
		fmt.Println(customer, outcome.At(0).Remaining)
	}
	// Output:
	// ann 999
	// bob 9
}

func ExampleRule_limitForKey() {
	overrides := map[string]core.Limit{
		"ann": core.FixedWindow(core.PerDay(1000)),
	}
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "plan",
		Key:  byCustomer,
		LimitForKey: func(_ job, customer string) (core.Limit, error) {
			if limit, ok := overrides[customer]; ok {
				return limit, nil
			}
			return core.FixedWindow(core.PerDay(10)), nil
		},
	}}})
	for _, customer := range []string{"ann", "bob"} {
		outcome := limiter.Decide(context.Background(), job{customer: customer})
		fmt.Println(customer, outcome.At(0).Remaining)
	}
	// Output:
	// ann 999
	// bob 9
}

// A limit on bytes tells clients so: RateLimit-Policy of this rule has
// qu="content-bytes".
func ExampleUnit() {
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name:  "upload",
		Limit: core.TokenBucket(core.PerHour(1_000_000), 5000),
		Key:   byCustomer,
		Cost:  func(j job) int64 { return j.bytes },
		Unit:  core.ContentBytes,
	}}})
	outcome := limiter.Decide(context.Background(), job{"ann", 2000})
	d := outcome.At(0)
	fmt.Println(d.Remaining, d.Unit, "left")
	// Output: 3000 content-bytes left
}

func ExampleWhen() {
	large := func(j job) bool { return j.bytes > 1000 }
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "large-jobs", Limit: core.FixedWindow(core.PerDay(1)), Key: core.When(large, byCustomer),
	}}})
	for _, bytes := range []int64{2000, 10, 2000} {
		outcome := limiter.Decide(context.Background(), job{"ann", bytes})
		fmt.Println(bytes, outcome.Verdict(), "by", outcome.Len(), "rules")
	}
	// Output:
	// 2000 allowed by 1 rules
	// 10 allowed by 0 rules
	// 2000 denied by 1 rules
}

// A function around a key function logs its errors. That a rule does not apply is
// none.
func ExampleErrDoesNotApply() {
	logged := func(key func(job) (string, error)) func(job) (string, error) {
		return func(j job) (string, error) {
			k, err := key(j)
			if err != nil && !errors.Is(err, core.ErrDoesNotApply) {
				fmt.Println("cannot identify:", err)
			}
			return k, err
		}
	}
	large := func(j job) bool { return j.bytes > 1000 }
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "large-jobs", Limit: core.FixedWindow(core.PerDay(1)), Key: logged(core.When(large, byCustomer)),
	}}})
	outcome := limiter.Decide(context.Background(), job{"ann", 10})
	fmt.Println(outcome.Verdict(), "by", outcome.Len(), "rules")
	// Output: allowed by 0 rules
}

func ExampleErrAbsent() {
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name:  "per-customer",
		Limit: core.FixedWindow(core.PerDay(1)),
		Key: func(j job) (string, error) {
			if j.customer == "" {
				return "", core.ErrAbsent // all of them together
			}
			return j.customer, nil
		},
	}}})
	for range 2 {
		outcome := limiter.Decide(context.Background(), job{})
		fmt.Println(outcome.Verdict())
	}
	// Output:
	// allowed
	// denied
}

// A backend decides accounts, not charges: here two rules of one scope charge one key.
func ExampleAccounts() {
	limit := core.FixedWindow(core.PerMinute(10))
	accounts, owners, err := core.Accounts([]core.Charge{
		{Scope: "site", Key: "ann", Limit: limit, Cost: 2},
		{Scope: "site", Key: "bob", Limit: limit, Cost: 1},
		{Scope: "site", Key: "ann", Limit: limit, Cost: 3},
	}, nil, nil)
	fmt.Println(owners, err)
	for _, a := range accounts {
		fmt.Println(a.Key, a.Enforced)
	}
	// Output:
	// [0 1 0] <nil>
	// ann 5
	// bob 1
}

func ExampleAlgorithms() {
	for _, algorithm := range core.Algorithms() {
		fmt.Println(algorithm)
	}
	// Output:
	// token-bucket
	// leaky-bucket
	// leaky-queue
	// fixed-window
	// sliding-window
	// sliding-log
	// anchored-window
	// concurrent
	// ban
}

// A backend that does not say what it supports decides the first six algorithms.
func ExampleSupports() {
	limit := core.AnchoredWindow(core.PerHour(60))
	fmt.Println(core.Supports(core.NewMemory(core.MemoryOptions{}), limit))
	fmt.Println(core.Supports(unreachable{}, limit))
	// Output:
	// true
	// false
}

// unreachable is a backend that is out of order.
type unreachable struct{}

func (unreachable) Take(context.Context, []core.Charge, []core.Decision) error {
	return errors.New("connection refused")
}

func ExampleFailure() {
	for _, onFailure := range []core.Failure{core.FallBack, core.FailOpen, core.FailClosed} {
		limiter := core.MustNew(core.Config[job]{
			Backend: unreachable{},
			Rules: []core.Rule[job]{{
				Name: "per-customer", Limit: core.FixedWindow(core.PerDay(1)), Key: byCustomer, OnFailure: onFailure,
			}},
		})
		for range 2 {
			outcome := limiter.Decide(context.Background(), job{customer: "ann"})
			fmt.Println(outcome.At(0).Source, outcome.Verdict(), outcome.Err())
		}
	}
	// Output:
	// fallback allowed connection refused
	// fallback denied connection refused
	// open allowed connection refused
	// open allowed connection refused
	// closed unavailable connection refused
	// closed unavailable connection refused
}

func ExampleConfig_instances() {
	limiter := core.MustNew(core.Config[job]{
		Backend:   unreachable{},
		Fallback:  core.NewMemory(core.MemoryOptions{MaxKeys: 10_000}),
		Instances: 3,
		Rules:     []core.Rule[job]{{Name: "per-customer", Limit: core.FixedWindow(core.PerDay(100)), Key: byCustomer}},
	})
	outcome := limiter.Decide(context.Background(), job{customer: "ann"})
	fmt.Println(outcome.At(0).Limit, outcome.At(0).Remaining)
	// Output: fixed-window 34/1d 33
}

// Counting decisions for metrics: labels that are few, and never the key.
func ExampleConfig_observe() {
	counts := map[string]int{} // use something safe for concurrent use
	limiter := core.MustNew(core.Config[job]{
		Rules: []core.Rule[job]{{Name: "per-customer", Limit: core.FixedWindow(core.PerDay(1)), Key: byCustomer}},
		Observe: func(_ context.Context, _ job, o core.Outcome) {
			for i := range o.Len() {
				d := o.At(i)
				counts[fmt.Sprintf("%s %v by %v", d.Rule, o.Verdict(), d.Source)]++
			}
		},
	})
	for range 3 {
		limiter.Decide(context.Background(), job{customer: "ann"})
	}
	fmt.Println(counts)
	// Output: map[per-customer allowed by primary:1 per-customer denied by primary:2]
}

func ExampleVerdict() {
	answer := func(limiter *core.Limiter[job], ctx context.Context) {
		outcome := limiter.Decide(ctx, job{customer: "ann"})
		switch outcome.Verdict() {
		case core.Allowed:
			fmt.Println("go on")
		case core.Denied:
			fmt.Println(outcome.Status(), "retry after", outcome.RetryAfter()) // 503 if it is about Capacity
		case core.Unavailable:
			fmt.Println("503:", outcome.Err()) // for the log: the client need not know why
		case core.Abandoned:
			fmt.Println("nobody listens:", outcome.Err())
		}
	}
	rule := core.Rule[job]{Name: "per-customer", Limit: core.TokenBucket(core.PerHour(1), 1), Key: byCustomer}
	limiter := core.MustNew(core.Config[job]{Backend: atNoon(), Rules: []core.Rule[job]{rule}})
	answer(limiter, context.Background())
	answer(limiter, context.Background())

	left, leave := context.WithCancel(context.Background())
	leave()
	answer(limiter, left)

	rule.OnFailure = core.FailClosed
	answer(core.MustNew(core.Config[job]{Backend: unreachable{}, Rules: []core.Rule[job]{rule}}), context.Background())
	// Output:
	// go on
	// 429 retry after 1h0m0s
	// nobody listens: context canceled
	// 503: connection refused
}

// atNoon is a memory whose clock stands still.
func atNoon() *core.Memory {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return core.NewMemory(core.MemoryOptions{Clock: func() time.Time { return noon }})
}

// A decision that nobody counted has no numbers to show.
func ExampleSource_Counted() {
	for _, source := range []core.Source{
		core.SourcePrimary, core.SourceDenialCache, core.SourceLease, core.SourceFallback,
		core.SourceOpen, core.SourceClosed, core.SourceNotAsked,
	} {
		fmt.Println(source, source.Counted())
	}
	// Output:
	// primary true
	// denial-cache true
	// lease true
	// fallback true
	// open false
	// closed false
	// not-asked false
}

func ExampleOutcome_Delay() {
	limiter := core.MustNew(core.Config[job]{
		Backend: atNoon(),
		Rules:   []core.Rule[job]{{Name: "evenly", Limit: core.LeakyQueue(core.PerSecond(4), 2), Key: byCustomer}},
	})
	for range 3 {
		outcome := limiter.Decide(context.Background(), job{customer: "ann"})
		fmt.Println(outcome.Verdict(), "start after", outcome.Delay(), "or retry after", outcome.RetryAfter())
	}
	// Output:
	// allowed start after 0s or retry after 0s
	// allowed start after 250ms or retry after 0s
	// denied start after 0s or retry after 250ms
}

// A cost that is more than the limit ever holds.
func ExampleNever() {
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "bytes", Limit: core.SlidingWindow(core.PerMinute(1000)), Key: byCustomer,
		Cost: func(j job) int64 { return j.bytes },
	}}})
	outcome := limiter.Decide(context.Background(), job{"ann", 2000})
	fmt.Println(outcome.Verdict(), outcome.RetryAfter() == core.Never, outcome.At(0).Remaining)
	// Output: denied true 1000
}

func ExampleOutcome_Binding() {
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{
		{Name: "everybody", Limit: core.FixedWindow(core.PerDay(1000)), Key: func(job) (string, error) { return "everybody", nil }},
		{Name: "per-customer", Limit: core.FixedWindow(core.PerDay(10)), Key: byCustomer},
	}})
	outcome := limiter.Decide(context.Background(), job{customer: "ann"})
	fmt.Println(outcome.At(outcome.Binding()).Rule)
	// Output: per-customer
}

func ExampleParseLimit() {
	for _, text := range []string{"100/minute", "100 per hour", "5/10s", "token-bucket 100/1m burst 20", "100/fortnight"} {
		limit, err := core.ParseLimit(text)
		fmt.Println(limit, err)
	}
	// Output:
	// sliding-window 100/1m <nil>
	// sliding-window 100/1h <nil>
	// sliding-window 5/10s <nil>
	// token-bucket 100/1m burst 20 <nil>
	// limit not set core: limit "100/fortnight": "fortnight" is not a period: use second, minute, hour, day, 7d or a duration such as 10s or 1m30s
}

// Giving a plan twice of everything, whatever its limit is.
func ExampleLimit_Algorithm() {
	limit := core.TokenBucket(core.PerMinute(100), 20)
	double := limit.Rate()
	double.Units *= 2
	switch limit.Algorithm() {
	case core.AlgorithmTokenBucket:
		limit = core.TokenBucket(double, 2*limit.Burst())
	case core.AlgorithmLeakyBucket:
		limit = core.LeakyBucket(double, 2*limit.Burst())
	case core.AlgorithmLeakyQueue:
		limit = core.LeakyQueue(double, 2*limit.Burst())
	case core.AlgorithmFixedWindow:
		limit = core.FixedWindow(double)
	case core.AlgorithmSlidingWindow:
		limit = core.SlidingWindow(double)
	case core.AlgorithmSlidingLog:
		limit = core.SlidingLog(double)
	case core.AlgorithmAnchoredWindow:
		limit = core.AnchoredWindow(double)
	}
	fmt.Println(limit, "every", limit.Rate().Period)
	// Output: token-bucket 200/1m burst 40 every 1m0s
}

func ExampleLimit_UnmarshalText() {
	limit := core.SlidingWindow(core.PerMinute(100)) // the default
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.TextVar(&limit, "limit", limit, "requests per client")
	if err := flags.Parse([]string{"-limit", "20/s"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(limit)

	var config struct{ Login core.Limit }
	err := json.Unmarshal([]byte(`{"login": "sliding-log 3/5m"}`), &config)
	fmt.Println(config.Login, err)
	// Output:
	// sliding-window 20/1s
	// sliding-log 3/5m <nil>
}

func ExampleLimit_MarshalText() {
	text, err := json.Marshal(map[string]core.Limit{"login": core.SlidingLog(core.Per(3, 5*time.Minute))})
	fmt.Println(string(text), err)
	// Output: {"login":"sliding-log 3/5m"} <nil>
}

func ExampleLimit_Validate() {
	fmt.Println(core.SlidingLog(core.PerDay(1_000_000)).Validate())
	fmt.Println(core.SlidingWindow(core.PerDay(1_000_000)).Validate())
	// Output:
	// units of a sliding-log must be 1 to 10000 (got 1000000)
	// <nil>
}

func ExampleLimit_Share() {
	limit := core.TokenBucket(core.PerMinute(100), 20)
	fmt.Println(limit.Share(3))
	// Output: token-bucket 34/1m burst 7
}

// The same requests under each algorithm: 4 at once, at a limit of 2 per second.
func ExampleLimit() {
	for _, limit := range []core.Limit{
		core.TokenBucket(core.PerSecond(2), 3),
		core.LeakyBucket(core.PerSecond(2), 3),
		core.LeakyQueue(core.PerSecond(2), 3),
		core.FixedWindow(core.PerSecond(2)),
		core.SlidingWindow(core.PerSecond(2)),
		core.SlidingLog(core.PerSecond(2)),
		core.AnchoredWindow(core.PerSecond(2)),
	} {
		start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
		memory := core.NewMemory(core.MemoryOptions{Clock: func() time.Time { return start }})
		fmt.Print(limit, ":")
		for range 4 {
			decision := make([]core.Decision, 1)
			if err := memory.Take(context.Background(), []core.Charge{{Key: "k", Limit: limit, Cost: 1}}, decision); err != nil {
				fmt.Print(err)
			}
			switch d := decision[0]; {
			case !d.Allowed:
				fmt.Printf(" retry after %v", d.RetryAfter)
			default:
				fmt.Printf(" start after %v,", d.Delay)
			}
		}
		fmt.Println()
	}
	// Output:
	// token-bucket 2/1s burst 3: start after 0s, start after 0s, start after 0s, retry after 500ms
	// leaky-bucket 2/1s burst 3: start after 0s, start after 0s, start after 0s, retry after 500ms
	// leaky-queue 2/1s burst 3: start after 0s, start after 500ms, start after 1s, retry after 500ms
	// fixed-window 2/1s: start after 0s, start after 0s, retry after 1s retry after 1s
	// sliding-window 2/1s: start after 0s, start after 0s, retry after 1.000001s retry after 1.000001s
	// sliding-log 2/1s: start after 0s, start after 0s, retry after 1s retry after 1s
	// anchored-window 2/1s: start after 0s, start after 0s, retry after 1s retry after 1s
}

// An hour that begins with a client's first request, not with the clock's.
func ExampleAnchoredWindow() {
	now := time.Date(2026, 11, 21, 9, 40, 0, 0, time.UTC)
	memory := core.NewMemory(core.MemoryOptions{Clock: func() time.Time { return now }})
	request := []core.Charge{{Scope: "api", Key: "ann", Limit: core.AnchoredWindow(core.PerHour(2)), Cost: 1}}
	decision := make([]core.Decision, 1)
	for range 5 {
		if err := memory.Take(context.Background(), request, decision); err != nil {
			fmt.Println(err)
		}
		d := decision[0]
		fmt.Println(now.Format("15:04"), d.Allowed, d.Remaining, "left, the window closes in", d.ResetAfter)
		now = now.Add(20 * time.Minute)
	}
	// Output:
	// 09:40 true 1 left, the window closes in 1h0m0s
	// 10:00 true 0 left, the window closes in 40m0s
	// 10:20 false 0 left, the window closes in 20m0s
	// 10:40 true 1 left, the window closes in 1h0m0s
	// 11:00 true 0 left, the window closes in 40m0s
}

func ExampleDecision() {
	charges := []core.Charge{{Key: "ann", Limit: core.TokenBucket(core.PerMinute(60), 10), Cost: 4}}
	decisions := make([]core.Decision, 1)
	memory := atNoon()
	for range 3 {
		if err := memory.Take(context.Background(), charges, decisions); err != nil {
			fmt.Println(err)
		}
		d := decisions[0]
		fmt.Println(d.Allowed, d.Remaining, "retry after", d.RetryAfter, "reset after", d.ResetAfter, "spread over", d.EffectiveWindow)
	}
	fmt.Println("at", time.UnixMicro(decisions[0].At).UTC().Format(time.TimeOnly))
	// Output:
	// true 6 retry after 0s reset after 4s spread over 6s
	// true 2 retry after 0s reset after 8s spread over 2s
	// false 2 retry after 2s reset after 8s spread over 2s
	// at 12:00:00
}

// Trying a stricter limit out: what it would have denied is seen, not felt.
func ExampleCharge() {
	charges := []core.Charge{
		{Scope: "today", Key: "ann", Limit: core.FixedWindow(core.PerDay(3)), Cost: 1},
		{Scope: "planned", Key: "ann", Limit: core.FixedWindow(core.PerDay(1)), Cost: 1, Shadow: true},
	}
	decisions := make([]core.Decision, len(charges))
	memory := core.NewMemory(core.MemoryOptions{})
	for range 4 {
		if err := memory.Take(context.Background(), charges, decisions); err != nil {
			fmt.Println(err)
		}
		fmt.Println(decisions[0].Allowed, decisions[1].Allowed)
	}
	// Output:
	// true true
	// true false
	// true false
	// false false
}

// A backend around another forwards what the other can do besides.
func ExampleBackend() {
	audited := &audit{inner: core.NewMemory(core.MemoryOptions{})}
	limiter := core.MustNew(core.Config[job]{
		Backend: audited,
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: core.FixedWindow(core.PerDay(1)), Key: byCustomer}},
	})
	for range 2 {
		limiter.Decide(context.Background(), job{customer: "ann"})
	}
	fmt.Println(audited.denied, core.Reset(context.Background(), audited, "per-customer", "ann"))
	// Output: 1 <nil>
}

type audit struct {
	inner  core.Backend
	denied int // use something safe for concurrent use
}

func (a *audit) Take(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	err := a.inner.Take(ctx, charges, out)
	for _, d := range out {
		if err == nil && !d.Allowed {
			a.denied++
		}
	}
	return err
}

// Reset implements [core.Resetter]; core.Peeker and core.Counter go the same way.
func (a *audit) Reset(ctx context.Context, scope, key string) error {
	return core.Reset(ctx, a.inner, scope, key)
}

// With room for as many keys as there are customers, nobody is ever displaced.
func ExampleMemoryOptions() {
	memory := core.NewMemory(core.MemoryOptions{MaxKeys: 1_000, MaxLogEntries: 10_000})
	limiter := core.MustNew(core.Config[job]{
		Backend: memory,
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: core.SlidingLog(core.PerDay(10)), Key: byCustomer}},
	})
	for i := range 1_000 {
		limiter.Decide(context.Background(), job{customer: fmt.Sprint("customer ", i)})
	}
	live, err := memory.Count(context.Background())
	fmt.Println(live, err)
	// Output: 1000 <nil>
}

// Three limiters share a store. Each has a rule of its own, and one that spends the
// same budget in all of them.
func ExampleNewMemory_shared() {
	memory := core.NewMemory(core.MemoryOptions{})
	limiter := func(name string) *core.Limiter[job] {
		return core.MustNew(core.Config[job]{
			Backend: memory,
			Rules: []core.Rule[job]{
				{Name: "per-customer", Scope: name, Limit: core.SlidingWindow(core.PerDay(1)), Key: byCustomer},
				{Name: "everywhere", Limit: core.SlidingWindow(core.PerDay(2)), Key: byCustomer},
			},
		})
	}
	reports, exports, searches := limiter("reports"), limiter("exports"), limiter("searches")
	for _, l := range []*core.Limiter[job]{reports, exports, searches} {
		outcome := l.Decide(context.Background(), job{customer: "ann"})
		fmt.Println(outcome.Verdict())
	}
	// Output:
	// allowed
	// allowed
	// denied
}

// Replaying what happened yesterday, at yesterday's time.
func ExampleNewMemory() {
	var now time.Time
	memory := core.NewMemory(core.MemoryOptions{Clock: func() time.Time { return now }})
	limiter := core.MustNew(core.Config[job]{
		Backend: memory,
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: core.FixedWindow(core.PerMinute(1)), Key: byCustomer}},
	})
	for _, at := range []string{"2026-11-20T08:00:10Z", "2026-11-20T08:00:59Z", "2026-11-20T08:01:00Z"} {
		now, _ = time.Parse(time.RFC3339, at)
		outcome := limiter.Decide(context.Background(), job{customer: "ann"})
		fmt.Println(at, outcome.Verdict())
	}
	// Output:
	// 2026-11-20T08:00:10Z allowed
	// 2026-11-20T08:00:59Z denied
	// 2026-11-20T08:01:00Z allowed
}

func ExampleReset() {
	ctx := context.Background()
	memory := core.NewMemory(core.MemoryOptions{})
	limiter := core.MustNew(core.Config[job]{
		Backend: memory,
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: core.FixedWindow(core.PerDay(1)), Key: byCustomer}},
	})
	for range 2 {
		outcome := limiter.Decide(ctx, job{customer: "ann"})
		live, _ := core.Count(ctx, memory)
		fmt.Println(outcome.Verdict(), live)
	}
	fmt.Println(core.Reset(ctx, memory, "per-customer", "ann")) // the scope is the rule's name
	outcome := limiter.Decide(ctx, job{customer: "ann"})
	fmt.Println(outcome.Verdict())
	// Output:
	// allowed 1
	// denied 1
	// <nil>
	// allowed
}

func ExamplePeek() {
	memory := core.NewMemory(core.MemoryOptions{})
	charges := []core.Charge{{Scope: "per-customer", Key: "ann", Limit: core.FixedWindow(core.PerDay(5)), Cost: 3}}
	decisions := make([]core.Decision, 1)
	for _, decide := range []func() error{
		func() error { return core.Peek(context.Background(), memory, charges, decisions) },
		func() error { return memory.Take(context.Background(), charges, decisions) },
		func() error { return core.Peek(context.Background(), memory, charges, decisions) },
	} {
		err := decide()
		fmt.Println(decisions[0].Allowed, decisions[0].Remaining, err)
	}
	// Output:
	// true 5 <nil>
	// true 2 <nil>
	// false 2 <nil>
}

func ExampleCount() {
	_, err := core.Count(context.Background(), unreachable{})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.ErrUnsupported))
	// Output:
	// core: backend core_test.unreachable cannot count: unsupported operation
	// true
}

func ExampleNewDenialCache() {
	far := core.NewMemory(core.MemoryOptions{}) // imagine one across the network
	limiter := core.MustNew(core.Config[job]{
		Backend: core.NewDenialCache(far, core.DenialCacheOptions{MaxEntries: 4096, MaxAge: 2 * time.Second}),
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: core.FixedWindow(core.PerDay(1)), Key: byCustomer}},
	})
	for range 4 {
		outcome := limiter.Decide(context.Background(), job{customer: "ann"})
		fmt.Println(outcome.Verdict(), "by", outcome.At(0).Source)
	}
	// Output:
	// allowed by primary
	// denied by primary
	// denied by denial-cache
	// denied by denial-cache
}

// loudspeaker is an announcer between two caches of one program. Package redisbackend has
// one between processes.
type loudspeaker struct {
	hears  func(core.Announcement)
	others []*loudspeaker
}

func (l *loudspeaker) Listen(heard func(core.Announcement)) { l.hears = heard }

func (l *loudspeaker) Announce(a core.Announcement) {
	for _, other := range l.others {
		other.hears(a)
	}
}

// A client that one instance has banned is banned at the other, which has never seen it.
func ExampleAnnouncer() {
	there := &loudspeaker{}
	here := &loudspeaker{others: []*loudspeaker{there}}
	one := core.NewDenialCache(core.NewMemory(core.MemoryOptions{}), core.DenialCacheOptions{Announcer: here})
	two := core.NewDenialCache(core.NewMemory(core.MemoryOptions{}), core.DenialCacheOptions{Announcer: there})

	charges := []core.Charge{{Scope: "flood", Key: "192.0.2.1", Limit: core.Ban(core.PerMinute(2), time.Hour), Cost: 1}}
	out := make([]core.Decision, 1)
	for _, instance := range []core.Backend{one, one, one, two} {
		if err := instance.Take(context.Background(), charges, out); err != nil {
			fmt.Println(err)
		}
		fmt.Println(out[0].Allowed, out[0].Source)
	}
	// Output:
	// true primary
	// true primary
	// false primary
	// false denial-cache
}

// At the end of a program: End does not wait, AwaitEndings does.
func ExampleAwaitEndings() {
	backend := core.NewMemory(core.MemoryOptions{}) // or one on another server
	limiter := core.MustNew(core.Config[string]{Backend: backend, Rules: []core.Rule[string]{{
		Name: "uploads", Limit: core.Concurrent(2), Key: func(user string) (string, error) { return user, nil },
	}}})
	o := limiter.Decide(context.Background(), "ann")
	o.End(core.Result{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(core.AwaitEndings(ctx, backend))
	// Output: <nil>
}

// The first charges of a busy key ask the backend; then a block is spent.
func ExampleNewLeaseCache() {
	shared := core.NewMemory(core.MemoryOptions{}) // in place of Redis
	leases := core.NewLeaseCache(shared, core.LeaseOptions{})

	limit := core.SlidingWindow(core.PerMinute(6000))
	fmt.Println(limit.Leased(time.Second))
	charges, out := []core.Charge{{Scope: "calls", Key: "tenant 1", Limit: limit, Cost: 1}}, make([]core.Decision, 1)
	for range 8 {
		if err := leases.Take(context.Background(), charges, out); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(out[0].Source, out[0].Allowed)
	// Output:
	// sliding-window 6000/1m 1s
	// primary true
}

// What a process holds, and what became of the units that it has taken.
func ExampleLeaseCache_Counts() {
	leases := core.NewLeaseCache(core.NewMemory(core.MemoryOptions{}), core.LeaseOptions{})
	n := leases.Counts()
	fmt.Println(n.Held, "units of", n.Keys, "keys,", n.UnitsVoid, "of", n.UnitsTaken, "taken were void")
	// Output: 0 units of 0 keys, 0 of 0 taken were void
}

// twoServers keeps the keys up to m on one server, and the others on another.
type twoServers struct{ core.Backend }

func (twoServers) ServerOf(_, key string, _ core.Limit) any { return key < "n" }

// The end of a request of Ann does not wait for the server of Zoe.
func ExampleDivided() {
	var backend core.Divided = twoServers{core.NewMemory(core.MemoryOptions{})}
	limit := core.Concurrent(5)
	fmt.Println(backend.ServerOf("uploads", "ann", limit) == backend.ServerOf("uploads", "zoe", limit))
	// Output: false
}

// What a backend is asked for, so that units may be spent up to a lease later.
func ExampleLimit_Leased() {
	for _, limit := range []core.Limit{
		core.TokenBucket(core.PerSecond(1000), 1000),
		core.SlidingLog(core.PerMinute(600)),
		core.FixedWindow(core.PerMinute(100)),
		core.TokenBucket(core.PerSecond(1000), 15),
	} {
		tight, lease := limit.Leased(time.Second)
		fmt.Println(limit, "->", tight, "for", lease)
	}
	// Output:
	// token-bucket 1000/1s burst 1000 -> token-bucket 1000/1s burst 950 for 50ms
	// sliding-log 600/1m -> sliding-log 600/1m1s for 1s
	// fixed-window 100/1m -> fixed-window 100/1m for 0s
	// token-bucket 1000/1s burst 15 -> token-bucket 1000/1s burst 15 for 0s
}
