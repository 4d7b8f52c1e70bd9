package admin

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Limiter is a limiter of any framework: the limiters of nethttp, chimw, ginmw, echomw, echo5mw and
// core implement it. The page explains requests to limiters that also implement [RequestExplainer].
type Limiter interface {
	State() core.State
	Override(rule string, o core.Override) error
	ExplainKey(ctx context.Context, rule, key string, limit limits.Limit) (limits.Decision, error)
	ResetKey(ctx context.Context, rule, key string) error
}

// KeyOverrider is a limiter that overrides the limit of a single key: the limiters of all frameworks
// implement it. Without it api/overrides has none of keys.
type KeyOverrider interface {
	OverrideKey(rule, key string, o core.Override) error
	KeyOverrides(rule string) map[string]core.Override
}

// RequestExplainer is a limiter of HTTP requests that the page can build: the limiters of nethttp
// and chimw implement it.
type RequestExplainer interface {
	Explain(r *http.Request) core.Outcome
}

// limiters are the limiters that the page explains and changes.
type limiters struct {
	byName map[string]Limiter
	names  []string // sorted
}

func newLimiters(byName map[string]Limiter) *limiters {
	return &limiters{maps.Clone(byName), slices.Sorted(maps.Keys(byName))}
}

// named returns the named limiter and its name. "" stands for the only limiter.
func (l *limiters) named(name string) (string, Limiter, error) {
	if name == "" && len(l.names) == 1 {
		name = l.names[0]
	}
	if limiter := l.byName[name]; limiter != nil {
		return name, limiter, nil
	}
	return "", nil, &failure{
		http.StatusNotFound,
		fmt.Sprintf("there is no limiter %.64q: the names are %q", name, l.names),
	}
}

// ruleOf returns the state of a rule of a limiter.
func ruleOf(limiter Limiter, name string) (core.RuleState, error) {
	for _, state := range limiter.State().Rules {
		if state.Name == name {
			return state, nil
		}
	}
	return core.RuleState{},
		&failure{http.StatusNotFound, fmt.Sprintf("there is no rule %.64q", name)}
}

// keyOverride returns the limit by which a key is overridden; zero: none.
func keyOverride(limiter Limiter, rule, key string) limits.Limit {
	if keys, ok := limiter.(KeyOverrider); ok {
		return keys.KeyOverrides(rule)[key].Limit
	}
	return limits.Limit{}
}
