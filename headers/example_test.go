package headers_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// rule holds every client to 3 requests a minute. The request is its own key.
var rule = core.Rule[string]{
	Name:  "default",
	Limit: limits.TokenBucket(limits.PerMinute(3), 3),
	Key:   func(client string) (string, error) { return client, nil },
}

// decide returns the last of n outcomes for one client under rules, at noon.
func decide(n int, rules ...core.Rule[string]) *core.Outcome {
	limiter := core.MustNew(core.Config[string]{Rules: rules, Backend: atNoon()})
	var outcome core.Outcome
	for range n {
		outcome = limiter.Decide(context.Background(), "client")
	}
	return &outcome
}

// atNoon returns a backend whose time stands still.
func atNoon() *memory.Memory {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return memory.MustNew(memory.Options{MaxKeys: 10, Clock: func() time.Time { return noon }})
}

// print prints the fields of h in the order of their names.
func print(h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			fmt.Printf("%s: %s\n", name, value)
		}
	}
}

func Example() {
	rules := []core.Rule[string]{rule}
	limiter := core.MustNew(core.Config[string]{Rules: rules})
	writer, err := headers.New(headers.Options{}, rules)
	if err != nil {
		panic(err)
	}

	h := http.Header{} // Header() of an http.ResponseWriter
	outcome := limiter.Decide(context.Background(), "client")
	writer.Write(h, &outcome)
	print(h)
	// Output:
	// Ratelimit: "default";r=2;t=40
	// Ratelimit-Policy: "default";q=3;w=60
}

// New reports every mistake at once.
func ExampleNew() {
	_, err := headers.New(headers.Options{
		Formats: []headers.Format{headers.IETF, headers.Draft7},
		Jitter:  -time.Second,
	}, []core.Rule[string]{{Name: "naïve"}})
	fmt.Println(err)
	// Output:
	// headers: formats: IETF and Draft7 both use RateLimit and RateLimit-Policy with different types: choose one
	// headers: jitter: must be 0 to 24h (got -1s)
	// headers: rule "naïve": name: must be one or more characters of printable ASCII (got "naïve")
}

func ExampleValidate() {
	options := headers.Options{
		Formats:       []headers.Format{headers.Discord},
		DiscordScopes: map[string]headers.DiscordScope{"defualt": headers.DiscordShared},
	}
	fmt.Println(headers.Validate(options, []core.Rule[string]{rule}))
	// Output: headers: discord scopes: there is no rule "defualt"
}

func ExampleWriter_Write() {
	writer, _ := headers.New(headers.Options{}, []core.Rule[string]{rule})

	h := http.Header{}
	writer.Write(h, decide(4, rule)) // one request too many
	print(h)
	// Output:
	// Ratelimit: "default";r=0;t=20
	// Ratelimit-Policy: "default";q=3;w=60
	// Retry-After: 20
}

// An inner limiter adds its policies to those of the outer one.
func ExampleWriter_Write_stacked() {
	login := rule
	login.Name = "login"
	login.Limit = limits.TokenBucket(limits.PerHour(10), 10)
	outer, _ := headers.New(headers.Options{}, []core.Rule[string]{rule})
	inner, _ := headers.New(headers.Options{}, []core.Rule[string]{login})

	h := http.Header{}
	outer.Write(h, decide(1, rule))
	inner.Write(h, decide(1, login))
	print(h)
	// Output:
	// Ratelimit: "default";r=2;t=40, "login";r=9;t=3240
	// Ratelimit-Policy: "default";q=3;w=60, "login";q=10;w=3600
}

// The quotas of a client are not the reason for a 503 of your own.
func ExampleWriter_Keep() {
	rules := []core.Rule[string]{rule}
	outcome := core.MustNew(core.Config[string]{Rules: rules}).Decide(context.Background(), "alice")
	w := headers.MustNew(headers.Options{}, rules)
	h := http.Header{}
	w.Write(h, &outcome)
	kept := w.Keep(h)
	h.Set("RateLimit", `"default";r=0;t=20`) // a cache answers with the fields of another request
	fmt.Println(kept.Changed(h))
	kept.Restore(h)
	fmt.Println(h.Get("RateLimit")[:13])
	// Output:
	// true
	// "default";r=2
}

func ExampleDelete() {
	h := http.Header{"Retry-After": {"3"}, "Ratelimit": {`"default";r=1;t=60`}} // the latter by an outer limiter
	headers.Delete(h)
	print(h)
	// Output: Retry-After: 3
}

