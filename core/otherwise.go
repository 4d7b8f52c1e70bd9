package core

import (
	"slices"
)

// Otherwise makes a rule apply only to requests that no rule of rules limits. It is for a last rule
// that limits everything else. It returns a key function that calls key for those requests, and
// returns [ErrDoesNotApply] for all others.
//
//	rest := core.Rule[R]{Name: "rest", Limit: limit, Key: core.Otherwise(rules, client)}
//	rules = append(rules, rest)
//
// A rule limits a request if its Key does not return ErrDoesNotApply and its Mode enforces it for
// that key. So a shadow leaves its requests to the last rule. A rule whose Key fails, or returns
// [ErrAbsent], also limits. Modes are those in rules: an [Override] changes nothing here. The Keys
// of rules are called a second time. Otherwise copies rules. If key is nil the result is nil, which
// [New] reports.
func Otherwise[R any](rules []Rule[R], key func(R) (string, error)) func(R) (string, error) {
	if key == nil {
		return nil
	}
	rules = slices.Clone(rules)
	return func(r R) (string, error) {
		for i := range rules {
			if rules[i].limits(r) {
				return "", ErrDoesNotApply
			}
		}
		return key(r)
	}
}
