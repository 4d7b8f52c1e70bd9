package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// tokensIn returns the tokens that a request announces in fields of these tests.
func tokensIn(r *http.Request) (input, output int64) {
	input, _ = strconv.ParseInt(r.Header.Get("Input"), 10, 64)
	output, _ = strconv.ParseInt(r.Header.Get("Output"), 10, 64)
	return input, output
}

// Answers of OpenAI and Anthropic, and how long the next request waits for tokens.
func TestARequestWaitsUntilItsTokensAreLeft(t *testing.T) {
	const (
		openAI = "x-ratelimit-limit-tokens: 100000\nx-ratelimit-remaining-tokens: 39999\n" +
			"x-ratelimit-reset-tokens: 36s" // 60,000 in 36 s
		anthropic = "date: Thu, 21 Aug 2025 12:41:00 GMT\nanthropic-ratelimit-input-tokens-limit: 80000\n" +
			"anthropic-ratelimit-input-tokens-remaining: 19999\n" +
			"anthropic-ratelimit-input-tokens-reset: 2025-08-21T12:41:59Z\n" + // 60 s when rounded up
			"anthropic-ratelimit-output-tokens-limit: 16000\n" +
			"anthropic-ratelimit-output-tokens-remaining: 16000\n" +
			"anthropic-ratelimit-output-tokens-reset: 2025-08-21T12:41:00Z\n" +
			"anthropic-ratelimit-tokens-limit: 96000\nanthropic-ratelimit-tokens-remaining: 35000\n" +
			"anthropic-ratelimit-tokens-reset: 2025-08-21T12:41:59Z"
		spent = "x-ratelimit-limit-tokens: 150000\nx-ratelimit-remaining-tokens: 0\n" +
			"x-ratelimit-reset-tokens: 1m0s"
	)
	for _, tt := range []struct {
		name          string
		dialect       client.Dialect
		fields        string
		input, output int64
		wait          time.Duration // 0: none
		source        string
	}{
		{"enough are left", client.OpenAI, openAI, 30_000, 9_999, 0, ""},
		{"the rest refills", client.OpenAI, openAI, 30_000, 19_999, 6 * time.Second, "x-ratelimit-reset-tokens"},
		{"a limit that is not told", client.OpenAI,
			"x-ratelimit-remaining-tokens: 9\nx-ratelimit-reset-tokens: 36s", 10, 0, 36 * time.Second,
			"x-ratelimit-reset-tokens"},
		{"all are needed", client.OpenAI, openAI, 100_000, 0, 36 * time.Second, "x-ratelimit-reset-tokens"},
		{"more than there are", client.OpenAI, openAI, 900_000, 0, 36 * time.Second, "x-ratelimit-reset-tokens"},
		{"a request without tokens", client.OpenAI, spent, 0, 0, 0, ""},
		{"a negative cost is none", client.OpenAI, spent, -5, -5, 0, ""},
		{"the fields of others", client.OpenAI, anthropic, 1 << 40, 0, 0, ""},
		{"input", client.Anthropic, anthropic, 29_999, 0, 10 * time.Second, "anthropic-ratelimit-input-tokens-reset"},
		{"output", client.Anthropic, anthropic, 1, 16_000, 0, ""},
		// 35,000 may be 34,500 that were rounded up: 61,499 refill in 60 s
		{"all", client.Anthropic, anthropic, 19_000, 15_500, 0, ""},
		{"one too many", client.Anthropic, anthropic, 19_000, 15_501, time.Minute / 61_499,
			"anthropic-ratelimit-tokens-reset"},
		{"from a cache", client.OpenAI, openAI + "\nAge: 1", 100_000, 0, 0, ""},
		{"no numbers", client.OpenAI, "x-ratelimit-limit-tokens: -1\nx-ratelimit-remaining-tokens: -1\n" +
			"x-ratelimit-reset-tokens: 0", 100_000, 0, 0, ""},
		{"no reset", client.OpenAI, "x-ratelimit-limit-tokens: 10\nx-ratelimit-remaining-tokens: 0", 5, 0, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, scripted(always(200, list(tt.fields)...)),
					client.Options{Dialect: tt.dialect, MaxWait: 1, Tokens: tokensIn})
				get(c, "http://a/")
				_, err := do(c, request(t, "POST", "http://a/", nil, "Input", fmt.Sprint(tt.input),
					"Output", fmt.Sprint(tt.output)))
				wantHeld(t, err, tt.wait, tt.source)
			})
		})
	}
}

