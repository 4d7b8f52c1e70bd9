package descriptors

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/turns"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// decision is a request while it is decided.
type decision struct {
	domain  *domain
	planned []planned
	charges []backends.Charge
	out     []limits.Decision
	known   []bool // by charge: the decision is remembered, so no backend is asked
	key     []byte
	sharing int64 // among how many processes the limits are divided

	// of the charges that are asked for, while others are known
	asked []backends.Charge
	got   []limits.Decision
}

// planned is a descriptor while it is decided.
type planned struct {
	rule       *rule     // nil: nothing is counted
	override   *Override // nil: the limits are those of the rule
	limits     []limit
	unlimited  bool
	hits       int64
	refund     bool
	first, end int  // its charges
	isWeighted bool // hits are units of a budget

	holder    string // of units of limits in flight
	hasHolder bool
	lands     bool   // it returns units of limits in flight, and charges nothing
	key       string // of these
}

var decisions = sync.Pool{New: func() any { return new(decision) }}

// release returns d for other requests, without what is theirs.
func (d *decision) release() {
	clear(d.planned)
	clear(d.charges)
	clear(d.out)
	clear(d.known)
	clear(d.asked)
	clear(d.got)
	d.domain, d.planned, d.charges, d.out, d.key = nil, d.planned[:0], d.charges[:0], d.out[:0], d.key[:0]
	d.known, d.asked, d.got = d.known[:0], d.asked[:0], d.got[:0]
	if cap(d.charges) <= maxDescriptors {
		decisions.Put(d)
	}
}

// plan finds the rules of r, and what they charge. A descriptor that is invalid charges nothing;
// plan returns how many there are, and the error of the first.
func (d *decision) plan(r *Request) (n int, invalid error) {
	var replaced []string
	for i := range r.Descriptors {
		p, err := d.planOne(r, i)
		if err != nil {
			n++
			invalid = cmp.Or(invalid, err)
		}
		if p.rule != nil {
			replaced = append(replaced, p.rule.replaces...)
		}
		d.planned = append(d.planned, p)
	}
	if replaced != nil {
		d.remove(replaced)
	}
	d.setCosts()
	d.out = slices.Grow(d.out[:0], len(d.charges))[:len(d.charges)]
	d.known = slices.Grow(d.known[:0], len(d.charges))[:len(d.charges)]
	return n, invalid
}

// planOne finds the rule of the i-th descriptor of r, and appends what it charges.
func (d *decision) planOne(r *Request, i int) (planned, error) {
	one := &r.Descriptors[i]
	if err := one.validate(d.domain, i); err != nil {
		return planned{}, err
	}
	p := planned{override: one.Limit, hits: r.hits(one), refund: one.Refund}
	var n *node
	var entries []Entry
	entries, p.holder, p.hasHolder = d.domain.withoutHolder(one.Entries)
	n, d.key = d.domain.match(d.key[:0], entries, one.Limit != nil)
	if n != nil && n.rule != nil && n.rule.price != nil {
		entries, p.isWeighted = entries[:n.rule.depth], true
		_, d.key = d.domain.match(d.key[:0], entries, true)
		p.hits = n.rule.price.cost(p.hits, p.refund, time.Now())
	}
	switch {
	case one.Limit != nil:
		p.rule = &d.domain.overrides[one.Limit.Unit]
		p.limits = d.domain.limitsOf(one, entries, n)
	case n != nil && n.rule != nil:
		p.rule, p.limits, p.unlimited = n.rule, n.rule.limits, n.rule.unlimited
	}
	if p.refund && slices.ContainsFunc(p.limits, func(l limit) bool { return l.lends > 0 }) {
		p.lands, p.key = true, bounded(d.key)
		return p, nil
	}
	if p.refund && slices.ContainsFunc(p.limits, func(l limit) bool { return l.native }) {
		return planned{}, invalidf("descriptor %d cannot be refunded: its limit is not by unit", i)
	}
	d.charge(&p)
	return p, nil
}

