package tokens_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/tokens"
)

// body is a request that is estimated at 100 tokens of input and 900 of output.
var body = func() []byte {
	start := `{"model":"m","max_tokens":900,"max_output_tokens":900,"messages":"`
	return []byte(start + strings.Repeat("x", 400-len(start)-2) + `"}`)
}()

var estimated = tokens.Usage{Input: 100, Output: 900}

func call(t testing.TB, config tokens.Config, api tokens.API) *tokens.Call {
	t.Helper()
	c, err := tokens.MustNew(config).Estimate(api, body)
	if err != nil {
		t.Fatal(err)
	}
	if c.Usage() != estimated {
		t.Fatalf("the estimate is %+v, want %+v", c.Usage(), estimated)
	}
	return c
}

const (
	stream = "text/event-stream; charset=utf-8"
	plain  = "application/json"
)

func header(media string) http.Header { return http.Header{"Content-Type": {media}} }

// answers are answers and their usage.
var answers = []struct {
	name, media, text string
	byText            bool
	want              tokens.Usage
}{
	{name: "chat completion", media: plain, text: `{"id":"1","object":"chat.completion","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"hello \"usage\":{\"prompt_tokens\":1}"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30,` +
		`"prompt_tokens_details":{"cached_tokens":5,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":0}},"system_fingerprint":"fp"}`,
		want: tokens.Usage{Input: 20, Cached: 5, Output: 10, Reasoning: 4}},
	{name: "chat completion in a stream", media: stream, text: `data: {"choices":[{"index":0,"delta":` +
		`{"role":"assistant","content":""}}],"usage":null}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":"a"}}],"usage":null}` + "\n\n" +
		`data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":1,"total_tokens":21}}` + "\n\ndata: [DONE]\n\n",
		want: tokens.Usage{Input: 20, Output: 1}},
	{name: "reasoning beside the output", media: plain, text: `{"usage":{"prompt_tokens":20,"completion_tokens":198,` +
		`"total_tokens":623,"completion_tokens_details":{"reasoning_tokens":405}}}`,
		want: tokens.Usage{Input: 20, Output: 603, Reasoning: 405}},
	{name: "reasoning in the total only", media: stream,
		text: `data: {"usage":{"prompt_tokens":20,"completion_tokens":0,"total_tokens":81}}` + "\n\n",
		want: tokens.Usage{Input: 20, Output: 61}},
	{name: "a prompt that includes Anthropic's caches, of LiteLLM", media: plain,
		text: `{"usage":{"total_tokens":103925,"prompt_tokens":98805,"completion_tokens":5120,"prompt_tokens_details":` +
			`{"cached_tokens":66360},"cache_read_input_tokens":66360,"cache_creation_input_tokens":32435}}`,
		want: tokens.Usage{Input: 98805, Cached: 66360, CacheWrites: 32435, Output: 5120}},
	{name: "a total below its parts", media: plain,
		text: `{"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":3}}`,
		want: tokens.Usage{Input: 20, Output: 10}},
	{name: "stream without usage", media: stream, text: `data: {"choices":[{"delta":{"content":"abcde"}}]}` +
		"\n\ndata: [DONE]\n\n", want: estimated},
	{name: "stream without usage, by text", media: stream, byText: true,
		text: `data: {"choices":[{"delta":{"role":"assistant","content":"abcde"}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"reasoning_content":"x"}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"id":"call_1","type":"function","function":` +
			`{"arguments":"{\"a\":"}}]}}]}` + "\n\n", // 2, 1, and 7 bytes with backslashes
		want: tokens.Usage{Input: 100, Output: 2 + 1 + 2}},
	{name: "response", media: plain, text: `{"object":"response","output":[{"type":"message","content":[{"type":` +
		`"output_text","text":"hi"}]}],"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":30},` +
		`"output_tokens":87,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":123}}`,
		want: tokens.Usage{Input: 36, Cached: 30, Output: 87, Reasoning: 64}},
	{name: "response in the background", media: plain, text: `{"status":"queued","usage":null}`, want: estimated},
	{name: "response in a stream", media: stream, text: "event: response.created\n" +
		`data: {"type":"response.created","response":{"status":"in_progress","usage":null}}` + "\n\n" +
		"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"Hi"}` + "\n\n" +
		"event: response.completed\n" + `data: {"type":"response.completed","response":{"output":[{"usage":{` +
		`"input_tokens":1}}],"usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":0},` +
		`"output_tokens":11,"output_tokens_details":{"reasoning_tokens":0}}}}` + "\n\n",
		want: tokens.Usage{Input: 37, Output: 11}},
	{name: "response in a stream, cut, by text", media: stream, byText: true,
		text: `data: {"type":"response.output_text.delta","delta":"Hi, you"}` + "\n\n" +
			`data: {"type":"response.output_text.delta","delta":"!"`,
		want: tokens.Usage{Input: 100, Output: 2 + 0}},
	{name: "message", media: plain, text: `{"type":"message","content":[{"type":"tool_use","input":{"usage":` +
		`{"input_tokens":1,"output_tokens":1}}}],"usage":{"input_tokens":50,"cache_creation_input_tokens":200,` +
		`"cache_read_input_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":200},"output_tokens":77}}`,
		want: tokens.Usage{Input: 1250, Cached: 1000, CacheWrites: 200, Output: 77}},
	{name: "message in a stream", media: stream, text: messageStart + messageDelta +
		"event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n",
		want: tokens.Usage{Input: 530, Cached: 500, CacheWrites: 5, Output: 15}},
	{name: "message in a stream, cut", media: stream, text: messageStart,
		want: tokens.Usage{Input: 530, Cached: 500, CacheWrites: 5, Output: 900}},
	{name: "message in a stream, cut, by text", media: stream, byText: true, text: messageStart,
		want: tokens.Usage{Input: 530, Cached: 500, CacheWrites: 5, Output: 2}},
	{name: "usage after each event", media: stream, text: `data: {"usage":{"prompt_tokens":3,"completion_tokens":1}}` +
		"\n\n" + `data: {"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n",
		want: tokens.Usage{Input: 3, Output: 2}},
	{name: "several lines of an event", media: stream,
		text: "data: {\"usage\":\r: comment\rdata: {\"prompt_tokens\":3,\r" +
			"data:\"completion_tokens\"\rdata::7}}\r\r", want: tokens.Usage{Input: 3, Output: 7}},
	{name: "several lines of an event, with two ends each", media: stream,
		text: "data: {\"usage\":\r\ndata: {\"prompt_tokens\":3,\r\ndata: \"completion_tokens\":7}}\r\n\r\n",
		want: tokens.Usage{Input: 3, Output: 7}},
	{name: "a usage that ends in another line", media: stream,
		text: "data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7\ndata: }}\n\n",
		want: tokens.Usage{Input: 3, Output: 7}},
	{name: "a number in two lines", media: stream,
		text: "data: {\"usage\":{\"prompt_tokens\":3\ndata:4,\"completion_tokens\":7}}\n\n",
		want: tokens.Usage{Input: 100, Output: 7}},
	{name: "brackets that close nothing", media: plain,
		text: `]}{"usage":{"prompt_tokens":3,"completion_tokens":7}}`, want: tokens.Usage{Input: 3, Output: 7}},
	{name: "labels are no text", media: stream, byText: true,
		text: `data: {"delta":{"type":"signature_delta","signature":"abcdefgh","role":"x","id":"y","text":"abcd"}}` + "\n\n",
		want: tokens.Usage{Input: 100, Output: 1}},
	{name: "texts in lists", media: stream, byText: true,
		text: `data: {"choices":[{"delta":{"content":[{"type":"text"},"12345678"]}}]}` + "\n\n",
		want: tokens.Usage{Input: 100, Output: 2}},
	{name: "number that is cut", media: plain, text: `{"usage":{"prompt_tokens":3,"completion_tokens":1`,
		want: tokens.Usage{Input: 3, Output: 900}},
	{name: "numbers that are none", media: plain, text: `{"usage":{"prompt_tokens":-3,"completion_tokens":"1.5 "}}`,
		want: estimated},
	{name: "decimals", media: plain, text: `{"usage":{"prompt_tokens":3.0,"completion_tokens":1.5e1}}`,
		want: tokens.Usage{Input: 3, Output: 15}},
	{name: "parts of a token", media: plain, text: `{"usage":{"prompt_tokens":2.1,"completion_tokens":1e-9}}`,
		want: tokens.Usage{Input: 3, Output: 1}},
	{name: "texts that are numbers", media: plain, text: `{"usage":{"prompt_tokens":"3","completion_tokens":"7.0"}}`,
		want: tokens.Usage{Input: 3, Output: 7}},
	{name: "lists that are no numbers", media: plain, text: `{"usage":{"prompt_tokens":"3","completion_tokens":[7]}}`,
		want: tokens.Usage{Input: 3, Output: 900}},
	{name: "enormous numbers", media: plain,
		text: `{"usage":{"input_tokens":99999999999999999999,"cache_read_input_tokens":9223372036854775807,` +
			`"cache_creation_input_tokens":9223372036854775807,"output_tokens":9223372036854775806}}`,
		want: tokens.Usage{Input: 1<<63 - 1, Cached: 1<<63 - 2, CacheWrites: 1, Output: 1<<63 - 2}},
	{name: "parts that are more than the whole", media: plain,
		text: `{"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9},` +
			`"completion_tokens_details":{"reasoning_tokens":9}}}`,
		want: tokens.Usage{Input: 12, Cached: 9, Output: 11, Reasoning: 9}},
	{name: "usage in a text, escaped", media: plain, text: `{"error":"\\\"}],\"usage\":{\"prompt_tokens\":1}"}`,
		want: estimated},
	{name: "usage elsewhere", media: plain, text: `[{"usage":{"prompt_tokens":1,"completion_tokens":1}},{"x":{"usage":` +
		`{"prompt_tokens":1}}},{"choices":[{"usage":{"prompt_tokens":1}}]}]`, want: estimated},
	{name: "usage in a deep place", media: plain, text: strings.Repeat(`{"a":`, 20) + `{"usage":{"prompt_tokens":1}}`,
		want: estimated},
	{name: "a byte order mark", media: plain,
		text: "\ufeff" + `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`, want: tokens.Usage{Input: 3, Output: 2}},
	{name: "a byte order mark before a stream", media: stream, text: "\ufeff" + messageStart + messageDelta,
		want: tokens.Usage{Input: 530, Cached: 500, CacheWrites: 5, Output: 15}},
	{name: "a byte order mark before data", media: stream, byText: true,
		text: "\ufeffdata: {\"choices\":[{\"delta\":{\"content\":\"abcde\"}}]}\n\n" +
			"\ufeffdata: {\"choices\":[{\"delta\":{\"content\":\"no line of data\"}}]}\n\n",
		want: tokens.Usage{Input: 100, Output: 2}},
	{name: "a part of a byte order mark", media: stream,
		text: "\xef\xbbdata: {\"usage\":{\"prompt_tokens\":3}}\ndata: {\"usage\":{\"completion_tokens\":2}}\n\n",
		want: tokens.Usage{Input: 100, Output: 2}},
	{name: "two byte order marks", media: stream,
		text: "\ufeff\ufeffdata: {\"usage\":{\"prompt_tokens\":3}}\n\n", want: estimated},
	{name: "a usage of zeros", media: plain,
		text: `{"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`, want: estimated},
	{name: "a usage of zeros in a stream that is cut", media: stream, byText: true,
		text: `data: {"choices":[{"delta":{"content":"abcde"}}],"usage":{"prompt_tokens":0,"completion_tokens":0}}` + "\n\n",
		want: tokens.Usage{Input: 100, Output: 2}},
	{name: "a usage of zeros before the usage", media: stream,
		text: `data: {"usage":{"prompt_tokens":0,"completion_tokens":0}}` + "\n\n" +
			`data: {"usage":{"prompt_tokens":3,"completion_tokens":0}}` + "\n\n",
		want: tokens.Usage{Input: 3}},
	{name: "no JSON", media: plain, text: `<html>"usage":{"prompt_tokens":3`, want: estimated},
	{name: "another type", media: "text/plain", text: `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
		want: estimated},
	{name: "nothing", media: stream, want: estimated},
}

const messageStart = "event: message_start\r\n" + `data: {"type":"message_start","message":{"id":"msg","content":[],` +
	`"usage":{"input_tokens":25,"cache_creation_input_tokens":5,"cache_read_input_tokens":500,"output_tokens":1}}}` +
	"\r\n\r\nevent: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\n" + `data: {"type":"content_block_delta","index":0,` +
	`"delta":{"type":"text_delta","text":"Hello"}}` + "\r\n\r\n"

const messageDelta = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},` +
	`"usage":{"output_tokens":15}}` + "\r\n\r\n"

// An answer may arrive in pieces of any size.
func TestTheUsageIsReadFromEveryFormOfAnswer(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			for size := 1; size <= len(a.text)+1; size++ {
				c := call(t, tokens.Config{CountText: a.byText}, tokens.ChatCompletions)
				c.Answer(http.StatusOK, header(a.media))
				for rest := a.text; rest != ""; {
					n := min(size, len(rest))
					if written, err := c.Write([]byte(rest[:n])); written != n || err != nil {
						t.Fatalf("wrote %d of %d bytes: %v", written, n, err)
					}
					rest = rest[n:]
				}
				if c.Usage() != a.want {
					t.Fatalf("in pieces of %d bytes: %+v, want %+v", size, c.Usage(), a.want)
				}
			}
		})
	}
}

