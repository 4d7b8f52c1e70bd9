// Package tokens limits the tokens of language models, and their price.
//
// The cost of a request to a model is known only at its end. A [Meter] estimates it, so that a
// limit is never exceeded by requests that run at once, and corrects it by the usage in the answer:
//
//	meter := tokens.MustNew(tokens.Config{Prices: prices})
//	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
//		tokens.ByCount(nethttp.Rule{
//			Name: "tokens", Key: user, Limit: limits.SlidingWindow(limits.PerMinute(100_000)),
//		}),
//		tokens.ByPrice(nethttp.Rule{
//			Name: "budget", Key: customer, Limit: limits.Calendar(50_000_000, limits.Month),
//		}),
//		{Name: "at-once", Key: tokens.Model, Limit: limits.Concurrent(20)},
//	}})
//	mux.Handle("POST /v1/chat/completions",
//		meter.Handler(tokens.ChatCompletions, limiter.Handler, proxy)) // a httputil.ReverseProxy
//
// # Estimates
//
// A request is charged a token for each four bytes of text in its body, a fixed number for each
// picture or other file that it has in base64, and the output that it asks for, for each of its
// choices. If no estimate is too low, no limit is ever exceeded. If one was, the difference is
// charged at the end. Tokens of numbers and of some languages are shorter than four bytes, and a
// body may name content that is elsewhere: see [Config].Count and [Config].Media. For requests that
// name no maximum there is [Config].Output.
//
// # Usage
//
// A Call reads answers in JSON and event streams. It knows the usage of OpenAI's chat completions
// and responses, of Anthropic's messages, and of services that speak like them: docs/tokens.md has a
// table of their fields. Numbers that an answer does not tell keep their
// estimates: the output of a stream that breaks off or whose client leaves, and all numbers of a
// compressed answer, of a usage of zeros, and of chat completions in a stream without
// stream_options.include_usage. An error, status 400 and above, has used nothing.
package tokens
