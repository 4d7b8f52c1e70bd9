package core

import (
	"context"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// settle ends the charges of q with the backends that made them.
//
// The functions of the user may end the goroutine. So each step is deferred before the
// one that comes first.
func (l *ledger) settle(q *request, result Result) {
	defer l.forget(q)
	defer l.reportUnchanged(q)
	defer l.settleLocal(q)
	defer l.settleFallback(q)
	defer l.settlePrimary(q)
	for i := range q.taken {
		if t := &q.taken[i]; t.rule.finalCost != nil {
			t.final = t.cost
		}
	}
	for i := range q.taken {
		t := &q.taken[i]
		t.final = t.finalCost(result)
	}
}

func (l *ledger) settlePrimary(q *request) { l.send(l.primary, q, (*taken).endWithPrimary) }

func (l *ledger) settleFallback(q *request) {
	for i := range q.taken {
		if t := &q.taken[i]; t.heldByFallback || t.source == limits.SourceFallback {
			l.send(l.fallback(), q, (*taken).endWithFallback)
			return
		}
	}
}

func (l *ledger) settleLocal(q *request) {
	if local := l.local.Load(); local != nil {
		l.settleIn(local, q, 0, (*taken).endWithLocal)
	}
}

// reportUnchanged reports the charges that have cost what they were estimated at.
func (l *ledger) reportUnchanged(q *request) {
	if l.observe == nil {
		return
	}
	for i := range q.taken {
		if t := &q.taken[i]; t.final == t.cost && t.rule.finalCost != nil {
			l.report(t, limits.Settlement{})
		}
	}
}

// due says what a backend has to do at the end of a charge.
type due uint8

const (
	nothingDue due = iota
	dueAlso        // another backend's settlement is the one to report
	dueAndReported
)

func (t *taken) endWithPrimary() (int64, due) {
	if t.held || (t.source == limits.SourcePrimary || t.source == limits.SourceLease) && t.final != t.cost {
		return t.ticket, dueAndReported
	}
	return 0, nothingDue
}

func (t *taken) endWithFallback() (int64, due) {
	switch {
	case t.heldByFallback && t.held:
		return t.fallbackTicket, dueAlso
	case t.heldByFallback:
		return t.fallbackTicket, dueAndReported
	case t.source == limits.SourceFallback && t.rule.finalCost != nil && t.final != t.cost:
		return t.ticket, dueAndReported
	}
	return 0, nothingDue
}

func (t *taken) endWithLocal() (int64, due) {
	if t.source == limits.SourceLocal && (t.rule.finalCost == nil || t.final != t.cost) {
		return t.ticket, dueAndReported
	}
	return 0, nothingDue
}

// send has a backend end what ending says that it has to.
func (l *ledger) send(to *settling, q *request, ending func(*taken) (int64, due)) {
	if to.memory != nil {
		l.settleIn(to.memory, q, 0, ending)
		return
	}
	var endings []limits.Ending
	var reports []*taken
	for i := range q.taken {
		t := &q.taken[i]
		ticket, due := ending(t)
		if due == nothingDue {
			continue
		}
		endings = append(endings, limits.Ending{})
		t.ending(&endings[len(endings)-1], ticket)
		if due == dueAlso {
			t = nil
		}
		reports = append(reports, t)
	}
	if len(endings) > 0 {
		q.sentAway = q.sentAway || to.Remote()
		l.sendAway(to, endings, reports)
	}
}

// settleIn is send for a Memory, from the i-th charge on: one by one, so that nothing is
// allocated.
func (l *ledger) settleIn(m *memory.Memory, q *request, i int, ending func(*taken) (int64, due)) {
	var endings [1]limits.Ending
	var out [1]limits.Settlement
	for ; i < len(q.taken); i++ {
		t := &q.taken[i]
		ticket, due := ending(t)
		if due == nothingDue {
			continue
		}
		t.ending(&endings[0], ticket)
		_ = m.Settle(context.Background(), endings[:], out[:]) // it fails for no ending of its own
		if due == dueAndReported && l.observe != nil {
			l.reportAndSettleIn(m, q, i, ending, out[0])
			return
		}
	}
}

// reportAndSettleIn reports the i-th charge and settles the others, though the observer may
// end the goroutine.
func (l *ledger) reportAndSettleIn(m *memory.Memory, q *request, i int, ending func(*taken) (int64, due), s limits.Settlement) {
	defer l.settleIn(m, q, i+1, ending)
	l.report(&q.taken[i], s)
}

// ending sets e to what t has to end.
func (t *taken) ending(e *limits.Ending, ticket int64) {
	e.Scope, e.Key, e.Limit = t.rule.scope, t.key, t.limit.Value()
	e.Taken, e.Final, e.Ticket, e.Lasts = t.cost, t.final, ticket, t.rule.lasts
}

// sendAway is send for a backend that is not a Memory itself. It does not report the ending of
// reports[i] if that is nil.
func (l *ledger) sendAway(to *settling, endings []limits.Ending, reports []*taken) {
	to.Send(endings, func(i int, s limits.Settlement) {
		if reports[i] != nil {
			l.report(reports[i], s)
		}
	})
}

// report tells the observer what became of t. A panic of the observer is dropped: the
// request is over, and others may wait for the goroutine.
func (l *ledger) report(t *taken, s limits.Settlement) {
	if l.observe == nil {
		return
	}
	s.Rule, s.Scope, s.Taken, s.Final = t.rule.name, t.rule.scope, t.cost, t.final
	defer func() { _ = recover() }()
	l.observe(s)
}