// A piece may hold many lines. If each one searched the rest of the piece, this would take hours.
func TestALongPieceIsReadOnce(t *testing.T) {
	const usage = `data: {"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n"
	for _, event := range []string{"data: {}\r\n\r\n", "data: {}\r\r", "data: {}\n\n", "\r\n", "\r", ":\n"} {
		c := call(t, tokens.Config{}, tokens.ChatCompletions)
		c.Answer(http.StatusOK, header(stream))
		c.Write([]byte(strings.Repeat(event, 8<<20/len(event)) + usage))
		if want := (tokens.Usage{Input: 3, Output: 2}); c.Usage() != want {
			t.Errorf("after events %q: %+v, want %+v", event, c.Usage(), want)
		}
	}
}

// The end of a line or event may be at any distance.
func TestALineMayHaveAnyLength(t *testing.T) {
	for length := range 2500 {
		for _, end := range []string{"\n", "\r", "\r\n"} {
			c := call(t, tokens.Config{}, tokens.ChatCompletions)
			c.Answer(http.StatusOK, header(stream))
			c.Write([]byte("data: \"" + strings.Repeat("x", length) + "\"" + end + end +
				`data: {"usage":{"prompt_tokens":3,"completion_tokens":2}}` + end + end))
			if want := (tokens.Usage{Input: 3, Output: 2}); c.Usage() != want {
				t.Fatalf("after %d bytes that end with %q: %+v, want %+v", length, end, c.Usage(), want)
			}
		}
	}
}
