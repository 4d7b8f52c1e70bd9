package tokens_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/tokens"
)

// priced prices a cheap model and a dear one.
var priced = tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{
	"small": {Input: million, Output: million}, "large": {Input: 50 * million, Output: 50 * million},
}})

// A client paid for "model" what OpenRouter, Perplexity, Anthropic and LiteLLM run by these lists.
func TestModelsInPlaceOfAnotherHaveTheirPrice(t *testing.T) {
	for _, c := range []struct {
		api           tokens.API
		body, answer  string
		least, settle int64 // of the estimate; what is charged at the end
	}{
		{tokens.ChatCompletions, `"model":"small"`, `{"model":"large",USAGE}`, 100, 30},
		{tokens.ChatCompletions, `"model":"small","models":["large"]`, `{"model":"large",USAGE}`, 5000, 1500},
		{tokens.ChatCompletions, `"model":"small","models":["large"]`, `{"model":"small",USAGE}`, 5000, 30},
		{tokens.ChatCompletions, `"model":"small","models":["large"]`, `{"model":"small-2026-01-01",USAGE}`, 5000, 1500},
		{tokens.ChatCompletions, `"models":["small","large"]`, `{USAGE}`, 5000, 1500},
		{tokens.ChatCompletions, `"model":"small","fallbacks":[{"model":"large","max_tokens":2000}]`,
			`{USAGE}`, 100_000, 1500},
		{tokens.ChatCompletions, `"model":"small", "models" : [ "small" , "large" ] `, `{USAGE}`, 5000, 1500},
		{tokens.ChatCompletions, `"model":"small","models":null,"fallbacks":[]`, `{USAGE}`, 100, 30},
		{tokens.Responses, `"model":"small","models":["large"]`,
			`{"type":"response.completed","response":{"model":"small",USAGE}}`, 5000, 30},
		{tokens.Messages, `"model":"small","fallbacks":[{"model":"large"}]`,
			`{"type":"message_start","message":{"model":"large","usage":{"input_tokens":20,"output_tokens":10}}}`, 5000, 1500},
	} {
		limit := map[tokens.API]string{tokens.Responses: "max_output_tokens"}[c.api]
		if limit == "" {
			limit = "max_tokens"
		}
		call, err := priced.Estimate(c.api, []byte(`{`+c.body+`,"`+limit+`":100}`))
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got := call.Money(); got < c.least || got > c.least+4000 {
			t.Errorf("%s: the estimate is %d, want %d and the prompt", c.body, got, c.least)
		}
		call.Answer(200, http.Header{"Content-Type": {"application/json"}})
		call.Write([]byte(strings.ReplaceAll(c.answer, "USAGE", `"usage":{"input_tokens":20,"output_tokens":10}`)))
		if got := call.Money(); c.api != tokens.Messages && got != c.settle ||
			c.api == tokens.Messages && got < c.settle { // its output has only begun
			t.Errorf("%s: %s costs %d, want %d", c.body, c.answer, got, c.settle)
		}
	}
}

func TestModelsWithoutAPriceAreNotOffered(t *testing.T) {
	many := `["small"` + strings.Repeat(`,"small"`, 16) + `]`
	nested := strings.Repeat(`[{"model":"small","fallbacks":`, 2000) + `["small"]` + strings.Repeat(`}]`, 2000)
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{"small": {}, "large": {}, "": {}}})
	for _, lists := range []string{
		`"models":["other"]`, `"models":"large"`, `"models":[7]`, `"models":[null]`, `"fallbacks":[{"small":["large"]}]`,
		`"fallbacks":[{"model":"other"}]`, `"Models":["large"]`, `"models":["large"],"models":["small"]`,
		`"models":` + many, `"fallbacks":` + nested, `"fallbacks":{"model":"large"}`,
		`"fallbacks":[{"model":"small","fallbacks":["large"]}]`, `"models":[["large"]]`,
	} {
		body := []byte(`{"model":"small",` + lists + `}`)
		if _, err := meter.Estimate(tokens.ChatCompletions, body); err == nil {
			t.Errorf("%.80s is priced", lists)
		}
	}
	if _, err := tokens.MustNew(tokens.Config{}).Estimate(tokens.ChatCompletions,
		[]byte(`{"model":"any","fallbacks":[{"any":["other"]}]}`)); err != nil {
		t.Errorf("without prices: %v", err)
	}
}