// The limit of the plan is found for each request.
func ExampleNew_limitFor() {
	perPlan := core.Rule[string]{
		Name: "plan",
		LimitFor: func(string, string) (limits.Limit, error) {
			return limits.TokenBucket(limits.PerMinute(600), 60), nil
		},
		Key: rule.Key,
	}
	rules := []core.Rule[string]{rule, perPlan}
	writer, _ := headers.New(headers.Options{}, rules)

	h := http.Header{}
	writer.Write(h, decide(1, rules...))
	print(h)
	// Output:
	// Ratelimit: "default";r=2;t=40, "plan";r=59;t=6
	// Ratelimit-Policy: "default";q=3;w=60, "plan";q=60;w=6
}

func ExampleFormat() {
	for _, format := range []headers.Format{
		headers.IETF, headers.Draft7, headers.Draft6, headers.GitHub, headers.DeltaSeconds, headers.Discord,
		headers.EpochSeconds, headers.OpenAI, headers.Anthropic,
	} {
		options := headers.Options{Formats: []headers.Format{format}}
		writer, _ := headers.New(options, []core.Rule[string]{rule})
		h := http.Header{}
		writer.Write(h, decide(4, rule))
		fmt.Println("--", format)
		print(h)
	}
	// Output:
	// -- IETF
	// Ratelimit: "default";r=0;t=20
	// Ratelimit-Policy: "default";q=3;w=60
	// Retry-After: 20
	// -- Draft7
	// Ratelimit: limit=3, remaining=0, reset=20
	// Ratelimit-Policy: 3;w=60
	// Retry-After: 20
	// -- Draft6
	// Ratelimit-Limit: 3
	// Ratelimit-Policy: 3;w=60
	// Ratelimit-Remaining: 0
	// Ratelimit-Reset: 20
	// Retry-After: 20
	// -- GitHub
	// Retry-After: 20
	// X-Ratelimit-Limit: 3
	// X-Ratelimit-Remaining: 0
	// X-Ratelimit-Reset: 1795262420
	// X-Ratelimit-Resource: default
	// X-Ratelimit-Used: 3
	// -- DeltaSeconds
	// Retry-After: 20
	// X-Ratelimit-Limit: 3
	// X-Ratelimit-Remaining: 0
	// X-Ratelimit-Reset: 20
	// -- Discord
	// Retry-After: 20
	// Via: 1.1 weir
	// X-Ratelimit-Bucket: default
	// X-Ratelimit-Limit: 3
	// X-Ratelimit-Remaining: 0
	// X-Ratelimit-Reset: 1795262420.000
	// X-Ratelimit-Reset-After: 20.000
	// X-Ratelimit-Scope: user
	// -- EpochSeconds
	// Retry-After: 20
	// X-Ratelimit-Limit: 3
	// X-Ratelimit-Remaining: 0
	// X-Ratelimit-Reset: 1795262420
	// -- OpenAI
	// Retry-After: 20
	// Retry-After-Ms: 20000
	// X-Ratelimit-Limit-Requests: 3
	// X-Ratelimit-Remaining-Requests: 0
	// X-Ratelimit-Reset-Requests: 1m0s
	// -- Anthropic
	// Anthropic-Ratelimit-Requests-Limit: 3
	// Anthropic-Ratelimit-Requests-Remaining: 0
	// Anthropic-Ratelimit-Requests-Reset: 2026-11-21T12:01:00Z
	// Retry-After: 20
	// Retry-After-Ms: 20000
}

// The unit of a rule says which fields of a language model it has.
func ExampleOptions_formats_tokens() {
	tokens := core.Rule[string]{
		Name: "tokens", Limit: limits.TokenBucket(limits.PerMinute(90_000), 90_000), Key: rule.Key,
		Unit: core.Tokens,
		Cost: func(string) int64 { return 1500 }, // an estimate of the prompt and the answer
	}
	options := headers.Options{Formats: []headers.Format{headers.OpenAI}}
	writer, _ := headers.New(options, []core.Rule[string]{tokens})

	h := http.Header{}
	writer.Write(h, decide(1, tokens))
	print(h)
	// Output:
	// X-Ratelimit-Limit-Tokens: 90000
	// X-Ratelimit-Remaining-Tokens: 88500
	// X-Ratelimit-Reset-Tokens: 1s
}

func ExampleFormat_String() {
	fmt.Println(headers.IETF, headers.Draft6, headers.Format(0))
	// Output: IETF Draft6 Format(0)
}

// Clients of several generations can be served at once.
func ExampleOptions_formats() {
	options := headers.Options{Formats: []headers.Format{headers.IETF, headers.Draft6, headers.GitHub}}
	writer, _ := headers.New(options, []core.Rule[string]{rule})

	h := http.Header{}
	writer.Write(h, decide(1, rule))
	print(h)
	// Output:
	// Ratelimit: "default";r=2;t=40
	// Ratelimit-Limit: 3
	// Ratelimit-Policy: "default";q=3;w=60
	// Ratelimit-Remaining: 2
	// Ratelimit-Reset: 20
	// X-Ratelimit-Limit: 3
	// X-Ratelimit-Remaining: 2
	// X-Ratelimit-Reset: 1795262420
	// X-Ratelimit-Resource: default
	// X-Ratelimit-Used: 1
}

