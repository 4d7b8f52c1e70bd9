package inflight

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// TwoRates is the yardstick for rules with an end.
const TwoRates = "weir, two rates"

func weir() []Contestant {
	return []Contestant{
		{Name: "weir, one rate", Kind: Rates, Rate: true, Keyed: true, Open: open(rate1)},
		{Name: TwoRates, Kind: Rates, Rate: true, Keyed: true, Open: open(rate1, rate2)},
		{Name: "weir, rate and concurrency", Kind: Ends, AtOnce: true, Rate: true, Keyed: true,
			Open: open(rate1, concurrency)},
		{Name: "weir, concurrency", Kind: Ends, AtOnce: true, Keyed: true, Open: open(concurrency)},
		{Name: "weir, rate and FinalCost", Kind: Ends, Rate: true, Keyed: true,
			Open: open(rate1, finalCost)},
	}
}

// byLimiter is a store of weir: a core.Limiter on a memory. Its requests are keys.
type byLimiter struct{ limiter *core.Limiter[string] }

type rule func(q store.Quota, atOnce int) core.Rule[string]

func open(rules ...rule) func(store.Quota, int) Store {
	return func(q store.Quota, atOnce int) Store {
		var config core.Config[string]
		for _, rule := range rules {
			config.Rules = append(config.Rules, rule(q, atOnce))
		}
		return byLimiter{core.MustNew(config)}
	}
}

func (s byLimiter) Decider() store.Decider { return s }

// Hold drops the outcome, which a server would keep on the stack of a handler. The limiter keeps
// the data for the end.
func (s byLimiter) Hold(key string) bool {
	o := s.limiter.Decide(context.Background(), key)
	return o.Allowed()
}

func (s byLimiter) Allow(key string) bool {
	o := s.limiter.Decide(context.Background(), key)
	if !o.Allowed() {
		return false
	}
	o.End(core.Result{Status: http.StatusNoContent})
	return true
}

func itself(key string) (string, error) { return key, nil }

func rate1(q store.Quota, _ int) core.Rule[string] {
	return core.Rule[string]{
		Name: "rate", Limit: limits.TokenBucket(limits.Per(1, q.Refill), q.Burst), Key: itself,
	}
}

func rate2(q store.Quota, atOnce int) core.Rule[string] {
	r := rate1(q, atOnce)
	r.Name = "another-rate"
	return r
}

func concurrency(_ store.Quota, atOnce int) core.Rule[string] {
	return core.Rule[string]{Name: "at-once", Limit: limits.Concurrent(int64(atOnce)), Key: itself}
}

// Estimate is the charge at the start of a request and Final its cost at the end, under the rule
// with a FinalCost.
const (
	Estimate = 4
	Final    = 1
)

func finalCost(q store.Quota, atOnce int) core.Rule[string] {
	r := rate1(q, atOnce)
	r.Name = "estimated"
	r.Cost = func(string) int64 { return Estimate }
	r.FinalCost = func(core.Result) int64 { return Final }
	return r
}