// charge appends a charge for each limit of p.
func (d *decision) charge(p *planned) {
	p.first, p.end = len(d.charges), len(d.charges)
	if len(p.limits) == 0 {
		return
	}
	key := bounded(d.key)
	for j := range p.limits {
		l := &p.limits[j]
		d.charges = append(d.charges, backends.Charge{
			Scope: l.scope, Key: key, Limit: l.limit,
			Shadow: l.native && (!d.domain.allOrNothing || p.rule.shadow),
			Lends:  l.lends,
		})
	}
	p.end = len(d.charges)
}

// remove leaves out the charges of rules that others replace.
func (d *decision) remove(names []string) {
	kept := d.charges[:0]
	for i := range d.planned {
		p := &d.planned[i]
		if p.rule != nil && !p.unlimited && p.rule.name != "" && slices.Contains(names, p.rule.name) {
			p.rule, p.first, p.end = nil, 0, 0
			continue
		}
		first := len(kept)
		kept = append(kept, d.charges[p.first:p.end]...)
		p.first, p.end = first, len(kept)
	}
	clear(d.charges[len(kept):])
	d.charges = kept
}

// setCosts sets what is charged: to a window by unit at most maxCharge, which has room in
// every window that is not over.
func (d *decision) setCosts() {
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end; j++ {
			ch, l := &d.charges[j], &p.limits[j-p.first]
			switch {
			case p.refund:
				ch.Cost, ch.Lasts = 1, time.Second // by which Settle knows the window
			case !l.native:
				ch.Cost = min(p.hits, maxCharge-d.before(j))
			case l.shown.RequestsPerUnit == 0:
				ch.Cost = 2 // the limit is 1: nothing fits
			default:
				ch.Cost = p.hits
			}
		}
	}
}

// before returns how much the charges before the j-th one charge the same window.
func (d *decision) before(j int) (units int64) {
	for i := range d.charges[:j] {
		if d.same(i, j) {
			units += d.charges[i].Cost
		}
	}
	return units
}

// same reports whether two charges are of one window.
func (d *decision) same(i, j int) bool {
	return d.charges[i].Key == d.charges[j].Key && d.charges[i].Scope == d.charges[j].Scope
}

// share divides the limits among n processes, for a fallback.
func (d *decision) share(n int64) {
	d.sharing = n
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end; j++ {
			if p.limits[j-p.first].native {
				d.charges[j].Limit = d.charges[j].Limit.Share(int(n))
			}
		}
	}
}

// take charges a backend in one step. If a limit with an algorithm is charged twice, each
// charge takes a step of its own: the second may be denied alone.
func (d *decision) take(ctx context.Context, b backends.Backend) error {
	if d.isTwice() {
		for i := range d.charges {
			if err := d.ask(ctx, b, i, i+1); err != nil {
				return err
			}
		}
		d.alignSteps()
		return nil
	}
	if err := d.ask(ctx, b, 0, len(d.charges)); err != nil {
		return err
	}
	if d.domain.allOrNothing || !d.isStuck() {
		return nil
	}
	for i := range d.charges { // one window has no room: the others are charged without it
		d.charges[i].Shadow = true
	}
	return d.ask(ctx, b, 0, len(d.charges))
}

// ask has b decide the charges from first to end, without those that are known.
func (d *decision) ask(ctx context.Context, b backends.Backend, first, end int) error {
	if !slices.Contains(d.known[first:end], true) {
		return call.Take(ctx, b, d.charges[first:end], d.out[first:end])
	}
	d.asked = d.asked[:0]
	for i := first; i < end; i++ {
		if !d.known[i] {
			d.asked = append(d.asked, d.charges[i])
		}
	}
	if len(d.asked) == 0 {
		return nil
	}
	d.got = slices.Grow(d.got[:0], len(d.asked))[:len(d.asked)]
	if err := call.Take(ctx, b, d.asked, d.got); err != nil {
		return err
	}
	next := 0
	for i := first; i < end; i++ {
		if !d.known[i] {
			d.out[i] = d.got[next]
			next++
		}
	}
	return nil
}