// A login route need not publish how many tries are left.
func ExampleShow() {
	for _, show := range []headers.Show{headers.Always, headers.OnDenial, headers.Omit} {
		writer, _ := headers.New(headers.Options{Show: show}, []core.Rule[string]{rule})
		for _, n := range []int{1, 4} {
			h := http.Header{}
			writer.Write(h, decide(n, rule))
			fmt.Println(slices.Sorted(maps.Keys(h)))
		}
	}
	// Output:
	// [Ratelimit Ratelimit-Policy]
	// [Ratelimit Ratelimit-Policy Retry-After]
	// []
	// [Ratelimit Ratelimit-Policy Retry-After]
	// []
	// [Retry-After]
}

// A concurrency limit has no window. Nobody knows when a unit is released: the wait is a
// guess.
func ExampleWriter_Write_concurrent() {
	uploads := core.Rule[string]{Name: "uploads", Limit: limits.Concurrent(3), Key: rule.Key}
	writer, _ := headers.New(headers.Options{}, []core.Rule[string]{uploads})
	for _, n := range []int{1, 4} {
		h := http.Header{}
		writer.Write(h, decide(n, uploads))
		print(h)
	}
	// Output:
	// Ratelimit: "uploads";r=2
	// Ratelimit-Policy: "uploads";q=3;qu="concurrent-requests"
	// Ratelimit: "uploads";r=0
	// Ratelimit-Policy: "uploads";q=3;qu="concurrent-requests"
	// Retry-After: 1
}

// If only rules with DenyAs503 deny a request, the answer is a 503 without quotas.
func ExampleWriter_Write_capacity() {
	service := core.Rule[string]{Name: "service", Limit: limits.Concurrent(3), Key: rule.Key, DenyAs503: true}
	writer, _ := headers.New(headers.Options{}, []core.Rule[string]{service})
	h := http.Header{}
	outcome := decide(4, service)
	writer.Write(h, outcome)
	fmt.Println(outcome.Status())
	print(h)
	// Output:
	// 503
	// Retry-After: 1
}

// The fields that httprate sends, for clients that rely on them.
func ExampleRetryAfter() {
	options := headers.Options{Formats: []headers.Format{headers.EpochSeconds}, RetryAfter: headers.Window}
	writer, _ := headers.New(options, []core.Rule[string]{rule})
	h := http.Header{}
	writer.Write(h, decide(4, rule)) // a client might come back after 20 seconds
	print(h)
	// Output:
	// Retry-After: 60
	// X-Ratelimit-Limit: 3
	// X-Ratelimit-Remaining: 0
	// X-Ratelimit-Reset: 1795262420
}

// Fields with other names, instead of the fields of the formats.
func ExampleOptions_custom() {
	options := headers.Options{
		Formats: []headers.Format{}, // none
		Custom: func(h http.Header, o core.Outcome) {
			if i := o.BindingRule(); i >= 0 {
				h.Set("X-Quota-Left", strconv.FormatInt(o.At(i).Remaining, 10))
			}
		},
	}
	writer, _ := headers.New(options, []core.Rule[string]{rule})
	for _, n := range []int{1, 4} {
		h := http.Header{}
		writer.Write(h, decide(n, rule))
		print(h)
	}
	// Output:
	// X-Quota-Left: 2
	// Retry-After: 20
	// X-Quota-Left: 0
}

// At noon nearly all of a day's units are left for half a day: twice the pace of
// the policy. With CapPace, t asks the client to spread them over the day.
func ExampleOptions_capPace() {
	daily := rule
	daily.Name = "daily"
	daily.Limit = limits.FixedWindow(limits.PerDay(100)) // ends at midnight
	for _, capPace := range []bool{false, true} {
		writer, _ := headers.New(headers.Options{CapPace: capPace}, []core.Rule[string]{daily})
		h := http.Header{}
		writer.Write(h, decide(1, daily))
		print(h)
	}
	// Output:
	// Ratelimit: "daily";r=99;t=43200
	// Ratelimit-Policy: "daily";q=100;w=86400
	// Ratelimit: "daily";r=99;t=85536
	// Ratelimit-Policy: "daily";q=100;w=86400
}

// The rate and the burst of a bucket, apart.
func ExampleOptions_burstParameter() {
	bucket := rule
	bucket.Limit = limits.TokenBucket(limits.PerMinute(3), 10)
	writer, _ := headers.New(headers.Options{BurstParameter: "acme-burst"}, []core.Rule[string]{bucket})
	h := http.Header{}
	writer.Write(h, decide(1, bucket))
	print(h)
	// Output:
	// Ratelimit: "default";r=9;t=180
	// Ratelimit-Policy: "default";q=3;w=60;acme-burst=10
}

