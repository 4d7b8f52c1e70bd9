package limitstest

import (
	"math/big"
	"slices"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// The model of endings: the end of a request edits the history of its key, and the usage is
// computed again from that history (DESIGN 12). A refund makes a taking smaller. A charge above the
// estimate is one more taking, whether it fits or not.
//
// An example: 10 a minute in a sliding log. At 0 s a request takes 6, at 20 s another takes 3. At
// 30 s the first ends, having cost 2. The history is edited to 2 at 0 s and 3 at 20 s, so 5 are in
// use.

// ticket identifies the charges of one call on one account: the enforced ones, or the shadows.
type ticket struct {
	call   int64
	shadow bool
}

func (t ticket) number() int64 {
	if t.shadow {
		return t.call<<1 | 1
	}
	return t.call << 1
}

func ticketOf(number int64) ticket { return ticket{number >> 1, number&1 == 1} }

// event is a taking in the history of a key.
type event struct {
	ticket
	at    int64
	units *big.Rat // less what was returned
	limit limits.Limit
	extra bool // a charge above an estimate

	edited bool // a part was returned
}

func (e event) equal(f event) bool {
	return e.ticket == f.ticket && e.at == f.at && e.limit == f.limit && e.extra == f.extra &&
		e.units.Cmp(f.units) == 0
}

// remembering returns u, the usage that the charge c made of found, with c in its history. A key
// has no history until a charge has an end.
func (u usage) remembering(found usage, c backends.Charge, e event) usage {
	u.base, u.events = nil, nil
	switch {
	case c.Limit.Algorithm().Holds():
		u.held[len(u.held)-1].ticket = e.ticket
	case c.Lasts == 0 && len(found.events) == 0:
	default:
		base := found.base
		if base == nil {
			base = &found
		}
		u.base, u.events = base, append(slices.Clone(found.events), e)
	}
	return u
}

// with returns u as it would be if its history had been events.
func (u usage) with(events []event) usage {
	r := *u.base
	for i, e := range events {
		r.limit = e.limit
		r = r.model().again(r, e)
		r.events = events[:i+1]
	}
	r.limit, r.change, r.base, r.events = u.limit, u.change, u.base, events
	return r
}

// owing returns u after n units above an estimate were charged at instant x, whether they fit or
// not.
func (u usage) owing(x, n int64) usage { return u.model().owing(u, x, n) }

// mayOwe returns how many units above estimates u may still be charged at instant x: a key owes at
// most the maximum, and a bucket drains within 100 years.
func (u usage) mayOwe(x int64) int64 { return u.model().mayOwe(u, x) }

// settle carries out an ending exactly, and returns its settlement.
func (l ledger) settle(now int64, e backends.Ending, t ticket) limits.Settlement {
	a := account{e.Scope, e.Key, countedBy(e.Limit)}
	switch {
	case e.Final == e.Taken || e.Final < 0 || e.Taken < 0:
		return limits.Settlement{}
	case a.counted == unitsHeld && e.Lends > 0:
		return limits.Settlement{Returned: l.takeBack(now, a, e)}
	case a.counted == unitsHeld:
		l.hold(a, e, t)
		return limits.Settlement{Returned: max(0, e.Taken-e.Final), Charged: max(0, e.Final-e.Taken)}
	case a.counted == distinctValues && e.Final > 0:
		return limits.Settlement{Forgiven: max(0, e.Final-e.Taken)}
	case a.counted == distinctValues:
		return limits.Settlement{Returned: l.forget(now, a, e, t)}
	case e.Final > e.Taken:
		n := l.charge(now, a, e)
		return limits.Settlement{Charged: n, Forgiven: e.Final - e.Taken - n}
	}
	before := l[a]
	_, most := l.refundable(now, a, e, t)
	if most > 0 {
		l.refund(now, a, t, new(big.Rat).SetInt64(most))
	}
	return limits.Settlement{Returned: returned(before, l[a], now, e.Taken-e.Final)}
}

// returned returns how many of n units a refund that made after of before has returned: how many
// units fewer are in use now.
func returned(before, after usage, now, n int64) int64 {
	if before.limit == (limits.Limit{}) {
		return 0
	}
	x := max(now, before.at)
	return min(n, before.inUse(x)-after.inUse(x))
}

// charge charges units above the estimate and returns how many.
func (l ledger) charge(now int64, a account, e backends.Ending) int64 {
	before := l[a].limit
	if u, ok := l[a]; ok && u.rebasedBy(e.Limit, now).at != u.at {
		l[a] = u.rebasedBy(e.Limit, now)
	}
	if l[a].limit != before || l[a].livesUnderAnother(e.Limit, now) {
		return 0 // a conversion could undo later takings
	}
	u, x := l[a].foundBy(e.Limit, now)
	found := u
	n := min(e.Final-e.Taken, u.mayOwe(x))
	if n == 0 {
		return 0
	}
	c := backends.Charge{Limit: e.Limit, Cost: n, Lasts: e.Lasts}
	l[a] = u.owing(x, n).remembering(found, c,
		event{ticket{}, x, new(big.Rat).SetInt64(n), e.Limit, true, false}).keeping(found)
	return n
}

// livesUnderAnother reports whether a charge of l would have to convert units of u.
func (u usage) livesUnderAnother(l limits.Limit, now int64) bool {
	if u.limit == (limits.Limit{}) || u.isFresh(now) || u.carriesTo(l, now) {
		return false
	}
	found, x := u.foundBy(l, now)
	return found.inUse(x) > 0
}

// find returns the index of the charge t in the history of u, or −1.
func (u usage) find(t ticket) int {
	return slices.IndexFunc(u.events, func(e event) bool { return e.ticket == t && t != ticket{} })
}

// without returns u as if units of its i-th event had never been taken.
func (u usage) without(i int, units *big.Rat) usage {
	events := slices.Clone(u.events)
	events[i].units, events[i].edited = new(big.Rat).Sub(events[i].units, units), true
	return u.with(events)
}

// refund takes units of the charge t out of the history of a.
func (l ledger) refund(now int64, a account, t ticket, units *big.Rat) {
	u := l[a]
	i := u.find(t)
	if i < 0 {
		return
	}
	l[a] = u.model().returned(u, i, units, now)
}

// refundable returns how many units a backend must take out of the history of a key at the end of a
// charge, and how many it may. [returned] says how many units the key then gets back.
func (l ledger) refundable(now int64, a account, e backends.Ending, t ticket) (least, most int64) {
	u := l[a]
	i := u.find(t)
	if i < 0 || u.isUnused(now) || !sameCounting(u.limit, e.Limit) {
		return 0, 0
	}
	return u.model().refundable(u, i, e, max(now, u.at))
}

// withoutUnits returns events with no units left in the i-th.
func withoutUnits(events []event, i int) []event {
	events = slices.Clone(events)
	events[i].units = new(big.Rat)
	return events
}
