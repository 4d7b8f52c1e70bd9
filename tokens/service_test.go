package tokens_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/tokens"
)

// services are usages as services document them, or as their programs write them. docs/tokens.md has
// the sources. A usage of several events is joined by "|".
var services = []struct {
	name, text string
	want       tokens.Usage
}{
	{"OpenAI, cache writes, sound and pictures in a chat",
		`{"service_tier":"priority","usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,` +
			`"prompt_tokens_details":{"cached_tokens":1024,"cache_write_tokens":900,"audio_tokens":40,"image_tokens":20,` +
			`"text_tokens":22},"completion_tokens_details":{"reasoning_tokens":12,"audio_tokens":200,"text_tokens":100,` +
			`"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}`,
		tokens.Usage{Input: 2006, Cached: 1024, CacheWrites: 900, Audio: 40, Images: 20, Output: 300, Reasoning: 12,
			AudioOutput: 200, Tier: "priority"}},
	{"OpenAI, cache writes of a response",
		`{"type":"response.completed","response":{"service_tier":"flex","usage":{"input_tokens":5000,` +
			`"input_tokens_details":{"cached_tokens":1000,"cache_write_tokens":3000},"output_tokens":70,` +
			`"output_tokens_details":{"reasoning_tokens":50},"total_tokens":5070}}}`,
		tokens.Usage{Input: 5000, Cached: 1000, CacheWrites: 3000, Output: 70, Reasoning: 50, Tier: "flex"}},
	{"OpenRouter",
		`{"usage":{"prompt_tokens":194,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":100,` +
			`"audio_tokens":0},"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":0,"image_tokens":1},` +
			`"cost":0.95,"cost_details":{"upstream_inference_cost":19},"server_tool_use_details":{"web_search_requests":3},` +
			`"total_tokens":196}}`,
		tokens.Usage{Input: 194, CacheWrites: 100, Output: 2, ImageOutput: 1, Calls: 3}},
	{"Moonshot, in the choices of a stream",
		`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}|{"choices":[{"index":0,"delta":{},` +
			`"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,` +
			`"cached_tokens":10}}]}`,
		tokens.Usage{Input: 19, Cached: 10, Output: 13}},
	{"Groq, in the last event",
		`{"choices":[{"delta":{"content":"a"}}],"x_groq":{"id":"req_1"}}|{"choices":[{"delta":{},"finish_reason":` +
			`"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.01,"prompt_tokens":30,"prompt_time":0.002,` +
			`"completion_tokens":40,"completion_time":0.1,"total_tokens":70,"total_time":0.102,` +
			`"prompt_tokens_details":{"cached_tokens":8}},"debug":{"input_tokens":["a","b"]},"usage_breakdown":` +
			`{"models":[{"usage":{"prompt_tokens":90}}]}},"service_tier":"on_demand"}`,
		tokens.Usage{Input: 30, Cached: 8, Output: 40, Tier: "on_demand"}},
	{"DeepSeek",
		`{"usage":{"prompt_tokens":1200,"completion_tokens":20,"total_tokens":1220,"prompt_cache_hit_tokens":1024,` +
			`"prompt_cache_miss_tokens":176,"completion_tokens_details":{"reasoning_tokens":5}}}`,
		tokens.Usage{Input: 1200, Cached: 1024, Output: 20, Reasoning: 5}},
	{"Mistral",
		`{"usage":{"prompt_tokens":500,"completion_tokens":20,"total_tokens":520,"num_cached_tokens":128,` +
			`"prompt_audio_seconds":null}}`,
		tokens.Usage{Input: 500, Cached: 128, Output: 20}},
	{"Qwen, an explicit cache",
		`{"usage":{"prompt_tokens":3019,"completion_tokens":104,"total_tokens":3123,"prompt_tokens_details":` +
			`{"cached_tokens":0,"cache_creation_input_tokens":2048,"cache_creation":{"ephemeral_5m_input_tokens":1048,` +
			`"ephemeral_1h_input_tokens":1000},"cache_type":"ephemeral"}}}`,
		tokens.Usage{Input: 3019, CacheWrites: 2048, HourWrites: 1000, Output: 104}},
	{"LiteLLM, before Anthropic",
		`{"usage":{"prompt_tokens":17000,"completion_tokens":5,"total_tokens":17005,"prompt_tokens_details":` +
			`{"cached_tokens":9000,"cache_write_tokens":6000,"cache_creation_tokens":6000,"cache_creation_token_details":` +
			`{"ephemeral_5m_input_tokens":4000,"ephemeral_1h_input_tokens":2000},"web_search_requests":1},` +
			`"cache_creation_input_tokens":6000,"cache_read_input_tokens":9000,"server_tool_use":{"web_search_requests":1},` +
			`"inference_geo":"not_available","service_tier":"standard"}}`,
		tokens.Usage{Input: 17000, Cached: 9000, CacheWrites: 6000, HourWrites: 2000, Output: 5, Calls: 1, Tier: "standard"}},
	{"xAI, a response with searches",
		`{"usage":{"input_tokens":20872,"input_tokens_details":{"cached_tokens":9920},"output_tokens":4872,` +
			`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":25744,"num_sources_used":0,` +
			`"num_server_side_tools_used":7,"cost_in_usd_ticks":628540000,"server_side_tool_usage_details":` +
			`{"x_search_calls":7},"context_details":{"input_tokens":92372,"output_tokens":94448}}}`,
		tokens.Usage{Input: 20872, Cached: 9920, Output: 4872, Calls: 7}},
	{"xAI, reasoning beside the output",
		`{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"text_tokens":32,` +
			`"audio_tokens":0,"image_tokens":0,"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94,` +
			`"audio_tokens":0},"num_sources_used":0}}`,
		tokens.Usage{Input: 32, Cached: 6, Output: 103, Reasoning: 94}},
	{"xAI, a cache beside the prompt",
		`{"usage":{"prompt_tokens":10,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":200}}}`,
		tokens.Usage{Input: 210, Cached: 200, Output: 20}},
	{"a prompt without Anthropic's caches",
		`{"usage":{"prompt_tokens":10,"completion_tokens":20,"cache_read_input_tokens":200,"cache_creation_input_tokens":5}}`,
		tokens.Usage{Input: 215, Cached: 200, CacheWrites: 5, Output: 20}},
	{"DeepInfra, reasoning that no total has",
		`{"usage":{"prompt_tokens":19,"completion_tokens":84,"total_tokens":103,"completion_tokens_details":` +
			`{"reasoning_tokens":1081}}}`,
		tokens.Usage{Input: 19, Output: 1165, Reasoning: 1081}},
	{"Perplexity, deep research",
		`{"usage":{"prompt_tokens":33,"completion_tokens":7163,"total_tokens":7196,"search_context_size":"low",` +
			`"citation_tokens":19861,"num_search_queries":19,"reasoning_tokens":193947}}`,
		tokens.Usage{Input: 33 + 19861, Output: 7163 + 193947, Reasoning: 193947, Calls: 19}},
	{"SGLang, reasoning within the output",
		`{"usage":{"prompt_tokens":20,"total_tokens":120,"completion_tokens":100,"prompt_tokens_details":null,` +
			`"reasoning_tokens":60}}`,
		tokens.Usage{Input: 20, Output: 100, Reasoning: 60}},
	{"a service of decimals and texts",
		`{"usage":{"input_tokens":"12.0","output_tokens":40.0,"input_tokens_details":{"cached_tokens":"4"}}}`,
		tokens.Usage{Input: 12, Cached: 4, Output: 40}},
	{"an input of zeros",
		`{"usage":{"input_tokens":0,"output_tokens":7,"cache_read_input_tokens":0}}`,
		tokens.Usage{Input: estimated.Input, Output: 7}},
	{"a prompt of zeros",
		`{"usage":{"prompt_tokens":0,"completion_tokens":7,"total_tokens":7}}`,
		tokens.Usage{Input: estimated.Input, Output: 7}},
	{"an input that is all in the cache",
		`{"usage":{"input_tokens":0,"output_tokens":7,"cache_read_input_tokens":90}}`,
		tokens.Usage{Input: 90, Cached: 90, Output: 7}},

	{"Anthropic, cache writes of an hour, thoughts and searches",
		`{"usage":{"input_tokens":105,"cache_creation_input_tokens":700,"cache_read_input_tokens":6000,"cache_creation":` +
			`{"ephemeral_5m_input_tokens":200,"ephemeral_1h_input_tokens":500},"output_tokens":90,"output_tokens_details":` +
			`{"thinking_tokens":30},"server_tool_use":{"web_search_requests":2,"web_fetch_requests":4},` +
			`"service_tier":"standard","speed":"fast"}}`,
		tokens.Usage{Input: 6805, Cached: 6000, CacheWrites: 700, HourWrites: 500, Output: 90, Reasoning: 30, Calls: 2,
			Tier: "fast"}},
	{"Anthropic, compaction",
		`{"usage":{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,` +
			`"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}}`,
		tokens.Usage{Input: 203_000, Output: 4500}},
	{"Anthropic, compaction in a stream, with caches",
		`{"type":"message_start","message":{"usage":{"input_tokens":3000,"cache_read_input_tokens":20000,` +
			`"output_tokens":1,"iterations":null}}}|{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` +
			`{"input_tokens":3000,"cache_creation_input_tokens":0,"cache_read_input_tokens":20000,"output_tokens":1000,` +
			`"iterations":[{"input_tokens":500,"cache_read_input_tokens":170000,"cache_creation_input_tokens":9500,` +
			`"cache_creation":{"ephemeral_1h_input_tokens":9000},"output_tokens":3500,"type":"compaction"},` +
			`{"type":"message","input_tokens":3000,"cache_read_input_tokens":20000,"output_tokens":1000}]}}`,
		tokens.Usage{Input: 203_000, Cached: 190_000, CacheWrites: 9500, HourWrites: 9000, Output: 4500}},
	{"Anthropic, a pause behind the compaction",
		`{"usage":{"input_tokens":0,"output_tokens":0,"iterations":[{"type":"compaction","input_tokens":180000,` +
			`"output_tokens":3500}]},"stop_reason":"compaction"}`,
		tokens.Usage{Input: 180_000, Output: 3500}},
	{"Anthropic, several runs, of which the top level tells the input of the first",
		`{"usage":{"input_tokens":412,"cache_read_input_tokens":0,"output_tokens":531,"iterations":[{"type":"message",` +
			`"input_tokens":412,"output_tokens":89},{"type":"advisor_message","model":"large","input_tokens":823,` +
			`"cache_read_input_tokens":0,"output_tokens":1612},{"type":"message","input_tokens":1348,` +
			`"cache_read_input_tokens":412,"output_tokens":442}]}}`,
		tokens.Usage{Input: 412 + 1760 + 823, Cached: 412, Output: 531 + 1612}},
	{"Anthropic, several runs, of which the top level is the sum",
		`{"usage":{"input_tokens":1760,"cache_read_input_tokens":412,"output_tokens":531,"iterations":[{"type":` +
			`"message","input_tokens":412,"output_tokens":89},{"type":"message","input_tokens":1348,` +
			`"cache_read_input_tokens":412,"output_tokens":442}]}}`,
		tokens.Usage{Input: 412 + 1760, Cached: 412, Output: 531}},
	{"Anthropic, a model in place of one that has declined, which is not billed",
		`{"usage":{"input_tokens":900,"output_tokens":60,"iterations":[{"type":"message","model":"m","input_tokens":900,` +
			`"output_tokens":1},{"type":"fallback_message","model":"large","input_tokens":900,"output_tokens":60}]}}`,
		tokens.Usage{Input: 900, Output: 60}},
	{"Anthropic, an entry that is not known to be billed",
		`{"usage":{"input_tokens":900,"output_tokens":60,"iterations":[{"type":"message","input_tokens":900,` +
			`"output_tokens":60},{"type":"rehearsal","input_tokens":5000,"output_tokens":600},{"input_tokens":7000}]}}`,
		tokens.Usage{Input: 900, Output: 60}},
	{"vLLM's Anthropic API, which tells the whole and then its parts",
		`{"type":"message_start","message":{"usage":{"input_tokens":1000,"output_tokens":0}}}|{"type":"message_delta",` +
			`"usage":{"input_tokens":100,"cache_read_input_tokens":900,"output_tokens":20}}`,
		tokens.Usage{Input: 1000, Cached: 900, Output: 20}},
	{"the parts, and then the whole",
		`{"type":"message_start","message":{"usage":{"input_tokens":100,"cache_read_input_tokens":900,` +
			`"output_tokens":0}}}|{"type":"message_delta","usage":{"input_tokens":1000,"output_tokens":20}}`,
		tokens.Usage{Input: 1000, Cached: 900, Output: 20}},
	{"Anthropic, a search that makes the input longer",
		`{"type":"message_start","message":{"usage":{"input_tokens":2679,"cache_creation_input_tokens":0,` +
			`"cache_read_input_tokens":0,"output_tokens":3}}}|{"type":"message_delta","usage":{"input_tokens":10682,` +
			`"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":510,"server_tool_use":` +
			`{"web_search_requests":1}}}`,
		tokens.Usage{Input: 10_682, Output: 510, Calls: 1}},
}

