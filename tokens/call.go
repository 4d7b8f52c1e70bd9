package tokens

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/nethttp"
)

// Call is one request to a model. [Meter.Estimate] returns it with its estimate; Answer and Write
// let it read the answer. Tokens and Money are what it costs, as far as is known: first the
// estimate, at the end what was used. A Call is not safe for concurrent use.
type Call struct {
	meter    *Meter
	model    string
	others   []string // models that may answer in its place
	priced   bool
	estimate Usage
	parts    estimate
	status   int // of the answer; 0: none yet
	answer   answer

	charges []charge // the rules that have charged it
	outer   *Call    // that of a meter outside, or nil
}

// Model returns the model that the request names, or "".
func (c *Call) Model() string { return c.model }

// Explain returns a sentence that says what the estimate consists of, the largest part first: for a
// client whose request costs more than its limit ever allows.
func (c *Call) Explain() string { return c.parts.String() }

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
		c.answer.json.text = c.meter.config.CountText
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
// rest. A usage whose numbers are all 0 tells nothing, and an input of 0 is not told. An answer with
// status 400 or above has used nothing.
func (c *Call) Usage() Usage {
	own, b := c.read()
	return own.plus(b.advice)
}

// read returns what the model of the request has used, and what the answer has told.
func (c *Call) read() (own Usage, b bill) {
	if c.status >= 400 {
		return Usage{}, bill{}
	}
	own, b = c.estimate, c.answer.json.told()
	if b.hasInput {
		in, out := b.input, own.Output
		own = in
		own.Output = out
	}
	own.Calls = b.calls
	switch {
	case b.hasOutput:
		// Gemini and others leave reasoning out of completion_tokens, and only the total has it.
		own.Output = 0
		rest := b.total - own.Input
		own = own.with(b.output, func(a, o int64) int64 { return a + o }) // of which one is 0
		own.Output = max(own.Output, rest)
	case c.meter.config.CountText && c.answer.form == events:
		own.Output = c.answer.text()
	}
	own = own.plus(b.others)
	own.Tier = b.tierOf()
	return own, b
}

// Tokens returns the input and the output of Usage together. It is a Cost for rules of package
// core whose requests are Calls.
func (c *Call) Tokens() int64 { return c.Usage().tokens() }

// Money returns the price of Usage, rounded up to a whole unit. An estimate takes the dearest kind
// of input and of output, and the dearest tier. What another model has used that the answer names
// costs its price; if it has none, the dearest of all. Of several models that the request names, the
// one that the answer names counts, or else the dearest. The result is −1 if the meter has no Prices.
func (c *Call) Money() int64 {
	if !c.priced {
		return -1
	}
	own, b := c.read()
	prices := c.meter.config.Prices
	switch price, ok := prices[b.served]; {
	case b.served != "" && ok:
		return c.units(price, own, &b)
	case b.served != "":
		return c.units(c.meter.dearest, own, &b)
	case len(c.others) > 0 && slices.Contains(c.others, b.model):
		return c.units(prices[b.model], own, &b)
	}
	most := c.units(prices[c.model], own, &b)
	if b.model == c.model {
		return most
	}
	for _, other := range c.others {
		most = max(most, c.units(prices[other], own, &b))
	}
	return most
}

// units returns the price of what an answer has told, if its model has a price.
func (c *Call) units(price Price, own Usage, b *bill) int64 {
	longest := cmp.Or(b.longest, own.Input)
	if b.hasInput {
		price = price.of(own.Tier, longest)
	} else {
		price = price.atMost(longest)
	}
	var total sum
	total.add(price, own)
	if b.advice != (Usage{}) {
		price, ok := c.meter.config.Prices[b.adviser]
		if !ok {
			price = c.meter.dearest
		}
		total.add(price.of(own.Tier, b.advice.Input), b.advice)
	}
	return total.units()
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
	return &Call{meter: c.meter, model: c.model, others: c.others, priced: c.priced,
		estimate: c.estimate}
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