// alignSteps subtracts from what each step left of a window by unit what the later steps took of
// it. One step for all charges reports the same.
func (d *decision) alignSteps() {
	for i := range d.planned {
		p := &d.planned[i]
		for j := p.first; j < p.end; j++ {
			for k := j + 1; k < len(d.charges) && d.out[j].Allowed; k++ {
				if !p.limits[j-p.first].native && d.same(j, k) && d.out[k].Allowed {
					d.out[j].Remaining -= d.charges[k].Cost
				}
			}
		}
	}
}

// isStuck reports whether a window by unit took nothing, since its charge did not fit.
func (d *decision) isStuck() bool {
	for i := range d.charges {
		if !d.charges[i].Shadow && !d.out[i].Allowed && !d.known[i] {
			return true
		}
	}
	return false
}

// isTwice reports whether a limit with an algorithm is charged twice, and not all or nothing.
func (d *decision) isTwice() bool {
	if d.domain.allOrNothing {
		return false
	}
	for j := range d.charges {
		for i := range j {
			if d.charges[j].Shadow && d.same(i, j) {
				return true
			}
		}
	}
	return false
}

// conclude sets the statuses of a, and what they come to.
func (d *decision) conclude(a *Answer) {
	others, quotas, quotasOver := false, 0, 0
	for i := range d.planned {
		p, status := &d.planned[i], &a.Statuses[i]
		switch {
		case p.unlimited:
			status.Unlimited, status.Remaining = true, math.MaxUint32
			continue
		case p.rule == nil || a.Source == Open:
			continue
		}
		d.status(p, status)
		if status.Over && p.rule.shadow {
			status.Over, status.Shadowed = false, true
		}
		switch {
		case p.rule.quota:
			quotas++
			if status.Over {
				quotasOver++
			}
		case status.Over:
			others = true
		}
		if !status.Over && p.rule.metadata != nil {
			a.Metadata = merge(a.Metadata, p.rule.metadata)
		}
	}
	a.Over = others || quotas > 0 && quotas == quotasOver
}

// merge returns a with what b has and a lacks. Neither is modified.
func merge(a, b map[string]any) map[string]any {
	if a == nil {
		return b
	}
	both := make(map[string]any, len(a)+len(b))
	for k, v := range a {
		both[k] = v
	}
	for k, v := range b {
		before, twice := both[k]
		m, ok := before.(map[string]any)
		n, alike := v.(map[string]any)
		switch {
		case !twice:
			both[k] = v
		case ok && alike:
			both[k] = merge(m, n)
		}
	}
	return both
}

// status sets what a descriptor comes to: of several limits, what the one says that binds.
func (d *decision) status(p *planned, status *Status) {
	for j := p.first; j < p.end; j++ {
		if one := d.statusOf(p, j); status.Limit == nil || one.Limit != nil && one.Binds(status) {
			*status = one
		}
	}
}

// Binds reports whether s, rather than t, says when a client may come again or how much is
// left: it is over and t is not, or for longer, or it has less left.
func (s *Status) Binds(t *Status) bool {
	switch {
	case s.Over != t.Over:
		return s.Over
	case s.Over:
		return s.Reset > t.Reset
	}
	return s.Remaining < t.Remaining
}

// statusOf returns what the j-th charge, one of p, comes to. It has no limit if the backend was not
// asked, because it remembers the denial of another charge.
func (d *decision) statusOf(p *planned, j int) Status {
	if d.out[j].Source == limits.SourceNotAsked {
		return Status{}
	}
	l := &p.limits[j-p.first]
	s := Status{Limit: &l.shown}
	if p.override != nil {
		s.Limit = &Limit{
			RequestsPerUnit: p.override.RequestsPerUnit, Unit: p.override.Unit, Multiplier: p.override.Multiplier,
		}
	}
	if l.native {
		s.decided(&d.out[j], p.hits)
		return s
	}
	most := d.mostOf(p, l)
	used := d.usedBefore(j)
	if !p.refund {
		used += p.hits
	}
	s.Over = used > most
	s.Remaining = uint32(max(0, most-used))
	s.Reset = untilTurn(l, d.out[j].At)
	if d.known[j] { // another process may have announced it, whose clock tells another window
		s.Reset = inSeconds(d.out[j].RetryAfter)
	}
	return s
}

