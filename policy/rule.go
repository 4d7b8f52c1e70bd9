package policy

import (
	"strings"

	"github.com/weir-go/weir/core"
)

// rule is a rule of the file.
type rule struct {
	at        *node
	name      string
	scope     word
	match     []condition
	except    []condition
	key       *key
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
}

var ruleObject = object[rule]{"rule", []field[rule]{
	{"name", true, func(d *decoder, n *node, r *rule) { r.name = d.name(n) }},
	{"scope", false, func(d *decoder, n *node, r *rule) { r.scope = word{d.name(n), n} }},
	{"match", false, func(d *decoder, n *node, r *rule) {
		r.match = d.conditions(n, r.match, (*decoder).pattern)
	}},
	{"route", false, func(d *decoder, n *node, r *rule) {
		r.match = d.conditions(n, r.match, (*decoder).route)
	}},
	{"except", false, func(d *decoder, n *node, r *rule) {
		r.except = d.conditions(n, nil, (*decoder).exception)
	}},
	{"key", true, func(d *decoder, n *node, r *rule) { r.key = d.key(n) }},
	{"value", false, func(d *decoder, n *node, r *rule) { r.value = d.key(n) }},
	{"limit", true, func(d *decoder, n *node, r *rule) { r.limit = d.limit(n) }},
	{"overrides", false, func(d *decoder, n *node, r *rule) {
		d.list(n, func(item *node) {
			o := &override{at: item}
			readObject(d, &overrideObject, item, o)
			r.overrides = append(r.overrides, o)
		})
	}},
	{"cost", false, func(d *decoder, n *node, r *rule) { r.cost = d.cost(n) }},
	{"final-cost", false, func(d *decoder, n *node, r *rule) { r.final = d.finalCost(n) }},
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
}}

var (
	unitWords = []string{
		core.Requests: "requests", core.ContentBytes: "content-bytes", core.Tokens: "tokens",
		core.InputTokens: "input-tokens", core.OutputTokens: "output-tokens",
	}
	failureWords = []string{
		core.FallBack: "fall-back", core.FailOpen: "open", core.FailClosed: "closed",
	}
)

// readRule reads a rule. It reads the name first, so that mistakes of other fields can show it.
func readRule(d *decoder, n *node) *rule {
	r := &rule{at: n}
	for _, e := range n.entries {
		if e.name.text == "name" && e.value.kind == scalar {
			d.rule = e.value.text
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

// name reads the name of a rule or scope.
func (d *decoder) name(n *node) string {
	text, ok := d.text(n)
	if !ok {
		return ""
	}
	if len(text) > 64 ||
		strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
		d.mistake(n, "must have 1 to 64 printable ASCII characters (got %s)", quote(text))
	}
	return text
}

func (d *decoder) mode(n *node) core.Mode {
	text, ok := d.text(n)
	if !ok {
		return core.Enforce
	}
	m, err := core.ParseMode(text)
	if err != nil {
		d.mistake(n, "must be enforce, shadow, disabled or a share of the keys such as enforce "+
			"25%% (got %s)", quote(text))
	}
	return m
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
