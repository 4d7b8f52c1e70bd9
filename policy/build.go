package policy

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// builder builds the rules of a file.
type builder[R any] struct {
	file  *fileText
	names Names[R]
	// by the names of lists: returns an error for addresses outside
	inside map[string]func(R) (string, error)
}

// build returns the rules of f, which must have no mistakes.
func build[R any](f *fileText, names Names[R]) []core.Rule[R] {
	b := &builder[R]{f, names, make(map[string]func(R) (string, error))}
	rules := make([]core.Rule[R], len(f.rules))
	for i, r := range f.rules {
		rules[i] = b.rule(r)
	}
	return rules
}

func (b *builder[R]) rule(r *rule) core.Rule[R] {
	source := func(k *key) func(R) (string, error) { return b.names.source(k, b.file.client) }
	key := buildKey(r.key, source)
	rule := core.Rule[R]{
		Name:      r.name,
		Key:       b.restricted(r, key),
		KeyName:   r.key.name(),
		Cost:      b.cost(&r.cost),
		Unit:      r.unit,
		OnFailure: r.onFailure,
		Mode:      r.mode,
		FinalCost: r.final.function(),
		NoDelay:   r.noDelay,
		Local:     r.local,
		DenyAs503: r.denyAs503,
	}
	if r.value != nil {
		rule.Value = buildKey(r.value, source)
	}
	if scope := r.scopeIn(b.file.domain); scope != r.name {
		rule.Scope = scope
	}
	if r.depends() {
		rule.LimitFor = b.limitFor(r)
	} else {
		rule.Limit = r.limit.fixed
	}
	return rule
}

// restricted returns key restricted to the requests that r applies to.
func (b *builder[R]) restricted(r *rule, key func(R) (string, error)) func(R) (string, error) {
	key = b.outside(r.except, key)
	match, except := r.match, onlyPlaces(r.except)
	if len(match) == 0 && len(except) == 0 {
		return key
	}
	names := b.names
	if len(match) == 1 && match[0].pattern != nil && len(except) == 0 { // the most common case
		p := match[0].pattern
		// 15 ns less than core.When
		if direct, ok := any(key).(func(*http.Request) (string, error)); ok {
			return any(whenMatched(p, direct)).(func(R) (string, error))
		}
		return core.When(func(r R) bool { return names.leadsTo(p, r) }, key)
	}
	return core.When(func(r R) bool {
		return (len(match) == 0 || names.matches(match, r)) && !names.excepts(except, r)
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

// matches reports whether r meets one of conditions.
func (names Names[R]) matches(conditions []condition, r R) bool {
	for i := range conditions {
		c := &conditions[i]
		if c.pattern != nil {
			if names.leadsTo(c.pattern, r) {
				return true
			}
		} else if names.hasRoute(c, r) {
			return true
		}
	}
	return false
}

// leadsTo reports whether r matches p by its path or by the route that the framework chose. In
// echo, the last parameter of a route gets the rest of the path with its slashes; routers of
// net/http do not do that.
func (names Names[R]) leadsTo(p *pattern, r R) bool {
	request := names.Request(r)
	if p.matches(request) {
		return true
	}
	_, plain := any((*R)(nil)).(**http.Request)
	return !plain && names.Route != nil && p.matchesRoute(request, names.Route(r))
}

// excepts reports whether r certainly meets one of conditions.
func (names Names[R]) excepts(conditions []condition, r R) bool {
	for i := range conditions {
		c := &conditions[i]
		if c.pattern != nil {
			if c.pattern.excepts(names.Request(r)) {
				return true
			}
		} else if names.hasRoute(c, r) {
			return true
		}
	}
	return false
}

// hasRoute reports whether the framework routed r by the route of c. A pattern of net/http may
// begin with a method; hasRoute compares the method of r instead.
func (names Names[R]) hasRoute(c *condition, r R) bool {
	route := names.Route(r)
	if _, place, ok := strings.Cut(route, " "); ok {
		route = strings.TrimLeft(place, " \t")
	}
	return route == c.route && (c.method == "" || c.hasMethod(names.Request(r).Method))
}

// onlyPlaces returns the conditions that are not lists.
func onlyPlaces(conditions []condition) (places []condition) {
	for _, c := range conditions {
		if c.list == "" {
			places = append(places, c)
		}
	}
	return places
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
			ranges = append(ranges, b.file.listOf[c.list].ranges...)
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

// cost returns the cost function of c, or nil if every request costs 1.
func (b *builder[R]) cost(c *cost) func(R) int64 {
	names := b.names
	switch {
	case c.at == nil:
		return nil
	case c.name != "":
		return names.Costs[c.name]
	case len(c.cases) > 0:
		cases := c.cases
		return func(r R) int64 {
			return names.costOf(cases, r)
		}
	case c.units != 1:
		units := c.units
		return func(R) int64 { return units }
	}
	return nil
}

// limitFor returns the function that finds the limit of a request: the override of its key, else
// the limit of its plan, else the limit of the rule.
func (b *builder[R]) limitFor(r *rule) func(R, string) (limits.Limit, error) {
	base := func(R, string) (limits.Limit, error) { return r.limit.fixed, nil }
	if r.limit.by.text != "" {
		base = planned(&r.limit, b.names.Plans[r.limit.by.text])
	}
	overrides := make(map[string]*override)
	for _, o := range r.overrides {
		if b.names.Now != nil || !o.hasEnded(time.Now()) {
			overrides[o.key] = o
		}
	}
	if len(overrides) == 0 {
		return base
	}
	now := b.names.Now
	if now == nil {
		now = func(R) time.Time { return time.Now() }
	}
	return func(r R, key string) (limits.Limit, error) {
		if o := overrides[key]; o != nil && (o.until.IsZero() || !o.hasEnded(now(r))) {
			return o.limit, nil
		}
		return base(r, key)
	}
}

// planned returns the function that finds the limit of a plan.
func planned[R any](l *limit, plan func(R) (string, error)) func(R, string) (limits.Limit, error) {
	byPlan := make(map[string]limits.Limit, len(l.plans))
	for _, p := range l.plans {
		byPlan[p.text] = p.limit
	}
	fallback := l.fallback
	return func(r R, _ string) (limits.Limit, error) {
		name, err := plan(r)
		if err != nil && !errors.Is(err, core.ErrAbsent) {
			return limits.Limit{}, err
		}
		if limit, ok := byPlan[name]; ok && err == nil {
			return limit, nil
		}
		return fallback, nil
	}
}
