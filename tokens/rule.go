package tokens

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/nethttp"
)

// ByCount returns rule with Cost, FinalCost and Unit set: it counts the tokens of requests that
// [Meter.Handler] serves. Other requests fail with 503; if OnFailure is [core.FailOpen], they pass
// and are not counted. All that an estimate has left over returns to a window, a log or a period of
// the calendar; a bucket may lose some of it. The Unit of rule becomes [core.Tokens] unless it is
// set, so that clients do not read tokens as requests.
func ByCount(rule nethttp.Rule) nethttp.Rule { return charged(rule, core.Tokens) }

// ByPrice returns rule with Cost, FinalCost and Unit set: it counts the price of the tokens of
// requests that [Meter.Handler] serves, by the Prices of that meter, rounded up to a whole unit.
// Other requests fail as with ByCount, and so do all without Prices. The Unit of rule becomes
// [core.Money] unless it is set.
func ByPrice(rule nethttp.Rule) nethttp.Rule { return charged(rule, core.Money) }

func charged(rule nethttp.Rule, unit core.Unit) nethttp.Rule {
	name, money := rule.Name, unit == core.Money
	rule.Unit = cmp.Or(rule.Unit, unit)
	rule.Cost = func(r *http.Request) int64 {
		switch c := callOf(r.Context()); {
		case c != nil:
			return c.charge(name, money)
		case gate.IsQuestion(r.Context()):
			return 1
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
// names. Without Prices clients can invent models, and have a fresh budget for each. A question for
// a quota names its model in the query, as in /rate_limit?model=small; without one the rule does not
// apply to it.
func Model(r *http.Request) (string, error) {
	c := callOf(r.Context())
	switch {
	case c == nil && gate.IsQuestion(r.Context()):
		if model := r.URL.Query().Get("model"); model != "" && len(model) <= longestModel {
			return model, nil
		}
		return "", core.ErrDoesNotApply
	case c == nil:
		return "", errNoMeter
	case c.model == "":
		return "", core.ErrAbsent
	}
	return c.model, nil
}

var errNoMeter = &failure.Safe{
	Err: errors.New("tokens: Model is for requests that a Meter's Handler serves"),
}

type callKey struct{}

// callOf returns the call of a request, or nil.
func callOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
