package headers

import (
	"slices"

	"github.com/weir-go/weir/core"
)

// hide marks the policies with the given names.
func (w *Writer) hide(names []string) {
	for i := range w.policies {
		w.policies[i].hidden = slices.Contains(names, w.policies[i].name)
		w.hides = w.hides || w.policies[i].hidden
	}
}

// isHidden reports whether [Options].Hidden names the rule of d.
func (w *Writer) isHidden(d *core.RuleDecision) bool {
	p := w.policy(d)
	return p != nil && p.hidden
}

// binding returns the index of the binding decision among those that the fields show, in the order
// of [core.Outcome.BindingRule], or -1 if they show none.
func (w *Writer) binding(o *core.Outcome) int {
	if !w.hides {
		return o.BindingRule()
	}
	binding := -1
	for i := range o.Len() {
		if d := o.At(i); w.shows(d) && (binding < 0 || d.Binds(o.At(binding))) {
			binding = i
		}
	}
	return binding
}
