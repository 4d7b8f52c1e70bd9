package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/limits"
)

// probes is the number of limits that one pass tries.
const probes = 7

// search finds the lowest limit of a rule alone that meets a condition. Each pass over the logs
// tries several limits.
type search struct {
	*simulation
	at    int // index of the rule
	name  string
	limit limits.Limit
	peak  int64 // most units that a key asked for in a period
}

// newSearch returns a search for the limit of the rule that s names. r is the first pass.
func newSearch(s *simulation, r *run) (*search, error) {
	at, err := suggestedRule(r.sides[0], s.SuggestRule)
	if err != nil {
		return nil, err
	}
	rule := &r.sides[0].rules[at]
	found := &search{simulation: s, at: at, name: rule.Name, limit: rule.Limit, peak: 1}
	for units := range r.total.rules[at].most {
		found.peak = max(found.peak, units)
	}
	return found, nil
}

// lowest finds the lowest number of units that meets the condition in both readings of the log.
func (s *search) lowest(ctx context.Context) (*Suggestion, error) {
	result := &Suggestion{Rule: s.name, Condition: s.Suggest.String()}
	first := s.passes
	low, high := int64(0), 2*s.peak+1 // low does not meet the condition, high does
	switch a := s.limit.Algorithm(); {
	case a.Holds():
		high = 100_000
	case a.CountsValues():
		high = min(high, 1000)
	}
	for ok := false; !ok; {
		found, err := s.probe(ctx, []int64{high})
		if err != nil {
			return nil, err
		}
		if ok = found[0].meets; ok {
			result.is(&found[0])
			break
		}
		low, result.Less = high, found[0].limit.String()
		if high *= 8; high > 1<<40 {
			result.Passes = s.passes - first
			return result, nil
		}
		if _, err := withUnits(s.limit, high); err != nil {
			result.Passes = s.passes - first
			return result, nil
		}
	}
	for high-low > max(1, high/500) {
		units := make([]int64, 0, probes)
		for i := range int64(probes) {
			if n := low + (high-low)*(i+1)/(probes+1); n > low && n < high &&
				!slices.Contains(units, n) {
				units = append(units, n)
			}
		}
		found, err := s.probe(ctx, units)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if found[i].meets {
				high = units[i]
				result.is(&found[i])
				break
			}
			low, result.Less = units[i], found[i].limit.String()
		}
	}
	result.Passes = s.passes - first
	return result, nil
}

// is sets the suggested limit.
func (s *Suggestion) is(p *probed) {
	s.Limit, s.Denied, s.Clients = p.limit.String(), p.denied, p.clients
}

// suggestedRule returns the index of the named rule. "" stands for the only rule.
func suggestedRule(p *plan, name string) (int, error) {
	var names []string
	for i := range p.rules {
		names = append(names, p.rules[i].Name)
	}
	at := slices.Index(names, name)
	if name == "" && len(names) == 1 {
		at = 0
	}
	switch {
	case name == "" && at < 0:
		return 0,
			fmt.Errorf("--suggest finds the limit of one rule: name it by --rule (there are %s)",
				strings.Join(names, ", "))
	case at < 0:
		return 0,
			fmt.Errorf("--rule: no rule %q was simulated (there are %s)", name,
				strings.Join(names, ", "))
	case varies(&p.rules[at]):
		return 0,
			fmt.Errorf("--suggest: the limit of rule %q depends on the key: write one limit in "+
				"its place", names[at])
	}
	return at, nil
}

// probed is the result of one limit.
type probed struct {
	limit           limits.Limit
	denied, clients Range
	meets           bool
}

// probe decides the rule alone by several limits.
func (s *search) probe(ctx context.Context, units []int64) (found []probed, err error) {
	variants := func([]*plan) (all []variant, err error) {
		found = nil
		for i, n := range units {
			scaled, err := withUnits(s.limit, n)
			if err != nil {
				return nil,
					fmt.Errorf("--suggest: no limit in the range of %s meets the condition: %w",
						s.limit.Algorithm(), err)
			}
			found = append(found, probed{limit: scaled})
			all = append(all, variant{
				alone: s.at, limit: func(limits.Limit) limits.Limit { return scaled },
				label: float64(i),
			})
		}
		return all, nil
	}
	err = s.pass(ctx, variants, func(r *run) error {
		for i := range found {
			n := 0
			for _, p := range r.replaysOf(0, s.at) {
				if p.label == float64(i) {
					found[i].denied.include(n == 0, p.denied)
					found[i].clients.include(n == 0, p.clients)
					n++
				}
			}
			got, of := found[i].denied, r.total.requests
			if s.Suggest.metric == "clients" {
				got, of = found[i].clients, r.total.count
			}
			found[i].meets = s.Suggest.compares(got.Low, of) && s.Suggest.compares(got.High, of)
		}
		return nil
	})
	return found, err
}
