package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// rule is a rule of the file. A field has a line in each of rule, ruleObject and describe here, and
// in builder.rule; check and warn have what it must agree with.
type rule struct {
	at        *node
	name      string
	scope     word
	match     []condition
	except    []condition
	key       *key
	absent    int  // of absentWords
	value     *key // nil: the limit counts no values
	limit     limit
	overrides []*override
	cost      cost
	final     *finalCost
	unit      core.Unit
	onFailure core.FailurePolicy
	mode      core.Mode
	noDelay   int64
	local     bool
	denyAs503 bool
	hidden    bool
}

var ruleObject = object[rule]{"rule", []field[rule]{
	{"name", true, func(d *decoder, n *node, r *rule) { r.name = d.name(n) }},
	{"scope", false, func(d *decoder, n *node, r *rule) { r.scope = word{d.name(n), n} }},
	{"match", false, func(d *decoder, n *node, r *rule) {
		r.match = readConditions(d, n, r.match, (*condition).readPattern)
	}},
	{"route", false, func(d *decoder, n *node, r *rule) {
		r.match = readConditions(d, n, r.match, (*condition).readRoute)
	}},
	{"except", false, func(d *decoder, n *node, r *rule) {
		r.except = readConditions(d, n, nil, (*condition).readException)
	}},
	{"key", true, func(d *decoder, n *node, r *rule) { r.key = readKey(d, n) }},
	{"absent", false, func(d *decoder, n *node, r *rule) {
		r.absent = d.choice(n, absentWords)
	}},
	{"value", false, func(d *decoder, n *node, r *rule) { r.value = readKey(d, n) }},
	{"limit", true, func(d *decoder, n *node, r *rule) { r.limit.read(d, n) }},
	{"overrides", false, func(d *decoder, n *node, r *rule) {
		d.list(n, func(item *node) { r.overrides = append(r.overrides, readOverride(d, item)) })
	}},
	{"cost", false, func(d *decoder, n *node, r *rule) { r.cost.read(d, n) }},
	{"final-cost", false, func(d *decoder, n *node, r *rule) { r.final = readFinalCost(d, n) }},
	{"unit", false, func(d *decoder, n *node, r *rule) {
		r.unit = core.Unit(d.choice(n, unitWords))
	}},
	{"on-failure", false, func(d *decoder, n *node, r *rule) {
		r.onFailure = core.FailurePolicy(d.choice(n, failureWords))
	}},
	{"mode", false, func(d *decoder, n *node, r *rule) { r.mode = d.mode(n) }},
	{"no-delay", false, func(d *decoder, n *node, r *rule) {
		r.noDelay = d.number(n, 1, 1_000_000_000)
	}},
	{"local", false, func(d *decoder, n *node, r *rule) { r.local = d.boolean(n) }},
	{"deny-as-503", false, func(d *decoder, n *node, r *rule) { r.denyAs503 = d.boolean(n) }},
	{"hidden", false, func(d *decoder, n *node, r *rule) { r.hidden = d.boolean(n) }},
}}

// absentWords say whether requests without the key of a rule count.
var absentWords = []string{"count", "skip"}

const skip = 1

var (
	unitWords = []string{
		core.Requests: "requests", core.ContentBytes: "content-bytes", core.Tokens: "tokens",
		core.InputTokens: "input-tokens", core.OutputTokens: "output-tokens", core.Money: "money",
	}
	failureWords = []string{
		core.FallBack: "fall-back", core.FailOpen: "open", core.FailClosed: "closed",
	}
)

// readRule reads a rule. It reads the name first, so that mistakes of other fields can show it.
func readRule(d *decoder, n *node) *rule {
	r := &rule{at: n}
	for _, e := range n.Entries {
		if e.Name.Text == "name" && e.Value.Kind == scalar {
			d.rule = e.Value.Text
		}
	}
	path := d.path
	if d.rule != "" {
		d.path = nil
	}
	readObject(d, &ruleObject, n, r)
	d.rule, d.path = "", path
	return r
}

// check reports fields of r that contradict each other, names that the file does not declare, and
// parts that need client.
func (r *rule) check(d *decoder, f *fileText) {
	d.in("key", func() { r.key.check(d, f) })
	if r.value != nil {
		d.in("value", func() { r.value.check(d, f) })
	}
	r.limit.check(d, &f.declared.plans)
	d.in("cost", func() { r.cost.check(d, &f.declared.costs) })
	d.in("except", func() {
		for i := range r.except {
			r.except[i].check(d, f)
		}
	})
	r.checkNoDelay(d)
	if r.final != nil {
		d.in("final-cost", func() { r.final.check(d, &r.cost) })
	}
	r.checkValue(d)
	if r.limit.fixed.Algorithm().Holds() {
		r.checkHolds(d)
	}
}

