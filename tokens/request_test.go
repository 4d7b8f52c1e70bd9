package tokens_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weir-go/weir/tokens"
)

func TestTheEstimateIsTheMostThatARequestMayUse(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		api    tokens.API
		body   string
		output int64 // tokens, beside those of the body
	}{
		{tokens.ChatCompletions, `{}`, 4096},
		{tokens.ChatCompletions, `{"max_tokens":null,"n":null}`, 4096},
		{tokens.ChatCompletions, `{"max_tokens":10}`, 10},
		{tokens.ChatCompletions, ` { "a" : [ { "max_tokens" : 1 } , "}" ] , "max_tokens" : 10 } `, 10},
		{tokens.ChatCompletions, `{"max_completion_tokens":30,"max_tokens":10}`, 30},
		{tokens.ChatCompletions, `{"max_tokens":30,"max_completion_tokens":10,"n":3}`, 90},
		{tokens.ChatCompletions, `{"max_output_tokens":1,"n":2}`, 2 * 4096}, // a member of another API
		{tokens.ChatCompletions, `{"max\u005ftokens":10}`, 10},
		{tokens.ChatCompletions, `{"messages":"\"max_tokens\":1,","x\\":"\\","max_tokens":10}`, 10},
		{tokens.ChatCompletions, `{"max_tokens":4611686018427387904}`, 1 << 62},
		{tokens.ChatCompletions, `{"max_tokens":4611686018427387904,"n":4611686018427387904}`, most},
		{tokens.ChatCompletions, `{"max_tokens":2,"n":4611686018427387904}`, most},
		{tokens.ChatCompletions, `{"max_tokens":` + strings.Repeat("9", 400) + `}`, most},
		{tokens.ChatCompletions, `{"max_tokens":0,"n":4611686018427387904}`, most},
		{tokens.ChatCompletions, `{"max_completion_tokens":0}`, 4096}, // some servers then have no bound
		{tokens.ChatCompletions, `{"max_completion_tokens":0,"max_tokens":10}`, 10},
		{tokens.Responses, `{"max_output_tokens":0}`, 4096},
		{tokens.Messages, `{"max_tokens":0}`, 4096},
		{tokens.Responses, `{"max_output_tokens":10,"max_tokens":1,"n":7}`, 10},
		{tokens.Messages, `{"max_tokens":10,"max_output_tokens":1,"n":7}`, 10},
	} {
		call, err := tokens.MustNew(tokens.Config{}).Estimate(c.api, []byte(c.body))
		if err != nil {
			t.Errorf("%v %.80s: %v", c.api, c.body, err)
			continue
		}
		input := int64(len(c.body)+3) / 4
		if got := call.Usage(); got != (tokens.Usage{Input: input, Output: c.output}) {
			t.Errorf("%v %.80s: %+v, want %d and %d", c.api, c.body, got, input, c.output)
		}
		if want := min(uint64(input)+uint64(c.output), most); call.Tokens() != int64(want) {
			t.Errorf("%v %.80s: %d tokens, want %d", c.api, c.body, call.Tokens(), want)
		}
	}
}

// Servers differ in what they make of these. One that is charged for little might run for long.
func TestRequestsThatServersReadInDifferentWaysAreRefused(t *testing.T) {
	for _, body := range []string{
		``, `null`, `7`, `"{}"`, `[]`, `{`, `{}{}`, `{"max_tokens":10}x`, "\ufeff{}", `{'max_tokens':10}`,
		`{"max_tokens":10,}`,
		`{"max_tokens":1,"max_tokens":1000}`, `{"max_tokens":null,"max\u005ftokens":1000}`, `{"n":1,"n":2}`,
		`{"model":"m","model":"o"}`,
		`{"Max_Tokens":1}`, `{"MAX_TOKENS":1}`, `{"max_to\u212aens":1}`, "{\"max_token\u017f\":1}", `{"N":2}`,
		`{"MODEL":"m"}`,
		`{"max_tokens":-1}`, `{"max_tokens":1.0}`, `{"max_tokens":1e3}`, `{"max_tokens":"10"}`, `{"max_tokens":[10]}`,
		`{"max_tokens":true}`, `{"max_completion_tokens":-0}`, `{"n":0}`, `{"n":-2}`, `{"n":0.5}`,
		`{"model":7}`, `{"model":["m"]}`, `{"model":"` + strings.Repeat("m", 201) + `"}`,
		strings.Repeat("[", 1_000_000),
	} {
		if call, err := tokens.MustNew(tokens.Config{}).Estimate(tokens.ChatCompletions, []byte(body)); err == nil {
			t.Errorf("%.80s is accepted: %+v", body, call.Usage())
		} else if len(err.Error()) > 120 {
			t.Errorf("%.80s: the error has %d bytes", body, len(err.Error()))
		}
	}
	if _, err := tokens.MustNew(tokens.Config{}).Estimate(0, []byte("{}")); err == nil {
		t.Error("an API that does not exist is accepted")
	}
}

