package limits_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

func ExampleAlgorithms() {
	for _, algorithm := range limits.Algorithms() {
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
	// calendar
	// distinct
	// growing-ban
}

// job is a request of an application that is not about HTTP at all.
type job struct {
	customer string
	bytes    int64
}

func byCustomer(j job) (string, error) { return j.customer, nil }

// A decision that nobody counted has no numbers to show.
func ExampleSource_Counted() {
	for _, source := range []limits.Source{
		limits.SourcePrimary, limits.SourceDenialCache, limits.SourceLease, limits.SourceFallback,
		limits.SourceOpen, limits.SourceClosed, limits.SourceNotAsked,
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

// A cost that is more than the limit ever holds.
func ExampleNever() {
	limiter := core.MustNew(core.Config[job]{Rules: []core.Rule[job]{{
		Name: "bytes", Limit: limits.SlidingWindow(limits.PerMinute(1000)), Key: byCustomer,
		Cost: func(j job) int64 { return j.bytes },
	}}})
	outcome := limiter.Decide(context.Background(), job{"ann", 2000})
	fmt.Println(outcome.Verdict(), outcome.RetryAfter() == limits.Never, outcome.At(0).Remaining)
	// Output: denied true 1000
}

// Rates of other limiters are intervals, or floats.
func ExampleRateOf() {
	fmt.Println(limits.TokenBucket(limits.RateOf(2.5), 10))
	fmt.Println(limits.TokenBucket(limits.RateOf(1.0/3), 10))
	fmt.Println(limits.TokenBucket(limits.RateOf(0.7071), 10))
	// Output:
	// token-bucket 5/2s burst 10
	// token-bucket 1/3s burst 10
	// token-bucket 1/1.414227s burst 10
}

func ExampleEvery() {
	fmt.Println(limits.TokenBucket(limits.Every(100*time.Millisecond), 5))
	fmt.Println(limits.TokenBucket(limits.Every(time.Second/3), 5)) // rounded to microseconds
	fmt.Println(limits.TokenBucket(limits.Every(40*time.Microsecond), 5))
	// Output:
	// token-bucket 1/100ms burst 5
	// token-bucket 1/333.333ms burst 5
	// token-bucket 100/4ms burst 5
}

func ExampleParse() {
	for _, text := range []string{"100/minute", "100 per hour", "5/10s", "token-bucket 100/1m burst 20", "100/fortnight"} {
		limit, err := limits.Parse(text)
		fmt.Println(limit, err)
	}
	// Output:
	// sliding-window 100/1m <nil>
	// sliding-window 100/1h <nil>
	// sliding-window 5/10s <nil>
	// token-bucket 100/1m burst 20 <nil>
	// limit not set limits: "100/fortnight": "fortnight" is not a period: use second, minute, hour, day, 7d or 1m30s
}

// Giving a plan twice of everything, whatever its limit is.
func ExampleLimit_Algorithm() {
	limit := limits.TokenBucket(limits.PerMinute(100), 20)
	double := limit.Rate()
	double.Units *= 2
	switch limit.Algorithm() {
	case limits.AlgorithmTokenBucket:
		limit = limits.TokenBucket(double, 2*limit.Burst())
	case limits.AlgorithmLeakyBucket:
		limit = limits.LeakyBucket(double, 2*limit.Burst())
	case limits.AlgorithmLeakyQueue:
		limit = limits.LeakyQueue(double, 2*limit.Burst())
	case limits.AlgorithmFixedWindow:
		limit = limits.FixedWindow(double)
	case limits.AlgorithmSlidingWindow:
		limit = limits.SlidingWindow(double)
	case limits.AlgorithmSlidingLog:
		limit = limits.SlidingLog(double)
	case limits.AlgorithmAnchoredWindow:
		limit = limits.AnchoredWindow(double)
	case limits.AlgorithmCalendar:
		limit = limits.Calendar(double.Units, limit.Period())
	}
	fmt.Println(limit, "every", limit.Rate().Period)
	// Output: token-bucket 200/1m burst 40 every 1m0s
}

func ExampleLimit_UnmarshalText() {
	limit := limits.SlidingWindow(limits.PerMinute(100)) // the default
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.TextVar(&limit, "limit", limit, "requests per client")
	if err := flags.Parse([]string{"-limit", "20/s"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(limit)

	var config struct{ Login limits.Limit }
	err := json.Unmarshal([]byte(`{"login": "sliding-log 3/5m"}`), &config)
	fmt.Println(config.Login, err)
	// Output:
	// sliding-window 20/1s
	// sliding-log 3/5m <nil>
}

func ExampleLimit_MarshalText() {
	text, err := json.Marshal(map[string]limits.Limit{"login": limits.SlidingLog(limits.Per(3, 5*time.Minute))})
	fmt.Println(string(text), err)
	// Output: {"login":"sliding-log 3/5m"} <nil>
}

func ExampleLimit_Validate() {
	fmt.Println(limits.SlidingLog(limits.PerDay(1_000_000)).Validate())
	fmt.Println(limits.SlidingWindow(limits.PerDay(1_000_000)).Validate())
	// Output:
	// units of a sliding-log must be 1 to 10000 (got 1000000)
	// <nil>
}

func ExampleLimit_Share() {
	limit := limits.TokenBucket(limits.PerMinute(100), 20)
	fmt.Println(limit.Share(3))
	// Output: token-bucket 34/1m burst 7
}

// The same requests under each algorithm: 4 at once, at a limit of 2 per second.
func ExampleLimit() {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(2), 3),
		limits.LeakyBucket(limits.PerSecond(2), 3),
		limits.LeakyQueue(limits.PerSecond(2), 3),
		limits.FixedWindow(limits.PerSecond(2)),
		limits.SlidingWindow(limits.PerSecond(2)),
		limits.SlidingLog(limits.PerSecond(2)),
		limits.AnchoredWindow(limits.PerSecond(2)),
	} {
		start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
		store := memory.MustNew(memory.Options{Clock: func() time.Time { return start }})
		fmt.Print(limit, ":")
		for range 4 {
			decision := make([]limits.Decision, 1)
			if err := store.Take(context.Background(), []backends.Charge{{Key: "k", Limit: limit, Cost: 1}},
				decision); err != nil {
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
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	request := []backends.Charge{{Scope: "api", Key: "ann", Limit: limits.AnchoredWindow(limits.PerHour(2)), Cost: 1}}
	decision := make([]limits.Decision, 1)
	for range 5 {
		if err := store.Take(context.Background(), request, decision); err != nil {
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

// An address may try two user names in ten minutes. This limit does not count how often.
func ExampleDistinct() {
	now := time.Date(2026, 11, 21, 9, 40, 0, 0, time.UTC)
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	login := []backends.Charge{{
		Scope: "login", Key: "203.0.113.7", Cost: 1,
		Limit: limits.Distinct(limits.Per(2, 10*time.Minute)),
	}}
	decision, seed := make([]limits.Decision, 1), maphash.MakeSeed()
	for _, name := range []string{"ann", "ann", "bob", "ann", "root", "bob"} {
		login[0].Value = maphash.String(seed, name) // package core does this for a rule
		if err := store.Take(context.Background(), login, decision); err != nil {
			fmt.Println(err)
		}
		d := decision[0]
		fmt.Println(now.Format("15:04"), name, d.Allowed,
			d.Remaining, "new ones left, retry in", d.RetryAfter)
		now = now.Add(time.Minute)
	}
	// Output:
	// 09:40 ann true 1 new ones left, retry in 0s
	// 09:41 ann true 1 new ones left, retry in 0s
	// 09:42 bob true 0 new ones left, retry in 0s
	// 09:43 ann true 0 new ones left, retry in 0s
	// 09:44 root false 0 new ones left, retry in 8m0s
	// 09:45 bob true 0 new ones left, retry in 0s
}

// Five failures ban for an hour, and five more, soon after, for two.
func ExampleLimit_Growing() {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	ban := limits.Ban(limits.Per(5, 10*time.Minute), time.Hour).Growing(4 * time.Hour)
	failures := []backends.Charge{{Scope: "login", Key: "ann", Limit: ban, Cost: 5}}
	decision := make([]limits.Decision, 1)
	for range 5 {
		if err := store.Take(context.Background(), failures, decision); err != nil {
			fmt.Println(err)
		}
		fmt.Println(now.Format("15:04"), "banned for", decision[0].ResetAfter)
		now = now.Add(decision[0].ResetAfter)
	}
	now = now.Add(ban.Longest()) // nothing happens for so long
	if err := store.Take(context.Background(), failures, decision); err != nil {
		fmt.Println(err)
	}
	fmt.Println(now.Format("15:04"), "banned for", decision[0].ResetAfter)
	// Output:
	// 09:00 banned for 1h0m0s
	// 10:00 banned for 2h0m0s
	// 12:00 banned for 4h0m0s
	// 16:00 banned for 4h0m0s
	// 20:00 banned for 4h0m0s
	// 04:00 banned for 1h0m0s
}

func ExampleLimit_Longest() {
	ban := limits.Ban(limits.Per(5, 10*time.Minute), time.Hour)
	fmt.Println(ban.Lasting(), ban.Longest())
	ban = ban.Growing(24 * time.Hour)
	fmt.Println(ban.Lasting(), ban.Longest())
	fmt.Println(ban)
	// Output:
	// 1h0m0s 1h0m0s
	// 1h0m0s 24h0m0s
	// ban 5/10m for 1h growing to 1d
}

// A plan of three requests a month, from the 15th.
func ExampleCalendar() {
	now := time.Date(2026, 11, 14, 23, 0, 0, 0, time.UTC)
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	request := []backends.Charge{{Scope: "plan", Key: "ann", Limit: limits.Calendar(3, limits.Month.From(15)), Cost: 2}}
	decision := make([]limits.Decision, 1)
	for range 3 {
		if err := store.Take(context.Background(), request, decision); err != nil {
			fmt.Println(err)
		}
		d := decision[0]
		fmt.Println(now.Format("Jan 2 15:04"), d.Allowed, d.Remaining, "left, the period ends in", d.EffectiveWindow)
		now = now.Add(30 * time.Minute)
	}
	// Output:
	// Nov 14 23:00 true 1 left, the period ends in 1h0m0s
	// Nov 14 23:30 false 1 left, the period ends in 30m0s
	// Nov 15 00:00 true 1 left, the period ends in 720h0m0s
}

func ExamplePeriod() {
	for _, period := range []limits.Period{limits.Day, limits.Week, limits.Month, limits.Year,
		"month from 15 in Europe/Berlin"} {
		fmt.Println(limits.Calendar(10_000, period))
	}
	// Output:
	// calendar 10000/day
	// calendar 10000/week
	// calendar 10000/month
	// calendar 10000/year
	// calendar 10000/month from 15 in Europe/Berlin
}

func ExamplePeriod_From() {
	fmt.Println(limits.Month.From(15))
	fmt.Println(limits.Week.From(7))
	fmt.Println(limits.Calendar(10_000, limits.Month.From(32)).Validate())
	// Output:
	// month from 15
	// week from sunday
	// a month begins on a day from 1 to 31 (got "32")
}

func ExamplePeriod_FromDate() {
	fmt.Println(limits.Year.FromDate(time.April, 6))
	// Output: year from april 6
}

func ExamplePeriod_In() {
	fmt.Println(limits.Month.From(15).In("Europe/Berlin"))
	fmt.Println(limits.Calendar(10_000, limits.Month.In("Berlin")).Validate())
	// Output:
	// month from 15 in Europe/Berlin
	// unknown time zone "Berlin": use a name of the IANA such as "Europe/Berlin"
}

func ExampleLimit_Period() {
	limit, err := limits.Parse("calendar 10000 per month from 15")
	fmt.Println(limit.Period(), err)
	// Output: month from 15 <nil>
}

func ExampleLimit_Window() {
	limit := limits.Calendar(10_000, limits.Week)
	start, end, ok := limit.Window(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	fmt.Println(start.UTC().Format(time.DateOnly), end.UTC().Format(time.DateOnly), ok)
	// Output: 2026-11-23 2026-11-30 true
}

func ExampleDecision() {
	charges := []backends.Charge{{Key: "ann", Limit: limits.TokenBucket(limits.PerMinute(60), 10), Cost: 4}}
	decisions := make([]limits.Decision, 1)
	store := atNoon()
	for range 3 {
		if err := store.Take(context.Background(), charges, decisions); err != nil {
			fmt.Println(err)
		}
		d := decisions[0]
		fmt.Println(d.Allowed, d.Remaining, "retry after", d.RetryAfter, "reset after", d.ResetAfter, "spread over",
			d.EffectiveWindow)
	}
	fmt.Println("at", time.UnixMicro(decisions[0].At).UTC().Format(time.TimeOnly))
	// Output:
	// true 6 retry after 0s reset after 4s spread over 6s
	// true 2 retry after 0s reset after 8s spread over 2s
	// false 2 retry after 2s reset after 8s spread over 2s
	// at 12:00:00
}

func ExampleLimit_WithUnits() {
	fmt.Println(limits.TokenBucket(limits.PerMinute(100), 20).WithUnits(50))
	fmt.Println(limits.Concurrent(10).WithUnits(5))
	fmt.Println(limits.Ban(limits.PerHour(10), time.Minute).WithUnits(20))
	// Output:
	// token-bucket 50/1m burst 10
	// concurrent 5
	// ban 20/1h for 1m
}

func ExampleAlgorithm_Holds() {
	fmt.Println(limits.AlgorithmConcurrent.Holds(), limits.AlgorithmTokenBucket.Holds())
	// Output: true false
}

func ExampleAlgorithm_CountsValues() {
	fmt.Println(limits.AlgorithmDistinct.CountsValues(), limits.AlgorithmSlidingLog.CountsValues())
	// Output: true false
}

func ExampleAlgorithm_Delays() {
	fmt.Println(limits.AlgorithmLeakyQueue.Delays(), limits.AlgorithmLeakyBucket.Delays())
	// Output: true false
}

func ExampleAlgorithm_HasBurst() {
	fmt.Println(limits.AlgorithmTokenBucket.HasBurst(), limits.AlgorithmFixedWindow.HasBurst())
	// Output: true false
}

// atNoon is a memory whose clock stands still.
func atNoon() *memory.Memory {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return memory.MustNew(memory.Options{Clock: func() time.Time { return noon }})
}