// checkNoDelay reports no-delay of a limit that is no leaky queue, or that it makes a token bucket.
func (r *rule) checkNoDelay(d *decoder) {
	most := r.limit.fixed.Burst() - 1
	if r.noDelay == 0 || r.limit.by.text == "" && most < 0 {
		return
	}
	d.in("no-delay", func() {
		switch {
		case !r.limit.fixed.Algorithm().Delays() || len(r.overrides) > 0:
			d.mistake(r.at, "only a leaky queue without plans and overrides has this: remove it")
		case r.noDelay > most:
			d.mistake(r.at, "must be at most %d, less than the capacity (got %d): a token "+
				"bucket delays nothing", most, r.noDelay)
		}
	})
}

// checkHolds reports fields that do not go with a concurrency limit.
func (r *rule) checkHolds(d *decoder) {
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
	if units := r.cost.firstAbove(most); units > most {
		d.in("cost", func() {
			d.mistake(r.cost.at, "a request costs at most %d of a concurrency limit (got %d)",
				most, units)
		})
	}
}

// countsValues reports whether one of the limits of r counts values, and whether all do.
func (r *rule) countsValues() (some, all bool) {
	all = true
	each := func(counts bool) { some, all = some || counts, all && counts }
	if r.limit.by.text == "" {
		each(r.limit.fixed.Algorithm().CountsValues())
	} else {
		each(r.limit.fallback.Algorithm().CountsValues())
		for _, p := range r.limit.plans {
			each(p.limit.Algorithm().CountsValues())
		}
	}
	for _, o := range r.overrides {
		each(o.limit.Algorithm().CountsValues())
	}
	return some, all
}

// checkValue reports a value without a limit that counts values, such a limit without one, and
// fields that do not go with it.
func (r *rule) checkValue(d *decoder) {
	some, all := r.countsValues()
	if !some && r.value == nil {
		return
	}
	d.in("value", func() {
		switch {
		case !some && r.limit.by.text == "" && r.limit.fixed == (limits.Limit{}):
			// reported already
		case !some:
			d.mistake(r.value.at, "only a distinct limit counts values: "+
				"remove it, or write a limit such as distinct 5/10m")
		case r.value == nil:
			d.mistake(r.at, "a distinct limit counts different values: say which, as for key")
		case !all:
			d.mistake(r.value.at, "plans and overrides must be distinct limits, too")
		case r.value.is("everybody"):
			d.mistake(r.value.at, "every request has the same value: count something that differs")
		case r.value.text != "" && r.value.text == r.key.text:
			d.mistake(r.value.at, "is also the key, so each key has one value: "+
				"count something else")
		}
	})
	if !some {
		return
	}
	const noCost = "a distinct limit has none, since a new value takes one unit: remove it"
	if r.cost.at != nil {
		d.in("cost", func() { d.mistake(r.cost.at, noCost) })
	}
	if r.final != nil {
		d.in("final-cost", func() { d.mistake(r.final.at, noCost) })
	}
	if r.unit != core.Requests {
		d.in("unit", func() { d.mistake(r.at, "a distinct limit counts values: remove it") })
	}
}

// scopeIn returns the scope of r in a domain.
func (r *rule) scopeIn(domain string) string {
	scope := r.scope.text
	if scope == "" {
		scope = r.name
	}
	if domain == "" {
		return scope
	}
	return domain + "/" + scope
}

// checkScope reports a scope that is too long, or in which r and other count differently. other is
// the first rule of this scope; nil: r is.
func (r *rule) checkScope(d *decoder, scope string, other *rule) {
	at := r.at
	if r.scope.at != nil {
		at = r.scope.at
	}
	d.in("scope", func() {
		if len(scope) > 64 {
			d.mistake(at, "domain and scope have more than 64 characters together: shorten one "+
				"(got %s)", quote(scope))
		}
		switch {
		case other == nil || other.name == r.name:
		case other.local != r.local:
			d.mistake(at, "is also that of rule %q in line %d, and one of them is local: give "+
				"it a scope of its own", other.name, other.at.Line)
		case other.depends() || r.depends() || other.limit.fixed != r.limit.fixed:
			d.mistake(at, "is also that of rule %q in line %d: give rules of one scope the same "+
				"limit, without plans and overrides", other.name, other.at.Line)
		case r.value != nil:
			d.mistake(at, "is also that of rule %q in line %d: a key has one value at a time, so "+
				"rules that count values need a scope each", other.name, other.at.Line)
		}
	})
}

// checkOverrides computes the keys of the overrides of r, and reports two for one key.
func (r *rule) checkOverrides(d *decoder, c *client) {
	if !r.key.isComplete() {
		return // reported already
	}
	keys := make(map[string]*override)
	for _, o := range r.overrides {
		if len(o.values) == 0 {
			continue // reported already
		}
		d.path = append(d.path, "overrides", "for")
		o.findKey(d, r.key, c)
		if other := keys[o.key]; other != nil && o.key != "" {
			d.mistake(o.at, "another override is for the same key, in line %d: remove one",
				other.at.Line)
		}
		keys[o.key] = o
		d.path = d.path[:len(d.path)-2]
	}
}

