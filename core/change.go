package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"weak"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Override changes one rule of one process until an instant. A nil or zero field changes nothing.
// The zero Override ends the override in force.
type Override struct {
	Mode  *Mode        `json:",omitzero"` // nil: the rule's mode
	Limit limits.Limit `json:",omitzero"` // for all rules of the scope; zero: the rule's limit
	Until time.Time    `json:",omitzero"` // when it ends; required
	Why   string       `json:",omitzero"` // for people who read it
}

// override is an Override in force.
type override struct {
	Override
	timer *time.Timer
}

// Replace puts other rules into force from the next request on. The rest of the configuration
// stays. Requests in flight, and those that wait in a queue, keep their rules until they end. What
// keys have used stays used, since state belongs to scope and key. But a rule whose [Rule].Local
// changes counts in another place from then on. If a rule has a mistake, Replace changes nothing
// and reports every mistake. It is safe for concurrent use.
func (l *Limiter[R]) Replace(rules []Rule[R]) error {
	l.change.Lock()
	defer l.change.Unlock()
	rules = slices.Clone(rules)
	overrides := maps.Clone(l.overrides)
	maps.DeleteFunc(overrides, func(name string, _ *override) bool { return indexOf(rules, name) < 0 })
	return l.install(rules, overrides)
}

// install puts rules with overrides into force. If it fails, it changes nothing. The caller holds
// l.change.
func (l *Limiter[R]) install(rules []Rule[R], overrides map[string]*override) error {
	config := l.config
	config.Rules = rules
	if err := config.validate(); err != nil { // without overrides, since they end
		return err
	}
	if len(overrides) > 0 {
		config.Rules = overridden(rules, overrides)
		if err := config.validate(); err != nil {
			return prefixEach("with the overrides in force: ", err)
		}
	}
	set, err := l.compile(config.Rules)
	if err != nil {
		return err
	}
	l.current.Store(set)
	if l.uses != nil {
		before := usedBy(overridden(l.config.Rules, l.overrides), l.backend)
		l.uses.replace(before, usedBy(config.Rules, l.backend))
	}
	for name, o := range l.overrides {
		if overrides[name] != o {
			o.timer.Stop()
		}
	}
	l.config.Rules, l.overrides = rules, overrides
	return nil
}

// overridden returns rules with overrides applied. It does not override the limit of a rule with a
// LimitFor.
func overridden[R any](rules []Rule[R], overrides map[string]*override) []Rule[R] {
	if len(overrides) == 0 {
		return rules
	}
	rules = slices.Clone(rules)
	for i := range rules {
		o := overrides[rules[i].Name]
		if o == nil {
			continue
		}
		if o.Mode != nil {
			rules[i].Mode = *o.Mode
		}
		if o.Limit == (limits.Limit{}) || rules[i].varies() {
			continue
		}
		for j := range rules {
			if rules[j].scopeOrName() == rules[i].scopeOrName() {
				rules[j].Limit = o.Limit
			}
		}
	}
	return rules
}

func indexOf[R any](rules []Rule[R], name string) int {
	return slices.IndexFunc(rules, func(rule Rule[R]) bool { return rule.Name == name })
}

// Override changes the rule of that name in this process until an instant. It outranks [New] and
// [Limiter.Replace], and replaces an earlier Override of the rule. It ends by itself at that
// instant, or when Replace removes the rule. It returns an error, and changes nothing, if there is
// no such rule, Until is not in the future, the limit is not legal, the rule has a LimitFor, or
// another rule of its scope is overridden with another limit. To change a rule for good and on all
// instances, change the rules. It is safe for concurrent use.
func (l *Limiter[R]) Override(rule string, o Override) error {
	l.change.Lock()
	defer l.change.Unlock()
	if err := l.validateOverride(rule, &o); err != nil {
		return prefixEach(fmt.Sprintf("core: override of rule %q: ", rule), err)
	}
	overrides := maps.Clone(l.overrides)
	if o == (Override{}) {
		delete(overrides, rule)
		return l.install(l.config.Rules, overrides)
	}
	if overrides == nil {
		overrides = make(map[string]*override)
	}
	added := &override{Override: o.clone()}
	overrides[rule] = added
	if err := l.install(l.config.Rules, overrides); err != nil {
		return err
	}
	limiter := weak.Make(l) // the timer must not keep an unused limiter alive
	added.timer = time.AfterFunc(time.Until(o.Until), func() {
		if l := limiter.Value(); l != nil {
			l.endOverride(rule, added)
		}
	})
	return nil
}

