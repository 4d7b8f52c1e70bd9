package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
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
			Limit: limits.TokenBucket(limits.PerHour(60), 2),
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
			{Name: "per-customer", Limit: limits.SlidingWindow(limits.Per(10, -time.Second)), Key: byCustomer},
			{Name: "volume", Limit: limits.TokenBucket(limits.PerMinute(100), 0)},
		},
	})
	fmt.Println(err)
	// Output:
	// core: rule "per-customer": limit: period must be positive (got -1s)
	// core: rule "volume": key: is nil: set a key function (keyfuncs returns nil for illegal arguments)
	// core: rule "volume": limit: burst must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	core.MustNew(core.Config[job]{})
	// Output: core: no rules: a limiter needs at least one
}

func ExampleOutcome_Allowed() {
	limiter := core.MustNew(core.Config[job]{
		Rules: []core.Rule[job]{{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byCustomer}},
	})
	ann := job{customer: "ann"}
	fmt.Println(limiter.Decide(context.Background(), ann).Allowed(), limiter.Decide(context.Background(), ann).Allowed())
	// Output: true false
}

func ExampleLimiter_Decide() {
	limiter := core.MustNew(core.Config[job]{
		Rules: []core.Rule[job]{
			{Name: "jobs", Limit: limits.FixedWindow(limits.PerDay(100)), Key: byCustomer},
			{Name: "bytes", Limit: limits.FixedWindow(limits.PerDay(5000)), Key: byCustomer,
				Cost: func(j job) int64 { return j.bytes }},
		},
	})
	for _, j := range []job{{"ann", 4000}, {"ann", 2000}, {"ann", 1000}} {
		outcome := limiter.Decide(context.Background(), j)
		fmt.Println(j.bytes, outcome.Verdict())
		for i := range outcome.Len() {
			d := outcome.At(i)
			fmt.Println(" ", d.Rule(), d.Allowed, d.Remaining)
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

func ExampleLimiter_DecideInto() {
	limiter := core.MustNew(core.Config[job]{
		Rules: []core.Rule[job]{{Name: "per-customer", Limit: limits.TokenBucket(limits.PerHour(60), 2), Key: byCustomer}},
	})
	var outcome core.Outcome // one place for all decisions of the loop
	for range 3 {
		limiter.DecideInto(context.Background(), job{customer: "ann"}, &outcome)
		fmt.Println(outcome.Allowed())
	}
	// Output:
	// true
	// true
	// false
}

func ExampleRule_limitFor() {
	plans := map[string]limits.Limit{
		"ann": limits.FixedWindow(limits.PerDay(1000)),
	}
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "plan",
		Key:  byCustomer,
		LimitFor: func(j job, _ string) (limits.Limit, error) {
			if limit, ok := plans[j.customer]; ok {
				return limit, nil
			}
			return limits.FixedWindow(limits.PerDay(10)), nil
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
	overrides := map[string]limits.Limit{
		"ann": limits.FixedWindow(limits.PerDay(1000)),
	}
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "plan",
		Key:  byCustomer,
		LimitFor: func(_ job, customer string) (limits.Limit, error) {
			if limit, ok := overrides[customer]; ok {
				return limit, nil
			}
			return limits.FixedWindow(limits.PerDay(10)), nil
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
		Limit: limits.TokenBucket(limits.PerHour(1_000_000), 5000),
		Key:   byCustomer,
		Cost:  func(j job) int64 { return j.bytes },
		Unit:  core.ContentBytes,
	}}})
	outcome := limiter.Decide(context.Background(), job{"ann", 2000})
	d := outcome.At(0)
	fmt.Println(d.Remaining, d.Unit(), "left")
	// Output: 3000 content-bytes left
}

func ExampleWhen() {
	large := func(j job) bool { return j.bytes > 1000 }
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "large-jobs", Limit: limits.FixedWindow(limits.PerDay(1)), Key: core.When(large, byCustomer),
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

// Large jobs have a limit of their own, and all others one that large jobs do not use up.
func ExampleUnless() {
	large := func(j job) bool { return j.bytes > 1000 }
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{
		{Name: "large-jobs", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: core.When(large, byCustomer)},
		{Name: "jobs", Limit: limits.TokenBucket(limits.PerDay(10), 10), Key: core.Unless(large, byCustomer)},
	}})
	for _, bytes := range []int64{2000, 2000, 10} {
		outcome := limiter.Decide(context.Background(), job{"ann", bytes})
		fmt.Println(bytes, outcome.Verdict(), "by", outcome.At(0).Rule())
	}
	// Output:
	// 2000 allowed by large-jobs
	// 2000 denied by large-jobs
	// 10 allowed by jobs
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
		Name: "large-jobs", Limit: limits.FixedWindow(limits.PerDay(1)), Key: logged(core.When(large, byCustomer)),
	}}})
	outcome := limiter.Decide(context.Background(), job{"ann", 10})
	fmt.Println(outcome.Verdict(), "by", outcome.Len(), "rules")
	// Output: allowed by 0 rules
}

func ExampleErrAbsent() {
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name:  "per-customer",
		Limit: limits.FixedWindow(limits.PerDay(1)),
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

// unreachable is a backend that is out of order.
type unreachable struct{}

func (unreachable) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.New("connection refused")
}