func TestTheUsageOfEachServiceIsRead(t *testing.T) {
	for _, s := range services {
		media, text := plain, s.text
		if strings.Contains(text, "|") || strings.Contains(text, `"response.completed"`) {
			media, text = stream, "data: "+strings.ReplaceAll(text, "|", "\n\ndata: ")+"\n\n"
		}
		for size := 1; size <= len(text); size += 1 + size/3 {
			c := call(t, tokens.Config{}, tokens.ChatCompletions)
			c.Answer(200, header(media))
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				c.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if c.Usage() != s.want {
				t.Fatalf("%s: in pieces of %d bytes: %+v, want %+v", s.name, size, c.Usage(), s.want)
			}
		}
		if media == plain { // as the last event of a stream, too
			c := call(t, tokens.Config{}, tokens.ChatCompletions)
			c.Answer(200, header(stream))
			fmt.Fprintf(c, "data: %s\n\n", text)
			if c.Usage() != s.want {
				t.Errorf("%s: as an event: %+v, want %+v", s.name, c.Usage(), s.want)
			}
		}
	}
}

// prices are such that each class has its own digit.
var prices = map[string]tokens.Price{
	"m": {
		Input: 1 * million, Cached: 10 * million, CacheWrites: 100 * million, HourWrites: 1000 * million,
		Audio: 10_000 * million, Images: 100_000 * million,
		Output: 1_000_000 * million, AudioOutput: 10_000_000 * million, ImageOutput: 100_000_000 * million,
		Calls: 1_000_000_000 * million, Reasoning: 10_000_000_000 * million,
		Tiers: map[string]tokens.Price{
			"flex": {Input: 2 * million, Output: 3 * million, Longer: map[int64]tokens.Price{500: {Input: 5 * million}}},
		},
		Longer: map[int64]tokens.Price{1000: {Input: 7 * million}, 2000: {Input: 8 * million}},
	},
	"large": {Input: 4 * million, Output: 5 * million},
}