// A client could send a million keys, and each would be garbage.
func TestKeysThatDoNotCountAllocateNothing(t *testing.T) {
	meter := tokens.MustNew(tokens.Config{})
	allocations := func(keys int) float64 {
		body := []byte(`{` + strings.Repeat(`"temperature":1,`, keys) + `"n":1}`)
		return testing.AllocsPerRun(10, func() {
			if _, err := meter.Estimate(tokens.ChatCompletions, body); err != nil {
				t.Error(err)
			}
		})
	}
	if few, many := allocations(1), allocations(1000); many > few+10 {
		t.Errorf("one key: %v allocations, a thousand: %v", few, many)
	}
}

func TestACounterReplacesTheFourBytes(t *testing.T) {
	for count, want := range map[int64]int64{7: 7, 0: 0, -1: 18} {
		meter := tokens.MustNew(tokens.Config{Count: func([]byte) int64 { return count }, Output: 50})
		call, err := meter.Estimate(tokens.Messages, []byte(`{"messages":"abc"}`))
		if err != nil || call.Usage() != (tokens.Usage{Input: want, Output: 50}) {
			t.Errorf("counted %d: %+v (%v), want %d", count, call.Usage(), err, want)
		}
	}
}

func TestAModelWithoutAPriceIsRefused(t *testing.T) {
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{"large": {Input: 1, Output: 1}, "free": {}}})
	for model, want := range map[string]bool{`"large"`: true, `"free"`: true, `"l\u0061rge"`: true, `"huge"`: false,
		`"Large"`: false, `""`: false, `null`: false} {
		call, err := meter.Estimate(tokens.Responses, []byte(`{"model":`+model+`}`))
		if (err == nil) != want {
			t.Errorf("%s: %v", model, err)
		}
		if call != nil && call.Money() < 0 {
			t.Errorf("%s has no price", model)
		}
	}
	if call, err := tokens.MustNew(tokens.Config{}).Estimate(tokens.Responses, []byte(`{"model":"x"}`)); err != nil ||
		call.Money() != -1 || call.Model() != "x" {
		t.Errorf("without prices: %v, %v", call, err)
	}
}

// ten is a price that is charged as 10 for a token.
const ten = 10_000_000

func TestMoneyIsRoundedUpOverAllKindsOfTokens(t *testing.T) {
	const huge = math.MaxInt64
	for _, c := range []struct {
		price tokens.Price
		usage string
		want  int64
	}{
		{tokens.Price{Input: ten, Output: 2 * ten}, `"prompt_tokens":3,"completion_tokens":5`, 130},
		{tokens.Price{Input: 1, Output: 1}, `"prompt_tokens":1,"completion_tokens":0`, 1},
		{tokens.Price{Input: 1, Output: 1}, `"prompt_tokens":600000,"completion_tokens":400000`, 1},
		{tokens.Price{Input: 1, Output: 1}, `"prompt_tokens":600001,"completion_tokens":400000`, 2},
		{tokens.Price{}, `"prompt_tokens":600001,"completion_tokens":400000`, 0},
		{tokens.Price{Input: ten},
			`"input_tokens":3,"cache_read_input_tokens":4,"cache_creation_input_tokens":5,"output_tokens":9`, 120},
		{tokens.Price{Input: ten, Cached: 1_000_000, CacheWrites: 2 * ten},
			`"input_tokens":3,"cache_read_input_tokens":4,"cache_creation_input_tokens":5,"output_tokens":9`, 30 + 4 + 100},
		{tokens.Price{Input: ten, Cached: 1_000_000},
			`"prompt_tokens":3,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":2}`, 12},
		{tokens.Price{Input: huge, Cached: huge, CacheWrites: huge, Output: huge}, `"input_tokens":9223372036854775806,` +
			`"output_tokens":9223372036854775806`, huge},
		{tokens.Price{Input: million, Output: million}, `"input_tokens":9223372036854775806,"output_tokens":1`, huge},
		{tokens.Price{Input: million, Output: million}, `"input_tokens":9223372036854775805,"output_tokens":1`, huge - 1},
	} {
		call := call(t, tokens.Config{Prices: map[string]tokens.Price{"m": c.price}}, tokens.ChatCompletions)
		call.Answer(200, header(plain))
		fmt.Fprintf(call, `{"usage":{%s}}`, c.usage)
		if got := call.Money(); got != c.want {
			t.Errorf("%+v, %s: %d, want %d", c.price, c.usage, got, c.want)
		}
	}
}