// wantHeld tests that a request was held back for a wait, or not at all if that is 0.
func wantHeld(t *testing.T, err error, wait time.Duration, source string) {
	t.Helper()
	var held *client.WaitError
	switch isHeld := errors.As(err, &held); {
	case wait == 0 && err != nil:
		t.Errorf("got %v, want no wait", err)
	case wait > 0 && (!isHeld || (held.Wait-wait).Abs() > time.Microsecond || held.Source != source):
		t.Errorf("got %+v, want a wait of %v by %s", err, wait, source)
	}
}

func TestWithoutItsCostARequestWaitsOnlyIfNoTokenIsLeft(t *testing.T) {
	for left, wait := range map[string]time.Duration{"0": time.Minute, "1": 0} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, scripted(always(200, "x-ratelimit-limit-tokens", "150000",
				"x-ratelimit-remaining-tokens", left, "x-ratelimit-reset-tokens", "1m0s")),
				client.Options{Dialect: client.OpenAI, MaxWait: 1})
			get(c, "http://a/")
			_, err := get(c, "http://a/")
			wantHeld(t, err, wait, "x-ratelimit-reset-tokens")
		})
	}
}

// A denial that tells no wait is by the limit of which the smallest part is left.
func TestADenialWithoutAWaitIsByTheTightestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, scripted(always(429, list("x-ratelimit-limit-requests: 500\n"+
			"x-ratelimit-remaining-requests: 499\nx-ratelimit-reset-requests: 120ms\n"+
			"x-ratelimit-limit-tokens: 30000\nx-ratelimit-remaining-tokens: 12\n"+
			"x-ratelimit-reset-tokens: 59.976s")...)), client.Options{Dialect: client.OpenAI, MaxWait: time.Second})
		if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 429 {
			t.Errorf("%v, %v", response, err)
		}
		_, err := get(c, "http://a/")
		wantWaitError(t, err, 59976*time.Millisecond, "x-ratelimit-reset-tokens")
	})
}

// Requests that the server may decide after an answer was written are counted, too.
func TestTokensOfRequestsInFlightAreNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left atomic.Int64
		left.Store(100_000)
		server := answers(func(_ int, r *http.Request) *http.Response {
			input, _ := tokensIn(r)
			at := left.Add(-input)
			time.Sleep(time.Second)
			if at < 0 {
				return answer(429, "Retry-After", "60")
			}
			return answer(200, "x-ratelimit-limit-tokens", "100000",
				"x-ratelimit-remaining-tokens", fmt.Sprint(at), "x-ratelimit-reset-tokens", "1h0m0s")
		})
		c := newClient(t, scripted(server), client.Options{
			Dialect: client.OpenAI, Tokens: tokensIn, MaxWait: 30 * time.Second,
		})
		get(c, "http://a/")
		var wg sync.WaitGroup
		var sent, held atomic.Int64
		for range 30 {
			wg.Go(func() {
				response, err := do(c, request(t, "POST", "http://a/", nil, "Input", "10000"))
				switch wait := (*client.WaitError)(nil); {
				case errors.As(err, &wait):
					held.Add(1)
				case err != nil || response.StatusCode != 200:
					t.Errorf("%v, %v", response, err)
				default:
					sent.Add(1)
				}
			})
		}
		wg.Wait()
		if sent.Load() != 10 || held.Load() != 20 {
			t.Errorf("%d sent and %d held, want 10 and 20", sent.Load(), held.Load())
		}
	})
}

// The reset of an answer that took long knows nothing of the requests after it.
func TestASlowAnswerDoesNotRenewTokensThatWereUsedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name: "tokens", Limit: limits.TokenBucket(limits.PerSecond(1000), 100_000), Unit: core.Tokens,
				Key:  keyfuncs.Constant[*http.Request]("one"),
				Cost: func(*http.Request) int64 { return 10_000 },
			}},
			Headers: headers.Options{Formats: []headers.Format{headers.OpenAI}},
		})
		base, stop := serve(limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(20 * time.Second)
		})))
		defer stop()
		var denied atomic.Int64
		c := client.MustNew(client.Options{
			Base: base, Dialect: client.OpenAI, MaxWait: time.Hour,
			Tokens: func(*http.Request) (input, output int64) { return 10_000, 0 },
			Observe: func(e client.Event) {
				if e.Kind == client.Limited {
					denied.Add(1)
				}
			},
		})
		get(c, "http://server/")
		began := time.Now()
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				if response, err := get(c, "http://server/"); err != nil || response.StatusCode != 200 {
					t.Errorf("%v, %v", response, err)
				}
			})
		}
		wg.Wait()
		// 90,000 are left and 20,000 refill meanwhile, then one request in ten seconds starts.
		if took := time.Since(began); denied.Load() > 0 || took > 4*time.Minute {
			t.Errorf("%d denied in %v", denied.Load(), took)
		}
	})
}