// depends reports whether the limit of r depends on the request.
func (r *rule) depends() bool { return r.limit.by.at != nil || len(r.overrides) > 0 }

// warn warns of a key that clients can change freely, and of overrides that have ended. rules are
// those of the file.
func (r *rule) warn(d *decoder, rules []*rule, now time.Time) {
	limitsToo := func(other *rule) bool {
		return other.mode == core.Enforce && other.key.free() == nil && other.covers(r) &&
			(other.value == nil || other.value.text == r.key.text)
	}
	if r.mode != core.Disabled && r.key.free() != nil && !slices.ContainsFunc(rules, limitsToo) {
		d.in("key", func() { r.key.warn(d) })
	}
	for _, o := range r.overrides {
		if o.hasEnded(now) {
			d.in("overrides", func() { d.mistake(o.at, "%s", o.endedText()) })
		}
	}
}

// covers reports whether r applies to every request that other applies to, as far as the texts of
// patterns tell.
func (r *rule) covers(other *rule) bool {
	excepted := func(c condition) bool {
		return slices.ContainsFunc(other.except, func(o condition) bool { return o.text == c.text })
	}
	matched := func(o condition) bool {
		return slices.ContainsFunc(r.match, func(c condition) bool { return c.covers(&o) })
	}
	for _, c := range r.except {
		if !excepted(c) {
			return false
		}
	}
	if len(r.match) == 0 {
		return true
	}
	if len(other.match) == 0 {
		return matched(condition{pattern: everyPath})
	}
	return !slices.ContainsFunc(other.match, func(o condition) bool { return !matched(o) })
}

// conditions returns all conditions of r.
func (r *rule) conditions() []condition {
	all := slices.Concat(r.match, r.except)
	for _, c := range r.cost.cases {
		all = append(all, c.match...)
	}
	return all
}

// sourcesOf calls visit with every source of the key of r, and of its value.
func (r *rule) sourcesOf(visit func(*key)) {
	r.key.sourcesOf(visit)
	if r.value != nil {
		r.value.sourcesOf(visit)
	}
}

// needsRequest returns the first node of r that needs the request of net/http, or nil.
func (r *rule) needsRequest() (n *node) {
	for _, c := range r.conditions() {
		if c.needsRequest() {
			return c.at
		}
	}
	r.sourcesOf(func(k *key) {
		if k.source != nil && k.source.readsRequest {
			n = k.at
		}
	})
	return n
}

// needsRoute returns the first node of r that needs the route, or nil.
func (r *rule) needsRoute() (n *node) {
	for _, c := range r.conditions() {
		if c.route != "" {
			return c.at
		}
	}
	r.sourcesOf(func(k *key) {
		if k.is("route") {
			n = k.at
		}
	})
	return n
}

func (r *rule) outline() RuleOutline {
	o := RuleOutline{
		Name: r.name, Line: r.at.Line, Key: r.key.text, Plan: r.limit.by.text, Cost: r.cost.name,
		Route: r.needsRoute() != nil,
	}
	if r.value != nil {
		o.Value = r.value.text
	}
	r.sourcesOf(func(k *key) {
		if !slices.Contains(o.Sources, k.text) {
			o.Sources = append(o.Sources, k.text)
		}
	})
	o.Agent = slices.Contains(o.Sources, "agent") ||
		slices.ContainsFunc(r.except, func(c condition) bool { return c.agent })
	o.Address = slices.Contains(o.Sources, "address") ||
		slices.ContainsFunc(r.except, func(c condition) bool { return c.list != "" })
	o.Host = slices.ContainsFunc(r.conditions(),
		func(c condition) bool { return c.pattern != nil && c.pattern.host != "" })
	return o
}

// describe returns all fields of r except its name, in a fixed order.
func (r *rule) describe() []described {
	overrides, keys := describeOverrides(r.overrides)
	value := "none"
	if r.value != nil {
		value = r.value.text
	}
	return []described{
		{"scope", r.scope.text, ""},
		{"match", describeConditions(r.match), ""},
		{"except", describeConditions(r.except), ""},
		{"key", r.key.text, ""},
		{"absent", absentWords[r.absent], ""},
		{"value", value, ""},
		{"limit", r.limit.describe(), ""},
		{"overrides", overrides, keys},
		{"cost", r.cost.describe(), ""},
		{"final-cost", r.final.describe(), ""},
		{"unit", r.unit.String(), ""},
		{"on-failure", failureWords[r.onFailure], ""},
		{"mode", r.mode.String(), ""},
		{"no-delay", fmt.Sprint(r.noDelay), ""},
		{"local", fmt.Sprint(r.local), ""},
		{"deny-as-503", fmt.Sprint(r.denyAs503), ""},
		{"hidden", fmt.Sprint(r.hidden), ""},
	}
}
