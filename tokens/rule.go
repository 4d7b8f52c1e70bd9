package tokens

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
)

// ByCount returns rule with Cost and FinalCost set: it counts the tokens of requests that
// [Meter.Handler] serves. Other requests fail with 503; if OnFailure is [core.FailOpen], they pass
// and are not counted. All that an estimate has left over returns to a window, a log or a period of
// the calendar; a bucket may lose some of it.
func ByCount(rule nethttp.Rule) nethttp.Rule { return charged(rule, false) }

// ByPrice returns rule with Cost and FinalCost set: it counts the price of the tokens of requests
// that [Meter.Handler] serves, by the Prices of that meter, rounded up to a whole unit. Other
// requests fail as with ByCount, and so do all without Prices.
func ByPrice(rule nethttp.Rule) nethttp.Rule { return charged(rule, true) }

func charged(rule nethttp.Rule, money bool) nethttp.Rule {
	name := rule.Name
	rule.Cost = func(r *http.Request) int64 {
		if c := callOf(r.Context()); c != nil {
			return c.charge(name, money)
		}
		return -1 // which fails: a request without an estimate must not pass
	}
	rule.FinalCost = settled
	return rule
}

// settled is the FinalCost of all rules. Calls spend what they have used even after a panic, by
// which a ReverseProxy ends a broken stream.
func settled(result core.Result) int64 {
	switch {
	case result.Spent >= 0:
		return result.Spent
	case result.Status >= 400 && !result.Panicked:
		return 0 // a handler between limiter and model has answered, or the request left its queue
	}
	return result.Cost
}

// Model is a key function for requests that [Meter.Handler] serves: the model that the request
// names. Without Prices clients can invent models, and have a fresh budget for each.
func Model(r *http.Request) (string, error) {
	c := callOf(r.Context())
	switch {
	case c == nil:
		return "", errors.New("tokens: Model is for requests that a Meter's Handler serves")
	case c.model == "":
		return "", core.ErrAbsent
	}
	return c.model, nil
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

type callKey struct{}

// callOf returns the call of a request, or nil.
func callOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
