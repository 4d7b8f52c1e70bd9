package tokens_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/tokens"
)

func apiKey(r *http.Request) (string, error) { return r.Header.Get("X-API-Key"), nil }

// model stands for a ReverseProxy to a model.
var model = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"Hello."}}]}`, "\n\n")
	fmt.Fprint(w, `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, "\n\n")
})

func request() *http.Request {
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(
		`{"model":"small","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"Say hello."}]}`))
	r.Header.Set("X-API-Key", "k-ann")
	return r
}

// A request is charged its estimate, and at its end what the model has used.
func Example() {
	meter := tokens.MustNew(tokens.Config{
		Prices: map[string]tokens.Price{"small": {Input: 150_000, Output: 600_000}}, // millionths of a dollar
	})
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			tokens.ByCount(nethttp.Rule{
				Name: "tokens", Key: apiKey, Limit: limits.SlidingWindow(limits.PerMinute(100_000)),
			}),
			tokens.ByPrice(nethttp.Rule{
				Name: "budget", Key: apiKey, Limit: limits.Calendar(50_000_000, limits.Month),
			}),
			{Name: "at once", Key: tokens.Model, Limit: limits.Concurrent(20)},
		},
		Observer: core.ObserverFuncs[*http.Request]{
			OnEnd: func(s limits.Settlement) { fmt.Println(s.Rule, s.Taken, s.Final) },
		},
	})
	handler := meter.Handler(tokens.ChatCompletions, limiter.Handler, model)
	handler.ServeHTTP(httptest.NewRecorder(), request())
	// Output:
	// tokens 125 11
	// budget 64 3
	// at once 1 0
}

func ExampleConfig() {
	meter, err := tokens.New(tokens.Config{
		Count:  func(body []byte) int64 { return int64(len(body)) }, // a token has at least a byte
		Output: 16_384,                                              // the most that the models write
	})
	if err != nil {
		panic(err)
	}
	call, err := meter.Estimate(tokens.Messages, []byte(`{"messages":"Hi"}`))
	fmt.Println(call.Usage().Input, call.Usage().Output, err)
	// Output: 17 16384 <nil>
}

func ExampleNew() {
	_, err := tokens.New(tokens.Config{Output: -1})
	fmt.Println(err)
	// Output: tokens: output: must not be negative (got -1)
}

func ExampleMustNew() {
	meter := tokens.MustNew(tokens.Config{})
	_, err := meter.Estimate(tokens.Messages, []byte(`{"max_tokens":1,"max_tokens":1000000}`))
	fmt.Println(err)
	// Output: "max_tokens" must be there once
}

func ExampleMeter() {
	meter := tokens.MustNew(tokens.Config{Observe: func(r *http.Request, call *tokens.Call) {
		fmt.Println(r.URL.Path, call.Model(), call.Usage().Output)
	}})
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
		tokens.ByCount(nethttp.Rule{Name: "tokens", Key: apiKey, Limit: limits.SlidingWindow(limits.PerMinute(1000))}),
	}})
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", meter.Handler(tokens.ChatCompletions, limiter.Handler, model))
	mux.ServeHTTP(httptest.NewRecorder(), request())
	// Output: /v1/chat/completions small 2
}

func ExampleByCount() {
	rule := tokens.ByCount(nethttp.Rule{
		Name: "day", Key: apiKey, Limit: limits.Calendar(1_000_000, limits.Day),
	})
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{rule}})
	handler := tokens.MustNew(tokens.Config{}).Handler(tokens.ChatCompletions, limiter.Handler, model)
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request())
		fmt.Println(strings.Split(w.Header().Get("RateLimit"), ";t=")[0])
	}
	// Output:
	// "day";r=999875
	// "day";r=999864
}

func ExampleByPrice() {
	meter := tokens.MustNew(tokens.Config{
		Prices: map[string]tokens.Price{"small": {Input: 2_000_000, Output: 10_000_000}},
	})
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
		tokens.ByPrice(nethttp.Rule{Name: "budget", Key: apiKey, Limit: limits.Calendar(1000, limits.Month)}),
	}})
	w := httptest.NewRecorder()
	meter.Handler(tokens.ChatCompletions, limiter.Handler, model).ServeHTTP(w, request())
	fmt.Println(w.Code) // 100 tokens of output may cost 1000 millionths, and the input comes on top
	// Output: 429
}