func TestEachClassHasItsPrice(t *testing.T) {
	for _, c := range []struct {
		usage string
		want  int64
	}{
		{`{"usage":{"prompt_tokens":15,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":2,` +
			`"cache_write_tokens":4,"cache_creation":{"ephemeral_1h_input_tokens":1},"audio_tokens":2,"image_tokens":5},` +
			`"completion_tokens_details":{"audio_tokens":2,"image_tokens":1,"reasoning_tokens":4},"num_search_queries":9}}`,
			49_123_521_322},
		{`{"service_tier":"flex","usage":{"prompt_tokens":5,"completion_tokens":7,"num_search_queries":9}}`, 2*5 + 3*7},
		{`{"service_tier":"flex","usage":{"prompt_tokens":500,"completion_tokens":0}}`, 2 * 500},
		{`{"service_tier":"flex","usage":{"prompt_tokens":501,"completion_tokens":0}}`, 5 * 501},
		{`{"service_tier":"default","usage":{"prompt_tokens":5,"completion_tokens":0}}`, 5},
		{`{"usage":{"prompt_tokens":1000,"completion_tokens":0}}`, 1000},
		{`{"usage":{"prompt_tokens":1001,"completion_tokens":9}}`, 7007},
		{`{"usage":{"prompt_tokens":2000,"completion_tokens":0}}`, 14_000},
		{`{"usage":{"prompt_tokens":2001,"completion_tokens":0}}`, 16_008},
		// No run of the model has more than 1000 tokens.
		{`{"usage":{"input_tokens":900,"output_tokens":0,"iterations":[{"type":"message","input_tokens":900},` +
			`{"type":"compaction","input_tokens":1000}]}}`, 1900},
		{`{"usage":{"input_tokens":900,"output_tokens":0,"iterations":[{"type":"message","input_tokens":900},` +
			`{"type":"compaction","input_tokens":1001}]}}`, 7 * 1901},
		// Another model gives advice, or answers in place of the one that has declined.
		{`{"usage":{"input_tokens":9,"output_tokens":0,"iterations":[{"type":"advisor_message","model":"large",` +
			`"input_tokens":10,"output_tokens":3}]}}`, 9 + 4*10 + 5*3},
		{`{"usage":{"input_tokens":10,"output_tokens":3,"iterations":[{"type":"message","input_tokens":10},` +
			`{"type":"fallback_message","model":"large","input_tokens":10,"output_tokens":3}]}}`, 4*10 + 5*3},
		{`{"usage":{"input_tokens":10,"output_tokens":0,"iterations":[{"type":"fallback_message","model":"unknown",` +
			`"input_tokens":10,"output_tokens":0}]}}`, 10 * 100_000},
	} {
		call := call(t, tokens.Config{Prices: prices}, tokens.Messages)
		call.Answer(200, header(plain))
		fmt.Fprint(call, c.usage)
		if got := call.Money(); got != c.want {
			t.Errorf("%s: %d, want %d", c.usage, got, c.want)
		}
	}
}

