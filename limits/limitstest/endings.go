package limitstest

import (
	"math"
	"math/big"
	"slices"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// What a request has come to is an edit of the history of its key. A refund makes a
// taking smaller, and the usage is what the takings then lead to. A charge beyond the
// estimate is one more taking, which nobody asks whether it fits (DESIGN 12).

// ticket names the charges of a call on one account: those enforced, or those in shadow.
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

// hold is units of a concurrency limit that are held.
type hold struct {
	ticket
	units int64
}

// units is how many units are held.
func (u usage) units() int64 {
	sum := int64(0)
	for _, h := range u.held {
		sum += h.units
	}
	return sum
}

// event is a taking that a key remembers.
type event struct {
	ticket
	at    int64
	units *big.Rat // what is left of them
	limit limits.Limit
	extra bool // charged at the end of a request

	edited bool // a part was returned
}

func (e event) equal(f event) bool {
	return e.ticket == f.ticket && e.at == f.at && e.limit == f.limit && e.extra == f.extra && e.units.Cmp(f.units) == 0
}

// remembering is u, which a charge c left of found, with the charge in its history. A
// key without charges that have an end has no history.
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

// with is u if its history had been events.
func (u usage) with(events []event) usage {
	r := *u.base
	for i, e := range events {
		r.limit = e.limit
		switch n := floor(e.units); {
		case isBucket(e.limit):
			r = usage{limit: e.limit, at: e.at, level: new(big.Rat).Add(r.levelAt(e.at), e.units)}
		case n == 0 && e.limit.Algorithm() == limits.AlgorithmSlidingLog: // what had left by then has left
			r.takings = slices.DeleteFunc(slices.Clone(r.takings), func(t taking) bool { return t.at+micros(e.limit) <= e.at })
		case e.extra:
			r = r.owing(e.at, n)
		default:
			r = r.plus(e.at, n)
		}
		r.events = events[:i+1]
	}
	r.limit, r.change, r.base, r.events = u.limit, u.change, u.base, events
	return r
}

// owing is u after n units were charged at instant x at the end of a request, whether they
// fit or not. At the turn of a window, what is above the maximum because
// of such charges is carried.
func (u usage) owing(x, n int64) usage {
	after := u.plus(x, n)
	switch u.limit.Algorithm() {
	case limits.AlgorithmFixedWindow, limits.AlgorithmAnchoredWindow, limits.AlgorithmCalendar:
		after.debt = max(0, min(after.curr-u.limit.Burst(), after.debt+n))
	}
	return after
}

// mayOwe is how many more units u may be charged at instant x under its limit: a key owes
// at most the maximum, and a bucket drains within 100 years.
func (u usage) mayOwe(x int64) int64 {
	most := u.limit.Burst()
	switch {
	case isBucket(u.limit):
		century := ratio(u.limit.Rate().Units, micros(u.limit), 36_525*day.Microseconds())
		limit := new(big.Rat).SetInt64(2 * most)
		if century.Cmp(limit) < 0 {
			limit = century
		}
		return max(0, floor(limit.Sub(limit, u.levelAt(x))))
	case u.until != 0:
		return 0
	case u.limit.Algorithm() == limits.AlgorithmBan:
		return max(0, 2*most-u.curr)
	}
	return max(0, 2*most-u.inUse(x))
}

// settle ends a charge as exactly as can be, and returns what became of it.
func (l ledger) settle(now int64, e backends.Ending, t ticket) limits.Settlement {
	a := account{e.Scope, e.Key, e.Limit.Algorithm().Holds()}
	switch {
	case e.Final == e.Taken || e.Final < 0 || e.Taken < 0:
		return limits.Settlement{}
	case a.held:
		l.hold(a, e, t)
		return limits.Settlement{Returned: max(0, e.Taken-e.Final), Charged: max(0, e.Final-e.Taken)}
	case e.Final > e.Taken:
		n := l.charge(now, a, e)
		return limits.Settlement{Charged: n, Forgiven: e.Final - e.Taken - n}
	}
	before := l[a]
	_, most := l.refundable(now, a, e, t)
	if most > 0 {
		l.refund(a, t, new(big.Rat).SetInt64(most))
	}
	return limits.Settlement{Returned: returned(before, l[a], now, e.Taken-e.Final)}
}

// returned is how many of n units a refund has returned, which made a usage of another: how
// many fewer are in use now.
func returned(before, after usage, now, n int64) int64 {
	if before.limit == (limits.Limit{}) {
		return 0
	}
	x := max(now, before.at)
	return min(n, before.inUse(x)-after.inUse(x))
}

// hold changes how many units are held under a ticket.
func (l ledger) hold(a account, e backends.Ending, t ticket) {
	u := l[a]
	u.limit, u.held = e.Limit, append(slices.Clone(u.held), hold{ticket: t})
	i := slices.IndexFunc(u.held, func(h hold) bool { return h.ticket == t })
	u.held[i].units += e.Final - e.Taken
	u.held = slices.DeleteFunc(u.held, func(h hold) bool { return h.units <= 0 })
	l[a] = u
}

// charge charges units beyond the estimate and returns how many.
func (l ledger) charge(now int64, a account, e backends.Ending) int64 {
	before := l[a].limit
	if u, ok := l[a]; ok && u.rebasedBy(e.Limit, now).at != u.at {
		l[a] = u.rebasedBy(e.Limit, now)
	}
	if l[a].limit != before || l[a].livesUnderAnother(e.Limit, now) {
		return 0 // what was taken since must not be undone
	}
	u, x := l[a].foundBy(e.Limit, now)
	found := u
	n := min(e.Final-e.Taken, u.mayOwe(x))
	if n == 0 {
		return 0
	}
	c := backends.Charge{Limit: e.Limit, Cost: n, Lasts: e.Lasts}
	l[a] = u.owing(x, n).remembering(found, c, event{ticket{}, x, new(big.Rat).SetInt64(n), e.Limit, true, false}).keeping(found)
	return n
}

// livesUnderAnother reports whether u would have to be converted to l.
func (u usage) livesUnderAnother(l limits.Limit, now int64) bool {
	if u.limit == (limits.Limit{}) || u.isFresh(now) || u.carriesTo(l, now) {
		return false
	}
	return u.leavesNothingTo(l) || u.hasChange(now) || u.inUse(max(now, u.at)) > 0
}

// find returns the charge t in the history of u, −1 if u does not remember it.
func (u usage) find(t ticket) int {
	return slices.IndexFunc(u.events, func(e event) bool { return e.ticket == t && t != ticket{} })
}

// without is u as if units of a charge had never been taken.
func (u usage) without(i int, units *big.Rat) usage {
	events := slices.Clone(u.events)
	events[i].units, events[i].edited = new(big.Rat).Sub(events[i].units, units), true
	return u.with(events)
}

// refund takes units of a charge out of the history of a.
func (l ledger) refund(a account, t ticket, units *big.Rat) {
	u := l[a]
	i := u.find(t)
	if i < 0 {
		return
	}
	u = u.without(i, units)
	if u.limit.Algorithm() == limits.AlgorithmBan && u.curr == 0 {
		u = fresh(u.limit, u.at)
	}
	l[a] = u
}

// refundable is how many units a backend has to take out of the history of a key at the end
// of a charge, and how many it may. Whether the key then has as many back is for [returned].
func (l ledger) refundable(now int64, a account, e backends.Ending, t ticket) (least, most int64) {
	u := l[a]
	i, n := u.find(t), e.Taken-e.Final
	if i < 0 || u.isUnused(now) || !sameCounting(u.limit, e.Limit) {
		return 0, 0
	}
	x, p, taken := max(now, u.at), micros(u.limit), u.events[i]
	switch u.limit.Algorithm() {
	case limits.AlgorithmFixedWindow, limits.AlgorithmCalendar:
		if windowStart(taken.at, u.limit) == u.at { // that of the last taking, which may have left a debt
			return n, n
		}
		return 0, 0
	case limits.AlgorithmAnchoredWindow:
		switch opener := taken.at == u.at; {
		case taken.at < u.at: // the window before
			return 0, 0
		case opener && e.Final == 0 && u.curr > n:
			// The window of the others would have opened later. If they were taken at the
			// same instant it would not.
			if u.with(withoutUnits(u.events, i)).at == u.at {
				return 0, n
			}
			return 0, 0
		}
		return n, n
	case limits.AlgorithmSlidingWindow:
		if u.at-windowStart(taken.at, u.limit) <= p {
			return n, n
		}
		return 0, 0
	case limits.AlgorithmSlidingLog:
		if x < taken.at+p {
			return n, n
		}
		return 0, 0
	case limits.AlgorithmBan:
		if u.curr >= math.MaxUint32 { // as far as a backend has to count
			return 0, n
		}
		return n, n
	case limits.AlgorithmLeakyQueue:
		behind := func(e event) bool { return !e.extra && e.call != t.call && e.units.Sign() > 0 }
		if slices.ContainsFunc(u.events[i+1:], behind) {
			return 0, 0 // they have been told when their turn is
		}
	}
	if taken.at == u.at && len(u.events) == i+1 && !taken.edited {
		return n, n
	}
	return 0, n
}

// withoutUnits is events with nothing left of one.
func withoutUnits(events []event, i int) []event {
	events = slices.Clone(events)
	events[i].units = new(big.Rat)
	return events
}