// Each model runs ten requests of all clients at once.
func ExampleModel() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
		{Name: "at once", Key: tokens.Model, Limit: limits.Concurrent(10)},
	}, OutcomeInContext: true})
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{"small": {}}}) // no other model
	handler := meter.Handler(tokens.ChatCompletions, limiter.Handler, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			o, _ := nethttp.OutcomeFrom(r.Context())
			fmt.Println(o.At(0).Key, o.At(0).Remaining)
		}))
	handler.ServeHTTP(httptest.NewRecorder(), request())
	// Output: small 9
}

func ExampleAPI() {
	body := []byte(`{"max_tokens":10,"max_output_tokens":20,"n":2}`)
	for _, api := range []tokens.API{tokens.ChatCompletions, tokens.Responses, tokens.Messages} {
		call, err := tokens.MustNew(tokens.Config{}).Estimate(api, body)
		fmt.Println(api, call.Usage().Output, err)
	}
	// Output:
	// chat/completions 20 <nil>
	// responses 20 <nil>
	// messages 10 <nil>
}

func ExamplePrice() {
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{
		"large": {Input: 3_000_000, Cached: 300_000, CacheWrites: 3_750_000, Output: 15_000_000},
	}})
	call, err := meter.Estimate(tokens.Messages, []byte(`{"model":"large","max_tokens":1000}`))
	if err != nil {
		panic(err)
	}
	fmt.Println("at most", call.Money())
	call.Answer(http.StatusOK, http.Header{"Content-Type": {"application/json"}})
	io.WriteString(call, `{"usage":{"input_tokens":3,"cache_read_input_tokens":1000,"output_tokens":20}}`)
	fmt.Println("in the end", call.Money())
	// Output:
	// at most 15034
	// in the end 609
}

// A gateway of its own decides calls by a limiter of package core.
func ExampleCall() {
	meter := tokens.MustNew(tokens.Config{})
	limiter := core.MustNew(core.Config[*tokens.Call]{Rules: []core.Rule[*tokens.Call]{{
		Name:      "tokens",
		Key:       func(*tokens.Call) (string, error) { return "ann", nil },
		Limit:     limits.SlidingWindow(limits.PerMinute(10_000)),
		Cost:      (*tokens.Call).Tokens,
		FinalCost: core.SpentCost,
	}}})

	r := request()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	call, err := meter.Estimate(tokens.ChatCompletions, body)
	if err != nil {
		panic(err)
	}
	outcome := limiter.Decide(r.Context(), call)
	if !outcome.Allowed() {
		return
	}
	defer outcome.End(core.Result{})
	call.Answer(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}})
	answer := strings.NewReader("data: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n")
	io.Copy(io.Discard, io.TeeReader(answer, call)) // to the client, and to the call
	outcome.Spend("tokens", call.Tokens())
	fmt.Println("estimated", outcome.At(0).Cost, "used", call.Tokens())
	// Output: estimated 125 used 11
}

// A request that costs more than its limit ever allows is explained to its client.
func ExampleCall_Explain() {
	call, err := tokens.MustNew(tokens.Config{}).Estimate(tokens.Responses, []byte(`{"input":[{"type":"input_image",`+
		`"image_url":"data:image/png;base64,iVBORw0KGgo="}],"max_output_tokens":100000}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(call.Explain())
	// Output:
	// It may use 105019 tokens: 100000 of output (max_output_tokens), 5000 of a picture and 19 of text.
}

func ExampleUsage() {
	call, err := tokens.MustNew(tokens.Config{}).Estimate(tokens.Responses, []byte(`{"max_output_tokens":500}`))
	if err != nil {
		panic(err)
	}
	estimate := call.Usage()
	fmt.Println(estimate.Input, estimate.Output)
	call.Answer(http.StatusOK, http.Header{"Content-Type": {"application/json"}})
	io.WriteString(call, `{"usage":{"input_tokens":40,"input_tokens_details":{"cached_tokens":30},`+
		`"output_tokens":87,"output_tokens_details":{"reasoning_tokens":64}}}`)
	used := call.Usage()
	fmt.Println(used.Input, used.Cached, used.Output, used.Reasoning)
	// Output:
	// 7 500
	// 40 30 87 64
}
