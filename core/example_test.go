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
		Backend: core.NewDenialCache(far, core.DenialCacheOptions{}),
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