func TestAnEstimateTakesTheDearestTier(t *testing.T) {
	price := tokens.Price{
		Input: million, Output: million, HourWrites: 3 * million, AudioOutput: 2 * million,
		Tiers:  map[string]tokens.Price{"priority": {Input: 5 * million, Output: million}},
		Longer: map[int64]tokens.Price{99: {Input: 4 * million, Output: 6 * million}, 100: {Input: 50 * million}},
	}
	c := call(t, tokens.Config{Prices: map[string]tokens.Price{"m": price}}, tokens.Messages)
	if got, want := c.Money(), int64(5*100+6*900); got != want {
		t.Errorf("the estimate is %d, want %d", got, want)
	}
}

func TestAMeterCopiesThePricesOfTiers(t *testing.T) {
	price := tokens.Price{Tiers: map[string]tokens.Price{"flex": {Input: million}},
		Longer: map[int64]tokens.Price{5: {Input: million}}}
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{"m": price}})
	delete(price.Tiers, "flex")
	delete(price.Longer, 5)
	c, err := meter.Estimate(tokens.Messages, []byte(`{"model":"m"}`))
	if err != nil || c.Money() != 4 {
		t.Errorf("%v, %v", c, err)
	}
	c.Answer(200, header(plain))
	fmt.Fprint(c, `{"usage":{"prompt_tokens":6,"completion_tokens":1}}`)
	if c.Money() != 6 {
		t.Errorf("longer requests cost %d, want 6", c.Money())
	}
}
