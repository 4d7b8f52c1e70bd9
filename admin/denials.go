package admin

import (
	"slices"
	"time"

	"github.com/weir-go/weir/stats"
)

type denialView struct {
	At              int64
	Limiter, Rule   string
	Kind, Key, ID   string
	Limit, Source   string
	Cost, Remaining int64
	RetryAfter      int64
}

const maxDenials = 256

// viewDenials returns the latest denials of all limiters, latest first.
func (p *page) viewDenials(now time.Time) any {
	type denial struct {
		limiter string
		*stats.Denial
	}
	var denials []denial
	shot := p.sources.Stats.Snapshot()
	for i := range shot.Limiters {
		l := &shot.Limiters[i]
		for j := range l.Denials {
			denials = append(denials, denial{l.Name, &l.Denials[j]})
		}
	}
	names := make(map[ruleKey]string)
	for name, limiter := range p.sources.Limiters {
		for _, r := range limiter.State().Rules {
			names[ruleKey{name, r.Name}] = r.KeyName
		}
	}
	slices.SortStableFunc(denials, func(a, b denial) int { return b.At.Compare(a.At) })
	views := []denialView{}
	// only these get ids, since ids of others would displace them
	for _, d := range denials[:min(maxDenials, len(denials))] {
		id := p.rowID(row{d.limiter, d.Rule, d.Key, d.Limit}, d.Cut, now)
		kind, key := p.mask.show(d.Key, names[ruleKey{d.limiter, d.Rule}])
		views = append(views, denialView{
			millis(d.At), d.limiter, d.Rule, kind, key, id, limitText(d.Limit), d.Source.String(),
			d.Cost, d.Remaining, micros(d.RetryAfter),
		})
	}
	return views
}

// rowID returns the id of a row. It returns "" if the page cannot change the row: its key was cut,
// or its limiter is not in Sources.
func (p *page) rowID(r row, cut bool, now time.Time) string {
	if cut || p.sources.Limiters[r.limiter] == nil {
		return ""
	}
	return p.rows.id(r, now)
}
