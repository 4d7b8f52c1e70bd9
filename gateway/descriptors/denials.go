package descriptors

import (
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

// denials are the denials that the denial cache of a backend remembers, so that a key over its
// limit asks the backend no more until its wait is over.
//
// A window by unit denies nothing that a request may charge. Of one that is over its limit, the
// cache has the denial of a charge for the whole window, which says how much of it is used. Until
// the window ends no less is used, unless units are returned, and then the cache forgets the key.
// So it is over any limit that is lower, whatever the hits of a request.
type denials struct {
	cache *remote.DenialCache // nil: the backend remembers none, as a Memory
}

func denialsOf(b backends.Backend) denials {
	cache, _ := backends.As[*remote.DenialCache](b)
	return denials{cache}
}

// recall sets the decisions of the charges that are over by what is remembered, and reports whether
// these are all. failing says that the backend has just failed.
func (m denials) recall(d *decision, failing bool) (all bool) {
	if !m.serve(d) {
		return false
	}
	all = true
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end; j++ {
			if !d.known[j] {
				ch := m.question(d, p, j)
				d.known[j] = m.cache.Recall(&ch, &d.out[j], failing) && d.isOver(p, j)
			}
			all = all && d.known[j]
		}
	}
	return all
}

// remember keeps which charges are over, by the answers to a question that was sent at the instant
// sent.
func (m denials) remember(d *decision, sent time.Time) {
	if !m.serve(d) {
		return
	}
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end; j++ {
			if d.known[j] || !d.isOver(p, j) {
				continue
			}
			ch, denial := m.question(d, p, j), d.out[j]
			if l := &p.limits[j-p.first]; !l.native {
				rest := min(denial.ResetAfter, untilEnd(l, denial.At))
				denial = limits.Decision{
					Source: denial.Source, At: denial.At, Remaining: denial.Remaining,
					RetryAfter: rest, ResetAfter: rest, EffectiveWindow: rest, Transient: denial.Transient,
				}
			}
			m.cache.Remember(&ch, &denial, sent)
		}
	}
}

// serve reports whether what is remembered may answer charges of d. Those that are all or nothing
// the cache answers by itself, and units that are refunded or lent have to reach the backend.
func (m denials) serve(d *decision) bool {
	if m.cache == nil || d.domain.allOrNothing || lends(d.charges) {
		return false
	}
	for i := range d.planned {
		if d.planned[i].refund {
			return false
		}
	}
	return true
}

// question returns the charge whose denial says that the j-th charge of d, one of p, is over.
func (m denials) question(d *decision, p *planned, j int) backends.Charge {
	ch := d.charges[j]
	if !p.limits[j-p.first].native {
		ch.Cost = windowUnits
	}
	return ch
}
