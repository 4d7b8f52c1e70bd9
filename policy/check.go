package policy

import (
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
)

// check reports mistakes that involve several fields.
func (f *fileText) check(d *decoder) {
	names := make(map[string]*rule)
	scopes := make(map[string]*rule)
	for _, r := range f.rules {
		if r.name == "" || r.key == nil {
			continue // reported already
		}
		d.rule = r.name
		if other := names[r.name]; other != nil {
			d.in("name", func() {
				d.mistake(r.at, "another rule has this name, in line %d: rename one", other.at.line)
			})
		}
		names[r.name] = r
		f.checkNames(d, r)
		f.checkRule(d, r)
		f.checkScope(d, r, scopes)
		f.checkOverrides(d, r)
	}
	d.rule = ""
}

// checkNames reports names that the file does not declare, and keys that need client.
func (f *fileText) checkNames(d *decoder, r *rule) {
	for _, part := range []struct {
		field string
		key   *key
	}{{"key", r.key}, {"value", r.value}} {
		if part.key == nil {
			continue
		}
		part.key.sourcesOf(func(k *key) {
			d.in(part.field, func() {
				switch {
				case k.source == "address" && f.client == nil:
					d.mistake(k.at, "address needs client: say at the top of the file how "+
						"addresses are found, such as client: {peer: true}")
				case k.source == "" && k.text != "" && f.declared.keys.at[k.text] == nil:
					d.undeclared(k.at, k.text, "keys", f.declared.keys)
				}
			})
		})
	}
	if r.limit.by.text != "" && f.declared.plans.at[r.limit.by.text] == nil {
		d.in("limit.by", func() {
			d.undeclared(r.limit.by.at, r.limit.by.text, "plans", f.declared.plans)
		})
	}
	if r.cost.name != "" && f.declared.costs.at[r.cost.name] == nil {
		d.in("cost", func() { d.undeclared(r.cost.at, r.cost.name, "costs", f.declared.costs) })
	}
	for _, c := range r.except {
		if c.list == "" {
			continue
		}
		d.in("except", func() {
			if f.listOf[c.list] == nil {
				d.mistake(c.at, "there is no list %s: add it to lists", quote(c.list))
			}
			if f.client == nil {
				d.mistake(c.at, "a list needs client: say at the top of the file how addresses "+
					"are found, such as client: {peer: true}")
			}
		})
	}
}

// undeclared reports a name that the file does not declare under program.
func (d *decoder) undeclared(n *node, name, kind string, declared wordSet) {
	for i := 0; i < len(declared.words) && d.helps(); i++ {
		if w := declared.words[i]; isNearly(w.text, name) {
			d.mistake(n, "program.%s has no %s: write %s", kind, quote(name), w.text)
			return
		}
	}
	if kind == "keys" {
		for _, source := range []string{"address", "everybody", "route", "bearer"} {
			if isNearly(source, name) && d.helps() {
				d.mistake(n, "there is no key %s: write %s", quote(name), source)
				return
			}
		}
	}
	d.mistake(n, "program.%s has no %s: declare it there if the program supplies it", kind,
		quote(name))
}

// checkRule reports fields of r that contradict each other.
func (f *fileText) checkRule(d *decoder, r *rule) {
	if most := r.limit.fixed.Burst() - 1; r.noDelay != 0 && (r.limit.by.text != "" || most >= 0) {
		d.in("no-delay", func() {
			switch {
			case !r.limit.fixed.Algorithm().Delays() || len(r.overrides) > 0:
				d.mistake(r.at,
					"only a leaky queue without plans and overrides has this: remove it")
			case r.noDelay > most:
				d.mistake(r.at, "must be at most %d, less than the capacity (got %d): a token "+
					"bucket delays nothing", most, r.noDelay)
			}
		})
	}
	if r.final != nil && len(r.final.cases) > 0 && r.cost.isZero() &&
		!slices.ContainsFunc(r.final.cases, func(c *finalCase) bool { return c.units > 0 }) {
		d.in("final-cost", func() {
			d.mistake(r.final.at, "with cost: 0 no status costs anything: add an entry such as "+
				"{status: 401, units: 1}")
		})
	}
	d.checkValue(r)
	if !r.limit.fixed.Algorithm().Holds() {
		return
	}
	if r.final != nil {
		d.in("final-cost", func() {
			d.mistake(r.final.at, "a concurrency limit has none, since its units are released "+
				"at the end of the request: remove it")
		})
	}
	if r.unit != core.Requests {
		d.in("unit", func() { d.mistake(r.at, "a concurrency limit counts requests: remove it") })
	}
	if len(r.overrides) > 0 {
		d.in("overrides", func() {
			d.mistake(r.overrides[0].at,
				"a concurrency limit has no overrides: write a rule with a limit of its own")
		})
	}
	const most = 64 // units of one charge under a concurrency limit
	for _, units := range append(r.cost.unitsOf(), r.cost.units) {
		if units > most {
			d.in("cost", func() {
				d.mistake(r.cost.at, "a request costs at most %d of a concurrency limit (got %d)",
					most, units)
			})
			break
		}
	}
}

func (c *cost) unitsOf() (units []int64) {
	for _, one := range c.cases {
		units = append(units, one.units)
	}
	return units
}

// checkScope reports rules of one scope that count differently.
func (f *fileText) checkScope(d *decoder, r *rule, scopes map[string]*rule) {
	at := r.at
	if r.scope.at != nil {
		at = r.scope.at
	}
	scope := r.scopeIn(f.domain)
	d.in("scope", func() {
		if len(scope) > 64 {
			d.mistake(at, "domain and scope have more than 64 characters together: shorten one "+
				"(got %s)", quote(scope))
		}
		other := scopes[scope]
		switch {
		case other == nil:
			scopes[scope] = r
		case other.name == r.name:
		case other.local != r.local:
			d.mistake(at, "is also that of rule %q in line %d, and one of them is local: give "+
				"it a scope of its own", other.name, other.at.line)
		case other.depends() || r.depends() || other.limit.fixed != r.limit.fixed:
			d.mistake(at, "is also that of rule %q in line %d: give rules of one scope the same "+
				"limit, without plans and overrides", other.name, other.at.line)
		case r.value != nil:
			d.mistake(at, "is also that of rule %q in line %d: a key has one value at a time, so "+
				"rules that count values need a scope each", other.name, other.at.line)
		}
	})
}

// checkOverrides computes the keys of the overrides of r.
func (f *fileText) checkOverrides(d *decoder, r *rule) {
	keys := make(map[string]*override)
	for _, o := range r.overrides {
		if len(o.values) == 0 || strings.Contains(r.key.text, "[]") || !r.key.isComplete() {
			continue // reported already
		}
		d.path = append(d.path, "overrides", "for")
		d.overrideKey(r.key, o, f.client)
		if other := keys[o.key]; other != nil && o.key != "" {
			d.mistake(o.at, "another override is for the same key, in line %d: remove one",
				other.at.line)
		}
		keys[o.key] = o
		d.path = d.path[:len(d.path)-2]
	}
}

// isComplete reports whether every source of k was understood.
func (k *key) isComplete() bool {
	ok := true
	k.sourcesOf(func(k *key) { ok = ok && k.text != "" && (k.arg == "" || requestKey(k) != nil) })
	return ok
}
