package policy

import (
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// sourcesOf calls visit with every source of the key of r, and of its value.
func (r *rule) sourcesOf(visit func(*key)) {
	r.key.sourcesOf(visit)
	if r.value != nil {
		r.value.sourcesOf(visit)
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
func (d *decoder) checkValue(r *rule) {
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
		case r.value.source == "everybody":
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
