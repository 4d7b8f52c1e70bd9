package core

import (
	"errors"
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

// limits reports whether rule applies to r and is enforced for its key.
func (rule *Rule[R]) limits(r R) (limits bool) {
	if rule.Key == nil || rule.Mode.Percent() == 0 {
		return false
	}
	defer func() {
		if v := recover(); v != nil {
			limits = true // the rule itself will fail
		}
	}()
	key, err := rule.Key(r)
	switch {
	case err == nil:
		return rule.Mode.enforces(shareHash(rule.Name, key))
	case errors.Is(err, ErrAbsent):
		return rule.Mode.enforces(shareHash(rule.Name, ""))
	}
	return !errors.Is(err, ErrDoesNotApply)
}

// Applies reports whether a rule that is enforced, at least for some keys, applies to r. It calls
// the Keys of rules, and asks no backend. Call it at the start of a program, to find requests that
// nothing limits.
func (l *Limiter[R]) Applies(r R) bool {
	set := l.current.Load()
	return slices.ContainsFunc(set.rules, func(rule compiledRule[R]) bool {
		if rule.Mode.Percent() == 0 {
			return false
		}
		_, err := rule.key(r)
		return !errors.Is(err, ErrDoesNotApply)
	})
}