// The cost of a request may be any number.
func TestAHugeCostHoldsOthersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, scripted(func(n int, _ *http.Request) *http.Response {
			if n == 2 {
				time.Sleep(time.Minute)
			}
			return answer(200, "x-ratelimit-limit-tokens", "1000", "x-ratelimit-remaining-tokens", "500",
				"x-ratelimit-reset-tokens", "30s")
		}), client.Options{Dialect: client.OpenAI, Tokens: tokensIn, MaxWait: time.Hour})
		get(c, "http://a/")
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { do(c, request(t, "POST", "http://a/", nil, "Input", fmt.Sprint(int64(1)<<62))) })
		synctest.Wait()
		if _, err := do(c, request(t, "POST", "http://a/", nil, "Input", "1")); err != nil ||
			time.Since(began) < 90*time.Second {
			t.Errorf("%v after %v, want it to wait for the answer", err, time.Since(began))
		}
		wg.Wait()
	})
}

func TestTokensThatOtherClientsUseAreNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, scripted(func(n int, _ *http.Request) *http.Response {
			left := map[int]string{1: "100000", 2: "500"}[n]
			return answer(200, "x-ratelimit-limit-tokens", "100000", "x-ratelimit-remaining-tokens", left,
				"x-ratelimit-reset-tokens", "1h0m0s")
		}), client.Options{Dialect: client.OpenAI, Tokens: tokensIn, MaxWait: time.Second})
		for range 2 {
			do(c, request(t, "POST", "http://a/", nil, "Input", "1000"))
		}
		_, err := do(c, request(t, "POST", "http://a/", nil, "Input", "1000"))
		wantWaitError(t, err, 18*time.Second, "x-ratelimit-reset-tokens")
	})
}

// The third request is admitted by its tokens and held back by Limit.
func TestARequestThatIsNotSentReturnsItsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, scripted(always(200, "x-ratelimit-limit-tokens", "1000",
			"x-ratelimit-remaining-tokens", "100", "x-ratelimit-reset-tokens", "1h0m0s")),
			client.Options{Dialect: client.OpenAI, Tokens: tokensIn, MaxWait: time.Hour,
				Limit: limits.FixedWindow(limits.PerMinute(2))})
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := do(c, request(t, "POST", "http://a/", nil, "Input", "60").WithContext(ctx))
			return err
		}
		for range 2 {
			if err := ask(); err != nil {
				t.Fatal(err)
			}
		}
		wantWaitError(t, ask(), 30*time.Second, "limit")
		time.Sleep(time.Minute) // in which 15 tokens refill
		if err := ask(); err != nil {
			t.Errorf("the tokens of the third request are gone: %v", err)
		}
	})
}

// The API keys of Anthropic stand in a field of their own.
func TestTheKeysOfAnthropicAreBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, scripted(func(_ int, r *http.Request) *http.Response {
			if r.Header.Get("X-Api-Key") == "a" {
				return answer(429, "Retry-After", "60")
			}
			return answer(200)
		}), client.Options{Dialect: client.Anthropic, MaxWait: time.Second})
		do(c, request(t, "GET", "http://a/", nil, "X-Api-Key", "a"))
		_, err := do(c, request(t, "GET", "http://a/", nil, "X-Api-Key", "a"))
		wantWaitError(t, err, time.Minute, "Retry-After")
		if strings.Contains(fmt.Sprintf("%+v", err), "X-Api-Key") {
			t.Errorf("%+v", err)
		}
		if _, err := do(c, request(t, "GET", "http://a/", nil, "X-Api-Key", "b")); err != nil {
			t.Errorf("b is held back for a: %v", err)
		}
	})
}

// models is a server of a language model: a limiter with limits of requests and of tokens. At the
// start it charges what the request announces, and at the end what the answer had.
type models struct {
	name    string
	format  headers.Format
	limit   func(perMinute int64) limits.Limit
	kinds   int // of limits: requests, all tokens, input, output
	workers int
	latency time.Duration // at most, before and after the decision
}

func bucketOf(perMinute int64) limits.Limit {
	return limits.TokenBucket(limits.PerMinute(perMinute), perMinute)
}

func (m models) rules() []nethttp.Rule {
	one := keyfuncs.Constant[*http.Request]("one")
	return []nethttp.Rule{
		{Name: "requests", Limit: m.limit(600), Key: one},
		{Name: "tokens", Limit: m.limit(60_000), Key: one, Unit: core.Tokens, FinalCost: core.SpentCost,
			Cost: func(r *http.Request) int64 { in, out := tokensIn(r); return in + out }},
		{Name: "input", Limit: m.limit(50_000), Key: one, Unit: core.InputTokens,
			Cost: func(r *http.Request) int64 { in, _ := tokensIn(r); return in }},
		{Name: "output", Limit: m.limit(15_000), Key: one, Unit: core.OutputTokens, FinalCost: core.SpentCost,
			Cost: func(r *http.Request) int64 { _, out := tokensIn(r); return out }},
	}[:m.kinds]
}