func ExampleFailurePolicy() {
	for _, onFailure := range []core.FailurePolicy{core.FallBack, core.FailOpen, core.FailClosed} {
		limiter := core.MustNew(core.Config[job]{
			Backend: unreachable{},
			Rules: []core.Rule[job]{{
				Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byCustomer, OnFailure: onFailure,
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
		Fallback:  memory.MustNew(memory.Options{MaxKeys: 10_000}),
		Instances: 3,
		Rules:     []core.Rule[job]{{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(100)), Key: byCustomer}},
	})
	outcome := limiter.Decide(context.Background(), job{customer: "ann"})
	fmt.Println(outcome.At(0).Limit(), outcome.At(0).Remaining)
	// Output: fixed-window 34/1d 33
}

// Counting decisions for metrics: labels that are few, and never the key.
func ExampleConfig_observe() {
	counts := map[string]int{} // use something safe for concurrent use
	limiter := core.MustNew(core.Config[job]{
		Rules: []core.Rule[job]{{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byCustomer}},
		Observer: core.ObserverFuncs[job]{OnDecision: func(_ context.Context, _ job, o core.Outcome) {
			for i := range o.Len() {
				d := o.At(i)
				counts[fmt.Sprintf("%s %v by %v", d.Rule(), o.Verdict(), d.Source)]++
			}
		}},
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
			fmt.Println(outcome.Status(), "retry after", outcome.RetryAfter()) // 503 if the service is full
		case core.Unavailable:
			fmt.Println("503:", outcome.Err()) // for the log: the client need not know why
		case core.Abandoned:
			fmt.Println("nobody listens:", outcome.Err())
		}
	}
	rule := core.Rule[job]{Name: "per-customer", Limit: limits.TokenBucket(limits.PerHour(1), 1), Key: byCustomer}
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
func atNoon() *memory.Memory {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return memory.MustNew(memory.Options{Clock: func() time.Time { return noon }})
}

func ExampleOutcome_Delay() {
	limiter := core.MustNew(core.Config[job]{
		Backend: atNoon(),
		Rules:   []core.Rule[job]{{Name: "evenly", Limit: limits.LeakyQueue(limits.PerSecond(4), 2), Key: byCustomer}},
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

func ExampleOutcome_Turn() {
	limiter := core.MustNew(core.Config[job]{
		MaxPromise: 5 * time.Minute,
		Rules: []core.Rule[job]{
			{Name: "per-customer", Limit: limits.TokenBucket(limits.PerMinute(1), 1), Key: byCustomer},
		},
	})
	limiter.Decide(context.Background(), job{customer: "ann"})
	for range 3 {
		outcome := limiter.Decide(context.Background(), job{customer: "ann"})
		fmt.Println(outcome.RetryAfter().Round(time.Second), outcome.Turn().Round(time.Second))
	}
	// Output:
	// 1m0s 1m0s
	// 1m0s 2m0s
	// 1m0s 3m0s
}

// A program that shows customers what is left leaves out what all of them share.
func ExampleRuleDecision_Hidden() {
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{
		{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(10)), Key: byCustomer},
		{Name: "everybody", Limit: limits.FixedWindow(limits.PerDay(1000)), Hidden: true,
			Key: func(job) (string, error) { return "everybody", nil }},
	}})
	outcome := limiter.Decide(context.Background(), job{customer: "ann"})
	for i := range outcome.Len() {
		if d := outcome.At(i); !d.Hidden() {
			fmt.Println(d.Rule(), d.Remaining)
		}
	}
	// Output: per-customer 9
}

func ExampleOutcome_BindingRule() {
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{
		{Name: "everybody", Limit: limits.FixedWindow(limits.PerDay(1000)),
			Key: func(job) (string, error) { return "everybody", nil }},
		{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(10)), Key: byCustomer},
	}})
	outcome := limiter.Decide(context.Background(), job{customer: "ann"})
	fmt.Println(outcome.At(outcome.BindingRule()).Rule())
	// Output: per-customer
}

// Three limiters share a store. Each has a rule of its own, and one that spends the
// same budget in all of them.
func ExampleConfig_backend() {
	store := memory.MustNew(memory.Options{})
	limiter := func(name string) *core.Limiter[job] {
		return core.MustNew(core.Config[job]{
			Backend: store,
			Rules: []core.Rule[job]{
				{Name: "per-customer", Scope: name, Limit: limits.SlidingWindow(limits.PerDay(1)), Key: byCustomer},
				{Name: "everywhere", Limit: limits.SlidingWindow(limits.PerDay(2)), Key: byCustomer},
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

// The last rule limits what no other names, so a route that was forgotten does not pass in silence.
func ExampleOtherwise() {
	is := func(want string) func(string) bool { return func(path string) bool { return path == want } }
	everybody := func(string) (string, error) { return "all", nil }
	rules := []core.Rule[string]{
		{Name: "search", Limit: limits.FixedWindow(limits.PerDay(100)), Key: core.When(is("/search"), everybody)},
	}
	other := core.Rule[string]{Name: "other", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: core.Otherwise(rules, everybody)}
	limiter := core.MustNew(core.Config[string]{Rules: append(rules, other)})
	for _, path := range []string{"/search", "/search", "/export", "/export"} {
		o := limiter.Decide(context.Background(), path)
		fmt.Println(path, o.At(0).Rule(), o.Verdict())
	}
	// Output:
	// /search search allowed
	// /search search allowed
	// /export other allowed
	// /export other denied
}

func ExampleLimiter_Applies() {
	search := func(path string) bool { return path == "/search" }
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "search", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: core.When(search, func(string) (string, error) { return "all", nil }),
	}}})
	for _, path := range []string{"/search", "/export"} {
		if !limiter.Applies(path) {
			fmt.Println("no rule limits", path)
		}
	}
	// Output: no rule limits /export
}
