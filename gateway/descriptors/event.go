package descriptors

import "github.com/weir-go/weir/limits"

// Event is what a request comes to, for traces and logs. Its texts are those of the file and of
// weir: it has no value of the request, so it may leave the process.
type Event struct {
	Domain string // "": no file has that of the request
	Rule   string // that binds, as in metrics, such as tenant.path_/orders*; "": none has matched

	// Over says that limits deny the request. Shadowed says that they do not, and that one with
	// shadow_mode is exceeded.
	Over, Shadowed bool

	// Source says who decided for the rule that binds. It is SourceNotAsked if nothing was counted.
	Source limits.Source

	// Err is that of Decide. The fields above, except Domain, then say nothing.
	Err error
}

// tell sets e to what d is, whose answer is a. The rule that binds is one that is over, or has least
// left.
func tell(e *Event, d *decision, a *Answer) {
	binds := -1
	for i := range d.planned {
		if d.planned[i].rule == nil {
			continue
		}
		if binds < 0 || tellsMore(&a.Statuses[i], &a.Statuses[binds]) {
			binds = i
		}
	}
	e.Over, e.Source = a.Over, limits.SourceNotAsked
	if binds < 0 {
		return
	}
	p, status := &d.planned[binds], &a.Statuses[binds]
	e.Rule, e.Shadowed = p.rule.path, status.Shadowed && !a.Over
	switch a.Source {
	case Fallback:
		e.Source = limits.SourceFallback
	case Open:
		e.Source = limits.SourceOpen
	case Backend:
		for j := p.first; j < p.end; j++ {
			if p.override != nil || &p.limits[j-p.first].shown == status.Limit {
				e.Source = d.out[j].Source
			}
		}
	}
}

// tellsMore reports whether s, rather than t, is what a request came to: it is over, or exceeded as a
// shadow, or its limit binds.
func tellsMore(s, t *Status) bool {
	if a, b := rank(s), rank(t); a != b {
		return a > b
	}
	return s.Binds(t)
}

func rank(s *Status) int {
	switch {
	case s.Over:
		return 3
	case s.Shadowed:
		return 2
	case s.Limit != nil:
		return 1
	}
	return 0
}