const modelMinutes = 10

// run sends requests of random sizes for some minutes. It returns how many were allowed and denied,
// and which part of the tokens of the tightest limit was used.
func (m models) run(t *testing.T, o client.Options, random *rand.Rand) (allowed, denied int64, used float64) {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: m.rules(), Headers: headers.Options{Formats: []headers.Format{m.format}},
	})
	var all, inputs atomic.Int64
	served := limiter.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		input, output := tokensIn(r)
		output = rand.Int64N(output + 1)
		nethttp.Spend(r.Context(), "tokens", input+output)
		nethttp.Spend(r.Context(), "output", output)
		all.Add(input + output)
		inputs.Add(input)
		atomic.AddInt64(&allowed, 1)
	}))
	base, stop := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(rand.N(m.latency))
		served.ServeHTTP(w, r)
		time.Sleep(rand.N(m.latency))
	}))
	defer stop()
	time.Sleep(time.Until(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))) // windows begin here
	ctx, cancel := context.WithTimeout(t.Context(), modelMinutes*time.Minute-time.Millisecond)
	defer cancel()
	o.Base, o.MaxWait, o.Attempts = base, time.Hour, 100
	o.Observe = func(e client.Event) {
		if e.Kind == client.Limited {
			atomic.AddInt64(&denied, 1)
		}
	}
	c := client.MustNew(o)
	var wg sync.WaitGroup
	for range m.workers {
		sizes := rand.New(rand.NewPCG(random.Uint64(), 1))
		wg.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, "POST", "http://server/", nil)
				r.Header.Set("Input", fmt.Sprint(50+sizes.IntN(3000)))
				r.Header.Set("Output", fmt.Sprint(20+sizes.IntN(400)))
				if _, err := do(c, r); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	used = float64(all.Load()) / 60_000
	if m.kinds > 2 {
		used = max(used, float64(inputs.Load())/50_000)
	}
	if m.limit(1).Algorithm() == limits.AlgorithmTokenBucket {
		return allowed, denied, used / (modelMinutes + 1)
	}
	return allowed, denied, used / modelMinutes
}

// Beside it a client that does not know them. With fixed windows, which do not refill as told, the
// client may be denied some times in each window.
func TestAClientThatKnowsItsTokensIsNotDenied(t *testing.T) {
	random := testrun.Random(t)
	window := func(perMinute int64) limits.Limit { return limits.FixedWindow(limits.PerMinute(perMinute)) }
	const fast = 450 * time.Millisecond // the first answer arrives within a second
	for _, m := range []models{
		{"OpenAI", headers.OpenAI, bucketOf, 2, 1, fast},
		{"OpenAI", headers.OpenAI, bucketOf, 2, 16, fast},
		{"OpenAI", headers.OpenAI, bucketOf, 2, 64, fast},
		{"Anthropic", headers.Anthropic, bucketOf, 4, 1, fast},
		{"Anthropic", headers.Anthropic, bucketOf, 4, 16, fast},
		{"Anthropic", headers.Anthropic, bucketOf, 4, 64, fast},
		{"fixed windows", headers.OpenAI, window, 2, 16, fast},
	} {
		dialect, most := client.OpenAI, int64(0)
		if m.format == headers.Anthropic {
			dialect = client.Anthropic
		}
		if m.name == "fixed windows" {
			most = 3 * modelMinutes
		}
		run := func(o client.Options) (allowed, denied int64, used float64) {
			synctest.Test(t, func(t *testing.T) { allowed, denied, used = m.run(t, o, random) })
			return allowed, denied, used
		}
		allowed, denied, used := run(client.Options{Dialect: dialect, Tokens: tokensIn})
		if denied > most || used < 0.95 {
			t.Errorf("%s, %d workers: %d denied, %.3f used", m.name, m.workers, denied, used)
		}
		allowed0, denied0, used0 := run(client.Options{})
		if most == 0 && denied0 < 100 {
			t.Errorf("%s, %d workers: a client that does not know its tokens is denied only %d times",
				m.name, m.workers, denied0)
		}
		if *trace {
			t.Logf("%s, %d workers: %d allowed, %d denied, %.3f used; without: %d, %d, %.3f", m.name, m.workers,
				allowed, denied, used, allowed0, denied0, used0)
		}
	}
}
