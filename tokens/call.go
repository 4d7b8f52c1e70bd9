package tokens

import (
	"context"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/nethttp"
)

// Usage is how many tokens a request has used. All numbers are 0 or more.
type Usage struct {
	Input       int64 // all tokens of the prompt
	Cached      int64 // those of Input that were read from a cache
	CacheWrites int64 // those of Input that were written to a cache
	Output      int64 // all tokens of the answer
	Reasoning   int64 // those of Output that were thoughts, if the answer tells
}

// Call is one request to a model. [Meter.Estimate] returns it with its estimate; Answer and Write
// let it read the answer. Tokens and Money are what it costs, as far as is known: first the
// estimate, at the end what was used. A Call is not safe for concurrent use.
type Call struct {
	model    string
	price    Price
	priced   bool
	byText   bool
	estimate Usage
	status   int // of the answer; 0: none yet
	answer   answer

	charges []charge // the rules that have charged it
	outer   *Call    // that of a meter outside, or nil
}

// Model returns the model that the request names, or "".
func (c *Call) Model() string { return c.model }

// Answer begins the answer, or another one after a retry; the last one counts. Informational
// statuses are ignored. header says whether the answer is JSON or an event stream; nil is neither.
func (c *Call) Answer(status int, header http.Header) {
	if status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	c.status, c.answer = status, answer{}
	if isEncoded(header) {
		return
	}
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch media {
	case "application/json":
		c.answer.form = document
	case "text/event-stream":
		c.answer.form = events
		c.answer.json.text = c.byText
	}
}

// isEncoded reports whether the content of a message with header h is compressed.
func isEncoded(h http.Header) bool {
	return slices.ContainsFunc(h["Content-Encoding"], func(encoding string) bool {
		return encoding != "" && !strings.EqualFold(encoding, "identity")
	})
}

// Write reads the next bytes of the answer, in pieces of any size. It keeps none of them, and
// returns no error.
func (c *Call) Write(p []byte) (int, error) {
	c.answer.read(p)
	return len(p), nil
}

// Usage returns what the request has used, as far as the answer has told, and the estimate for the
// rest. A usage whose numbers are all 0 tells nothing. An answer with status 400 or above has used
// nothing.
func (c *Call) Usage() Usage {
	if c.status >= 400 {
		return Usage{}
	}
	u, told := c.estimate, c.answer.json.told.counted()
	read, written := told.of(cacheRead), told.of(cacheWrite)
	switch {
	case told.known(prompt): // LiteLLM tells read and written also of a prompt that includes them
		u.Input = max(told.of(prompt), told.of(input))
		u.Cached = min(u.Input, max(told.of(cached), read))
	case told.known(input):
		u.Input = arith.Sum(told.of(input), arith.Sum(read, written))
		u.Cached = min(u.Input, arith.Sum(told.of(cached), read))
	}
	if told.hasInput() {
		u.CacheWrites = min(u.Input-u.Cached, written)
	}
	switch {
	case told.known(output):
		// Gemini and others leave reasoning out of completion_tokens, and only the total has it.
		u.Output = max(told.of(output), told.of(total)-u.Input)
		u.Reasoning = min(u.Output, told.of(reasoning))
	case c.byText && c.answer.form == events:
		u.Output = c.answer.text()
	}
	return u
}

// Tokens returns the input and the output of Usage together. It is a Cost for rules of package
// core whose requests are Calls.
func (c *Call) Tokens() int64 {
	u := c.Usage()
	return arith.Sum(u.Input, u.Output)
}

// Money returns the price of Usage, rounded up to a whole unit. An estimate takes the dearest kind
// of input. The result is −1 if the meter has no Prices.
func (c *Call) Money() int64 {
	told := c.answer.json.told.counted()
	switch {
	case !c.priced:
		return -1
	case told.hasInput():
		return c.price.cost(c.Usage())
	}
	return c.price.atMost().cost(c.Usage())
}

// charge is a rule that has charged a call.
type charge struct {
	rule  string
	money bool
}

// charge returns the cost of c under a rule and notes that the rule has charged it. Two rules of
// one name, one of tokens and one of money or each of another meter, would both get the sum of both:
// they fail.
func (c *Call) charge(rule string, money bool) int64 {
	for outer := c.outer; outer != nil; outer = outer.outer {
		if slices.ContainsFunc(outer.charges, func(o charge) bool { return o.rule == rule }) {
			return -1
		}
	}
	for _, other := range c.charges {
		if other.rule != rule {
			continue
		}
		if other.money != money {
			return -1
		}
		return c.unanswered().measure(money)
	}
	c.charges = append(c.charges, charge{rule, money})
	return c.unanswered().measure(money)
}

// unanswered returns c as it is before an answer: the answer of another try says nothing about it.
func (c *Call) unanswered() *Call {
	return &Call{price: c.price, priced: c.priced, estimate: c.estimate}
}

func (c *Call) measure(money bool) int64 {
	if money {
		return c.Money()
	}
	return c.Tokens()
}

// settle tells the rules that have charged c what it costs.
func (c *Call) settle(ctx context.Context) {
	for _, charge := range c.charges {
		nethttp.Spend(ctx, charge.rule, c.measure(charge.money))
	}
}
