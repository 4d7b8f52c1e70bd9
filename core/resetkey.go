package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits/backends"
)

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