func ExampleOptions_jitter() {
	writer, _ := headers.New(headers.Options{Jitter: 10 * time.Second}, []core.Rule[string]{rule})

	h := http.Header{}
	writer.Write(h, decide(4, rule)) // without jitter: 20 seconds
	seconds, _ := strconv.Atoi(h.Get("Retry-After"))
	fmt.Println(seconds >= 20, seconds <= 30)
	fmt.Println(h.Get("RateLimit") == fmt.Sprintf(`"default";r=0;t=%d`, seconds))
	// Output:
	// true true
	// true
}

// The adapters set both; this program has none.
func ExampleOptions_maxPromise() {
	bucket := rule
	bucket.Limit = limits.TokenBucket(limits.PerMinute(1), 1)
	rules := []core.Rule[string]{bucket}
	options := headers.Options{MaxPromise: 5 * time.Minute}
	limiter := core.MustNew(core.Config[string]{Rules: rules, MaxPromise: options.MaxPromise, Backend: atNoon()})
	writer := headers.MustNew(options, rules)

	limiter.Decide(context.Background(), "client")
	for range 3 {
		h := http.Header{}
		outcome := limiter.Decide(context.Background(), "client")
		writer.Write(h, &outcome)
		fmt.Println(h.Get("RateLimit"), h.Get("Retry-After"))
	}
	// Output:
	// "default";r=0;t=60 60
	// "default";r=0;t=120 120
	// "default";r=0;t=180 180
}

func ExampleDigest() {
	options := headers.Options{PartitionKey: headers.Digest}
	writer, _ := headers.New(options, []core.Rule[string]{rule})

	h := http.Header{}
	writer.Write(h, decide(1, rule))
	print(h)
	// Output:
	// Ratelimit: "default";r=2;t=40;pk=:lI/mA/YdwDY=:
	// Ratelimit-Policy: "default";q=3;w=60
}

func ExampleOptions_discord() {
	writer, err := headers.New(headers.Options{
		Formats:       []headers.Format{headers.Discord},
		DiscordScopes: map[string]headers.DiscordScope{"default": headers.DiscordGlobal}, // on every route
	}, []core.Rule[string]{rule})
	if err != nil {
		panic(err)
	}

	h := http.Header{}
	writer.Write(h, decide(4, rule))
	print(h)
	// Output:
	// Retry-After: 20
	// Via: 1.1 weir
	// X-Ratelimit-Bucket: default
	// X-Ratelimit-Global: true
	// X-Ratelimit-Limit: 3
	// X-Ratelimit-Remaining: 0
	// X-Ratelimit-Reset: 1795262420.000
	// X-Ratelimit-Reset-After: 20.000
	// X-Ratelimit-Scope: global
}

// A limit that all clients share is hidden from each of them.
func ExampleWriter_Write_hidden() {
	service := core.Rule[string]{
		Name: "service", Limit: limits.TokenBucket(limits.PerMinute(60), 5), Hidden: true,
		Key: func(string) (string, error) { return "all", nil },
	}
	writer, err := headers.New(headers.Options{}, []core.Rule[string]{rule, service})
	if err != nil {
		panic(err)
	}

	h := http.Header{}
	writer.Write(h, decide(1, rule, service))
	print(h)
	// Output:
	// Ratelimit: "default";r=2;t=40
	// Ratelimit-Policy: "default";q=3;w=60
}

// A limit of a month: no client is told to sleep for three weeks.
func ExampleOptions_maxRetryAfter() {
	month := rule
	month.Limit = limits.FixedWindow(limits.Per(3, 30*24*time.Hour))
	writer, _ := headers.New(headers.Options{MaxRetryAfter: time.Hour}, []core.Rule[string]{month})

	h := http.Header{}
	writer.Write(h, decide(4, month))
	fmt.Println(h.Get("RateLimit"))
	fmt.Printf("Retry-After: %q, too long: %t\n", h.Get("Retry-After"), headers.TooLong(h))
	// Output:
	// "default";r=0;t=993600
	// Retry-After: "", too long: true
}

// A denial of the program's own says that a retry is useless today.
func ExampleTooLong() {
	month := rule
	month.Limit = limits.FixedWindow(limits.Per(3, 30*24*time.Hour))
	writer, _ := headers.New(headers.Options{MaxRetryAfter: time.Hour}, []core.Rule[string]{month})

	h := http.Header{}
	writer.Write(h, decide(4, month))
	if headers.TooLong(h) {
		h.Set("X-Should-Retry", "false")
	}
	fmt.Println(h.Get("X-Should-Retry"))
	// Output: false
}
