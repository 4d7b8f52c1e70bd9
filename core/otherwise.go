package core

import (
	"errors"
	"slices"
)

// Otherwise makes a rule apply only to requests that none of rules limits: it is for a last rule for
// everything that others do not name. It returns a key function that is key for those and, for all
// others, leaves the rule out of the outcome by [ErrDoesNotApply].
//
//	rules = append(rules, core.Rule[R]{Name: "other", Limit: limit, Key: core.Otherwise(rules, client)})
//
// A rule limits a request if its Key does not return ErrDoesNotApply and its Mode enforces it for that
// key. So a shadow beside the last rule lifts no limit. A rule whose Key fails, or is [ErrAbsent], counts
// as one that limits. Modes are those of rules: an [Override] changes nothing here. The Keys of rules are
// called once more. rules is copied. If key is nil so is the result, which [New] then reports.
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

// limits reports whether rule applies to r and is enforced.
func (rule *Rule[R]) limits(r R) (limits bool) {
	if rule.Key == nil || rule.Mode.Percent() == 0 {
		return false
	}
	defer func() {
		if v := recover(); v != nil {
			limits = true // the rule fails by itself
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

// Applies reports whether a rule that is enforced, for some keys at least, applies to r. It calls the
// Keys of rules, and asks no backend. It is for the start of a program, to find requests that nothing
// limits.
func (limiter *Limiter[R]) Applies(r R) bool {
	l := limiter.current.Load()
	return slices.ContainsFunc(l.rules, func(rule compiledRule[R]) bool {
		if rule.Mode.Percent() == 0 {
			return false
		}
		_, err := rule.key(r)
		return !errors.Is(err, ErrDoesNotApply)
	})
}