// clone returns a copy of o that shares no pointer with it.
func (o Override) clone() Override {
	if o.Mode != nil {
		mode := *o.Mode
		o.Mode = &mode
	}
	return o
}

func (l *Limiter[R]) validateOverride(rule string, o *Override) error {
	i := indexOf(l.config.Rules, rule)
	if i < 0 {
		return errors.New("there is no rule of this name")
	}
	if *o == (Override{}) {
		return nil
	}
	var errs []error
	switch {
	case o.Until.IsZero():
		errs = append(errs, errors.New("until: is not set: say when it ends"))
	case !o.Until.After(time.Now()):
		errs = append(errs, fmt.Errorf("until: must be in the future (got %v)",
			o.Until.UTC().Format(time.RFC3339)))
	}
	if o.Mode != nil {
		if err := o.Mode.validate(); err != nil {
			errs = append(errs, fmt.Errorf("mode: %w", err))
		}
	}
	if o.Limit != (limits.Limit{}) {
		if err := o.Limit.Validate(); err != nil {
			errs = append(errs, prefixEach("limit: ", err))
		} else if l.config.Rules[i].varies() {
			errs = append(errs, errors.New(
				"limit: LimitFor, or a policy file's plan, finds it: override the mode"))
		} else if other := l.otherLimit(i, o.Limit); other != "" {
			errs = append(errs, fmt.Errorf(
				"limit: rule %q has the same scope and another override: clear that one first", other))
		}
	}
	return errors.Join(errs...)
}

// otherLimit returns the name of a rule that has the scope of rule i and is overridden with another
// limit, or "".
func (l *Limiter[R]) otherLimit(i int, limit limits.Limit) string {
	rules := l.config.Rules
	for j := range rules {
		o := l.overrides[rules[j].Name]
		if j != i && o != nil && o.Limit != (limits.Limit{}) && o.Limit != limit &&
			rules[j].scopeOrName() == rules[i].scopeOrName() {
			return rules[j].Name
		}
	}
	return ""
}

// endOverride ends an override of a rule if it is still in force.
func (l *Limiter[R]) endOverride(rule string, ended *override) {
	l.change.Lock()
	defer l.change.Unlock()
	if l.overrides[rule] != ended {
		return
	}
	overrides := maps.Clone(l.overrides)
	delete(overrides, rule)
	if err := l.install(l.config.Rules, overrides); err != nil { // Prepare failed: try again
		ended.timer.Reset(time.Minute)
	}
}

// ResetKey makes the state of a key under a rule fresh, as if it had never been charged, in the
// backend that decides the rule. The key is a result of the rule's Key. Rules of equal scope share
// the state. A fallback keeps its own. It returns an error if there is no such rule, if the backend
// fails or cannot reset, or if the rule has a [limits.Concurrent] limit, whose units are released
// when requests end.
func (l *Limiter[R]) ResetKey(ctx context.Context, rule, key string) error {
	b, scope, err := l.stateOf(rule)
	if err != nil {
		return fmt.Errorf("core: reset: rule %q: %w", rule, err)
	}
	return call.Reset(ctx, b, scope, key)
}

// stateOf returns the backend and the scope of the state of a rule.
func (l *Limiter[R]) stateOf(rule string) (b backends.Backend, scope string, err error) {
	l.change.Lock()
	defer l.change.Unlock()
	rules := overridden(l.config.Rules, l.overrides)
	i := indexOf(rules, rule)
	switch {
	case i < 0:
		return nil, "", errors.New("there is no rule of this name")
	case rules[i].holds():
		return nil, "", errors.New(
			"a concurrency limit has nothing to reset: its units are released when the requests end")
	}
	return l.backendOf(&rules[i]), rules[i].scopeOrName(), nil
}