const million = 1_000_000

// The answer says how much of the input is cached.
func TestAnEstimateTakesTheDearestInput(t *testing.T) {
	config := tokens.Config{Prices: map[string]tokens.Price{
		"m": {Input: 10, Cached: 1, CacheWrites: 5 * ten, Output: ten},
	}}
	call := call(t, config, tokens.Messages)
	if got := call.Money(); got != 100*50+900*10 {
		t.Errorf("the estimate is %d, want 14000", got)
	}
	call.Answer(200, header(stream))
	if got := call.Money(); got != 14000 {
		t.Errorf("before the first byte it is %d, want 14000", got)
	}
}

func TestMoneyIsThatOfExactArithmetic(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	number := func() int64 { return random.Int64() >> random.IntN(64) }
	for range 10_000 {
		price := tokens.Price{Input: 1 + number()/2, Cached: 1 + number()/2, CacheWrites: 1 + number()/2, Output: number()}
		call := call(t, tokens.Config{Prices: map[string]tokens.Price{"m": price}}, tokens.Messages)
		call.Answer(200, header(plain))
		fmt.Fprintf(call, `{"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,`+
			`"output_tokens":%d}}`, number()/4, number()/4, number()/4, number())
		u, sum := call.Usage(), new(big.Int)
		for _, part := range [][2]int64{{u.Input - u.Cached - u.CacheWrites, price.Input}, {u.Cached, price.Cached},
			{u.CacheWrites, price.CacheWrites}, {u.Output, price.Output}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		sum.Add(sum, big.NewInt(million-1)).Div(sum, big.NewInt(million))
		want := int64(math.MaxInt64)
		if sum.IsInt64() {
			want = sum.Int64()
		}
		if got := call.Money(); got != want {
			t.Fatalf("%+v of %+v: %d, want %d", u, price, got, want)
		}
	}
}

func TestEveryMistakeOfAConfigIsReported(t *testing.T) {
	_, err := tokens.New(tokens.Config{
		Prices: map[string]tokens.Price{"a": {Cached: -1}, "b": {}, "c": {Output: -2},
			"d": {Tiers: map[string]tokens.Price{"flex": {Calls: -1}}, Longer: map[int64]tokens.Price{-5: {HourWrites: -1}}}},
		Output: -3, MaxBody: -4,
	})
	for _, want := range []string{`tokens: price of "a": cached: must`, `tokens: price of "c": output: `,
		`tokens: price of "d": tier "flex": calls: `, `tokens: price of "d": longer: `,
		`tokens: price of "d": longer than -5: hour writes: `,
		"tokens: output: ", "tokens: max body: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

func TestARetryCountsItsLastAnswer(t *testing.T) {
	call := call(t, tokens.Config{}, tokens.ChatCompletions)
	call.Answer(200, header(stream))
	fmt.Fprint(call, "data: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9}}\n\n")
	call.Answer(503, nil)
	if call.Tokens() != 0 {
		t.Errorf("after a failure it costs %d", call.Tokens())
	}
	call.Answer(103, nil)
	call.Answer(200, header(plain))
	if call.Usage() != estimated {
		t.Errorf("a new answer begins with %+v", call.Usage())
	}
	fmt.Fprint(call, `{"usage":{"prompt_tokens":2,"completion_tokens":3}}`)
	if call.Tokens() != 5 {
		t.Errorf("at the end it costs %d, want 5", call.Tokens())
	}
}

func TestAMeterCopiesItsPrices(t *testing.T) {
	prices := map[string]tokens.Price{"m": {Input: 1_000_000}}
	meter := tokens.MustNew(tokens.Config{Prices: prices})
	prices["m"] = tokens.Price{}
	delete(prices, "m")
	call, err := meter.Estimate(tokens.Messages, []byte(`{"model":"m"}`))
	if err != nil || call.Money() != 4 {
		t.Errorf("%v, %v", call, err)
	}
}
