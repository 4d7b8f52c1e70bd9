package simulate

import (
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

// Exact is the algorithm to compare with: no interval as long as the period has more than the units
// of a limit.
var Exact = limits.SlidingLog(limits.Rate{}).Algorithm()

// compared has the algorithms that are compared. A bucket has a burst of all units.
var compared = []func(limits.Rate) limits.Limit{
	limits.SlidingLog,
	limits.SlidingWindow,
	func(r limits.Rate) limits.Limit { return limits.TokenBucket(r, r.Units) },
	limits.AnchoredWindow,
	limits.FixedWindow,
}

// judge compares the decisions of one algorithm with an exact log of the requests that it let
// through. Suppose that 60 are allowed in a minute. A request that it allows is over the limit if
// the log has 60 in the minute before. One that it denies is early if the log has 59 or fewer.
type judge struct {
	limit limits.Limit
	keys  chunked[admissions]

	decisions, over, early int64
	most                   int64 // units that were let through in one period
}

// admissions are those of one key in the period that ends now.
type admissions struct {
	entries []admitted
	units   int64 // of entries
}

type admitted struct{ at, units int64 }

// see records a decision at an instant in microseconds.
func (j *judge) see(c *charge, at int64, allowed bool) {
	rate := j.limit.Rate()
	log := j.keys.at(c.id)
	log.dropUntil(at - rate.Period.Microseconds())
	fits := log.units+c.cost <= rate.Units
	j.decisions++
	switch {
	case allowed && !fits:
		j.over++
	case !allowed && fits:
		j.early++
	}
	if allowed && c.cost > 0 {
		log.entries = append(log.entries, admitted{at, c.cost})
		log.units += c.cost
		j.most = max(j.most, log.units)
	}
}

// dropUntil forgets what was let through at until or before.
func (a *admissions) dropUntil(until int64) {
	n := 0
	for n < len(a.entries) && a.entries[n].at <= until {
		a.units -= a.entries[n].units
		n++
	}
	if a.entries = a.entries[n:]; len(a.entries) == 0 {
		a.entries = nil
	}
}

// Accuracy says how often an algorithm decides otherwise than an exact log of the requests that
// it let through.
type Accuracy struct {
	Limit     string `json:"limit"`
	Decisions int64  `json:"decisions"`
	Over      Range  `json:"allowedTooMany"`
	Early     Range  `json:"deniedTooEarly"`
	Units     int64  `json:"units"` // of the limit
	Most      Range  `json:"most"`  // units that were let through in one period, of any key
}

// judged returns the variants that decide each rule alone by each algorithm.
func judged(p *plan) (all []variant, err error) {
	for i := range p.rules {
		rate := p.rules[i].Limit.Rate()
		if err := canCompare(&p.rules[i]); err != nil {
			return nil, err
		}
		for _, limitOf := range compared {
			limit := func(limits.Limit) limits.Limit { return limitOf(rate) }
			all = append(all, variant{alone: i, limit: limit, judged: true})
		}
	}
	return all, nil
}

func canCompare(rule *core.Rule[*request]) error {
	switch rate := rule.Limit.Rate(); {
	case varies(rule):
		return fmt.Errorf("--compare: rule %q has a limit by key: compare one --limit", rule.Name)
	case rule.Limit.Algorithm().CountsValues():
		return fmt.Errorf("--compare: rule %q counts values: compare a limit such as 60/minute",
			rule.Name)
	case rate.Period == 0 || rate.Units == 0:
		return fmt.Errorf("--compare: rule %q has no rate: compare a limit such as 60/minute", rule.Name)
	case rate.Units > algorithm.Of(Exact).Most:
		return fmt.Errorf("--compare: rule %q has %d units, and a %v at most %d: compare a shorter period",
			rule.Name, rate.Units, Exact, algorithm.Of(Exact).Most)
	}
	return nil
}

// addAccuracy fills in how each algorithm decides each rule.
func addAccuracy(report *Report, r *run) {
	for i := range report.Policy.Rules {
		rule := &report.Policy.Rules[i]
		for _, p := range r.replaysOf(0, i) {
			j := p.judge
			if j == nil {
				continue
			}
			limit, n := j.limit.String(), len(rule.Accuracy)
			first := n == 0 || rule.Accuracy[n-1].Limit != limit // the readings of a variant are neighbours
			if first {
				rule.Accuracy = append(rule.Accuracy, Accuracy{Limit: limit, Decisions: j.decisions, Units: j.limit.Rate().Units})
			}
			row := &rule.Accuracy[len(rule.Accuracy)-1]
			row.Over.include(first, j.over)
			row.Early.include(first, j.early)
			row.Most.include(first, j.most)
		}
	}
}
