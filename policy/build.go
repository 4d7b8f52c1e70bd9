package policy

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

// builder builds the rules of a file.
type builder[R any] struct {
	file   *fileText
	names  *Names[R]
	places places[R]
	// by the names of lists: returns an error for addresses outside
	inside map[string]func(R) (string, error)
}

// build returns the rules of f, which must have no mistakes.
func build[R any](f *fileText, names Names[R]) []core.Rule[R] {
	b := &builder[R]{f, &names, names.places(), make(map[string]func(R) (string, error))}
	rules := make([]core.Rule[R], len(f.rules))
	for i, r := range f.rules {
		rules[i] = b.rule(r)
	}
	return rules
}

func (b *builder[R]) rule(r *rule) core.Rule[R] {
	source := func(k *key) func(R) (string, error) {
		return buildSource(k, b.names, b.file.client)
	}
	key := buildKey(r.key, source)
	if r.absent == skip {
		key = whenPresent(key)
	}
	rule := core.Rule[R]{
		Name:      r.name,
		Key:       b.restricted(r, key),
		KeyName:   r.key.name(),
		Cost:      buildCost(&r.cost, b.names.Costs, b.places),
		Unit:      r.unit,
		OnFailure: r.onFailure,
		Mode:      r.mode,
		FinalCost: r.final.function(),
		NoDelay:   r.noDelay,
		Local:     r.local,
		DenyAs503: r.denyAs503,
		Hidden:    r.hidden,
	}
	if r.value != nil {
		rule.Value = buildKey(r.value, source)
	}
	if scope := r.scopeIn(b.file.domain); scope != r.name {
		rule.Scope = scope
	}
	if r.depends() {
		base := buildLimit(&r.limit, b.names.Plans)
		rule.LimitFor = buildOverrides(r.overrides, b.names.Now, base)
	} else {
		rule.Limit = r.limit.fixed
	}
	return rule
}

// whenPresent returns key restricted to the requests that have one.
func whenPresent[R any](key func(R) (string, error)) func(R) (string, error) {
	return func(r R) (string, error) {
		text, err := key(r)
		if errors.Is(err, core.ErrAbsent) {
			return "", core.ErrDoesNotApply
		}
		return text, err
	}
}

// restricted returns key restricted to the requests that r applies to.
func (b *builder[R]) restricted(r *rule, key func(R) (string, error)) func(R) (string, error) {
	key = b.unsigned(r.except, b.outside(r.except, key))
	match, except := r.match, onlyPlaces(r.except)
	if len(match) == 0 && len(except) == 0 {
		return key
	}
	places := b.places
	if len(match) == 1 && match[0].pattern != nil && len(except) == 0 { // the most common case
		p := match[0].pattern
		// 15 ns less than core.When
		if direct, ok := any(key).(func(*http.Request) (string, error)); ok {
			return any(whenMatched(p, direct)).(func(R) (string, error))
		}
		return core.When(func(r R) bool { return places.leadTo(p, r) }, key)
	}
	return core.When(func(r R) bool {
		return (len(match) == 0 || places.match(match, r)) && !places.except(except, r)
	}, key)
}

// whenMatched is [core.When] for a pattern.
func whenMatched(
	p *pattern, key func(*http.Request) (string, error),
) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		if !p.matches(r) {
			return "", core.ErrDoesNotApply
		}
		return key(r)
	}
}

// onlyPlaces returns the conditions that are patterns or routes.
func onlyPlaces(conditions []condition) (places []condition) {
	for _, c := range conditions {
		if c.isPlace() {
			places = append(places, c)
		}
	}
	return places
}

// unsigned returns key restricted to requests that no agent has signed, if agent is among conditions.
func (b *builder[R]) unsigned(
	conditions []condition, key func(R) (string, error),
) func(R) (string, error) {
	if !slices.ContainsFunc(conditions, func(c condition) bool { return c.agent }) {
		return key
	}
	agent := b.names.agent
	return func(r R) (string, error) {
		switch _, err := agent(r); {
		case errors.Is(err, core.ErrAbsent):
			return key(r)
		case err != nil:
			return "", err
		}
		return "", core.ErrDoesNotApply
	}
}

// outside returns key restricted to requests whose address is on none of the lists among
// conditions.
func (b *builder[R]) outside(
	conditions []condition, key func(R) (string, error),
) func(R) (string, error) {
	var ranges, names []string
	for _, c := range conditions {
		if c.list != "" {
			names = append(names, c.list)
			ranges = append(ranges, b.file.lists.byName[c.list].ranges...)
		}
	}
	if names == nil {
		return key
	}
	id := strings.Join(names, " ")
	inside := b.inside[id] // rules that except the same lists share one function
	if inside == nil {
		// cannot fail: ranges are checked
		inside, _ = keyfuncs.Inside(b.names.addressOf(b.file), ranges, keyfuncs.Constant[R](""))
		b.inside[id] = inside
	}
	return func(r R) (string, error) {
		_, err := inside(r)
		switch {
		case err == nil:
			return "", core.ErrDoesNotApply
		case errors.Is(err, core.ErrDoesNotApply):
			return key(r)
		}
		return "", err
	}
}
