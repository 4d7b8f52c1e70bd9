package core

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/internal/ground/turns"
)

func (config *Config[R]) validate() error {
	var errs []error
	if len(config.Rules) == 0 {
		errs = append(errs, errors.New("core: no rules: a limiter needs at least one"))
	}
	if config.Instances < 0 {
		errs = append(errs, fmt.Errorf("core: instances: must be positive, or 0 for 1 (got %d)",
			config.Instances))
	}
	if config.MaxWaiting < 0 {
		errs = append(errs, fmt.Errorf("core: max waiting: must be positive, or 0 for %d (got %d)",
			defaultMaxWaiting, config.MaxWaiting))
	}
	if err := turns.Validate(config.MaxPromise); err != nil {
		errs = append(errs, fmt.Errorf("core: max promise: %w", err))
	}
	if config.Backend != nil && isnil.Of(config.Backend) {
		errs = append(errs, fmt.Errorf("core: backend: is a nil %T: make one, or leave Backend nil",
			config.Backend))
	}
	if config.Fallback != nil && isnil.Of(config.Fallback) {
		errs = append(errs, fmt.Errorf("core: fallback: is a nil %T: make one, or leave Fallback nil",
			config.Fallback))
	}
	names := make(map[string]bool)
	scopes := make(map[string]*Rule[R])
	for i := range config.Rules {
		rule := &config.Rules[i]
		if err := rule.validate(); err != nil {
			which := strconv.Quote(rule.Name)
			if rule.Name == "" {
				which = fmt.Sprintf("%d of %d", i+1, len(config.Rules))
			}
			errs = append(errs, prefixEach(fmt.Sprintf("core: rule %s: ", which), err))
		}
		if !rule.Local {
			errs = append(errs, rule.unsupported("backend", config.Backend))
			if rule.OnFailure == FallBack {
				errs = append(errs, rule.unsupported("fallback", config.Fallback))
			}
		}
		if names[rule.Name] && rule.Name != "" {
			errs = append(errs, fmt.Errorf("core: rule %q: name: another rule has the same name: rename one",
				rule.Name))
			continue
		}
		names[rule.Name] = true
		scope := rule.scopeOrName()
		if other := scopes[scope]; other == nil {
			scopes[scope] = rule
		} else if rule.Local != other.Local {
			errs = append(errs, fmt.Errorf(
				"core: rule %q: scope: %q is also the scope of rule %q: give the Local rule its own",
				rule.Name, scope, other.Name))
		} else if rule.varies() || other.varies() || rule.Limit != other.Limit {
			errs = append(errs, fmt.Errorf(
				"core: rule %q: scope: %q is also the scope of rule %q: both need one fixed, equal limit",
				rule.Name, scope, other.Name))
		} else if rule.countsValues() {
			errs = append(errs, fmt.Errorf("core: rule %q: scope: %q is also the scope of rule %q: "+
				"a key has one value at a time, so rules that count values need a scope each",
				rule.Name, scope, other.Name))
		}
	}
	return errors.Join(errs...)
}