// decided sets what the decision of a native limit comes to.
func (s *Status) decided(d *limits.Decision, hits int64) {
	s.Over = !d.Allowed || hits == 0 && d.Remaining == 0
	switch {
	case !s.Over:
		s.Remaining = uint32(min(d.Remaining, math.MaxUint32))
		s.Reset = inSeconds(d.ResetAfter)
	case d.Allowed && d.EffectiveWindow != limits.Never:
		s.Reset = inSeconds(d.EffectiveWindow)
	case !d.Allowed && d.RetryAfter != limits.Never:
		s.Reset = inSeconds(d.RetryAfter)
	}
}

// denial describes the denial of the j-th charge, one of p.
func (d *decision) denial(p *planned, j int) turns.Denial {
	l, ch, out := &p.limits[j-p.first], &d.charges[j], &d.out[j]
	denial := turns.Denial{
		Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, At: out.At, Wait: out.RetryAfter,
	}
	for i := range d.charges {
		if d.same(i, j) && !d.isRefund(i) {
			denial.Cost += d.charges[i].Cost
		}
	}
	switch {
	case l.native && out.Allowed: // it asks without hits
		denial.Wait = out.EffectiveWindow
	case l.native:
	default:
		denial.Wait = limits.Never
		if most := d.mostOf(p, l); most > 0 && denial.Cost <= most {
			_, end, _ := ch.Limit.Window(time.UnixMicro(out.At))
			denial.Limit, denial.Wait = ch.Limit.WithUnits(most), end.Sub(time.UnixMicro(out.At))
		}
	}
	return denial
}

// mostOf returns how many units a window of l, a limit of p by unit, has.
func (d *decision) mostOf(p *planned, l *limit) int64 {
	units := l.shown.RequestsPerUnit
	if p.override != nil {
		units = p.override.RequestsPerUnit
	}
	return (min(int64(units), maxRequests) + d.sharing - 1) / d.sharing
}

// isOver reports whether the j-th charge, one of p, was denied, or left its window by unit above the
// limit.
func (d *decision) isOver(p *planned, j int) bool {
	if l := &p.limits[j-p.first]; !l.native {
		return windowUnits-d.out[j].Remaining > d.mostOf(p, l)
	}
	return !d.out[j].Allowed
}

// usedBefore returns how many units of its window were used before the j-th charge. Remaining
// is what all charges of the request have left of it, or what it had if there was no room.
func (d *decision) usedBefore(j int) int64 {
	used := windowUnits - d.out[j].Remaining
	if !d.out[j].Allowed {
		return used
	}
	for k := j; k < len(d.charges); k++ {
		if d.same(j, k) && d.out[k].Allowed && !d.isRefund(k) {
			used -= d.charges[k].Cost
		}
	}
	return used
}

// isRefund reports whether the descriptor of the k-th charge is refunded.
func (d *decision) isRefund(k int) bool { return d.charges[k].Lasts > 0 }

// untilTurn returns the wait until the window by unit turns, in whole seconds.
func untilTurn(l *limit, at int64) time.Duration { return inSeconds(untilEnd(l, at)) }

// untilEnd returns the wait until the window by unit ends.
func untilEnd(l *limit, at int64) time.Duration {
	if l.limit.Period() != "" {
		_, end, _ := l.limit.Window(time.UnixMicro(at))
		return end.Sub(time.UnixMicro(at))
	}
	period := l.limit.Rate().Period
	return period - time.Duration(at)*time.Microsecond%period
}

// inSeconds rounds a wait up to whole seconds.
func inSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
