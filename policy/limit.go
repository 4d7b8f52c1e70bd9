package policy

import (
	"strings"
	"time"

	"github.com/weir-go/weir/limits"
)

// limit is the limit of a rule: one for all keys, or one for each plan.
type limit struct {
	at       *node
	fixed    limits.Limit
	by       word
	plans    []plan
	fallback limits.Limit // for keys without a plan, or with a plan that is not listed
}

type plan struct {
	word
	limit limits.Limit
}

var planObject = object[limit]{"planLimit", []field[limit]{
	{"by", true, func(d *decoder, n *node, l *limit) {
		text, _ := d.text(n)
		l.by = word{text, n}
	}},
	{"plans", true, func(d *decoder, n *node, l *limit) {
		if n.kind != mapping || len(n.entries) == 0 {
			d.mistake(n, "must be a map of plans to limits, such as {free: 100/hour, pro: "+
				"10000/hour} (got %s)", n.describe())
			return
		}
		seen := make(map[string]*node)
		for _, e := range n.entries {
			d.plan(e, l, seen)
		}
	}},
	{"default", true, func(d *decoder, n *node, l *limit) { l.fallback = d.parseLimit(n) }},
}}

// plan reads a plan and its limit. seen holds the plans before it.
func (d *decoder) plan(e entry, l *limit, seen map[string]*node) {
	if e.name.kind != scalar || e.name.text == "" || e.name.isNull() || e.name.isNumberOrBoolean() {
		d.mistake(e.name, "the name of a plan must be a text: write it in quotes (got %s)",
			e.name.describe())
		return
	}
	d.in(e.name.text, func() {
		if other := seen[e.name.text]; other != nil {
			d.mistake(e.name, "is here twice, also in line %d: remove one", other.line)
			return
		}
		seen[e.name.text] = e.name
		l.plans = append(l.plans, plan{word{e.name.text, e.name}, d.parseLimit(e.value)})
	})
}

// limit reads the limit of a rule.
func (d *decoder) limit(n *node) limit {
	l := limit{at: n}
	if n.kind == mapping {
		readObject(d, &planObject, n, &l)
		for _, p := range append(l.plans, plan{word{"default", n}, l.fallback}) {
			if p.limit.Algorithm().Holds() {
				d.mistake(p.at, "a concurrency limit cannot depend on the plan: write a rule "+
					"with a fixed limit")
			}
		}
		return l
	}
	l.fixed = d.parseLimit(n)
	return l
}

// parseLimit reads a limit such as 100/minute.
func (d *decoder) parseLimit(n *node) limits.Limit {
	if n.kind != scalar || n.isNull() {
		d.mistake(n, "must be a limit such as 100/minute (got %s)", n.describe())
		return limits.Limit{}
	}
	l, err := limits.Parse(n.text)
	if err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ")
		if _, after, ok := strings.Cut(why, `": `); ok && strings.HasPrefix(why, "limits: ") {
			why = after
		}
		if !strings.Contains(why, "(got ") {
			why += " (got " + quote(n.text) + ")"
		}
		if strings.HasSuffix(why, "(got 0)") {
			why += ": for no limit write mode: disabled, to close a route a cost above its limit"
		}
		d.mistake(n, "%s", why)
	}
	return l
}

// depends reports whether the limit of r depends on the request.
func (r *rule) depends() bool { return r.limit.by.at != nil || len(r.overrides) > 0 }

// override is a different limit for one key.
type override struct {
	at     *node
	values []entry // for: sources and their values
	key    string  // the key that the key function returns for them
	limit  limits.Limit
	until  time.Time // zero: no end
	why    string
}

var overrideObject = object[override]{"override", []field[override]{
	{"for", true, func(d *decoder, n *node, o *override) {
		if n.kind != mapping || len(n.entries) == 0 {
			d.mistake(n, "must be a map of keys to values, such as {user: tenant-42}")
			return
		}
		o.values = n.entries
	}},
	{"limit", true, func(d *decoder, n *node, o *override) {
		o.limit = d.parseLimit(n)
		if o.limit.Algorithm().Holds() {
			d.mistake(n, "a concurrency limit cannot be an override: write a rule with a fixed "+
				"limit")
		}
	}},
	{"until", false, func(d *decoder, n *node, o *override) {
		until, err := time.Parse(time.DateOnly, n.text)
		if n.kind != scalar || err != nil {
			d.mistake(n, "must be a day such as 2026-12-31, at whose beginning in UTC the "+
				"override ends (got %s)", n.describe())
			return
		}
		o.until = until
	}},
	{"why", false, func(d *decoder, n *node, o *override) { o.why, _ = d.text(n) }},
}}

// hasEnded reports whether o no longer applies at now.
func (o *override) hasEnded(now time.Time) bool { return !o.until.IsZero() && !now.Before(o.until) }
