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

func (l *ledger) settlePrimary(q *request) { l.send(l.primary, q, limits.SourcePrimary) }

// settleFallback also releases the units that the fallback holds though it did not decide.
func (l *ledger) settleFallback(q *request) {
	decided := false
	for i := range q.taken {
		t := &q.taken[i]
		decided = decided || t.source == limits.SourceFallback
		if l.mirrors(t) {
			l.mirror(t, t.cost, 0)
		}
	}
	if decided {
		l.send(l.fallback(), q, limits.SourceFallback)
	}
}

func (l *ledger) settleLocal(q *request) {
	if local := l.local.Load(); local != nil {
		l.settleIn(local, q, 0, limits.SourceLocal)
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

// endsWith reports whether t has something to end with the backend that is the source of
// its decision.
func (t *taken) endsWith(source limits.Source) bool {
	return t.source == source && (t.rule.finalCost == nil || t.final != t.cost)
}

// send has a backend end what it has decided.
func (l *ledger) send(to *settling, q *request, source limits.Source) {
	if to.memory != nil {
		l.settleIn(to.memory, q, 0, source)
		return
	}
	var endings []limits.Ending
	var of []*taken
	for i := range q.taken {
		if t := &q.taken[i]; t.endsWith(source) {
			endings = append(endings, limits.Ending{})
			t.ending(&endings[len(endings)-1])
			of = append(of, t)
		}
	}
	if len(endings) > 0 {
		q.sentAway = q.sentAway || to.Remote()
		to.Send(endings, func(i int, s limits.Settlement) { l.report(of[i], s) })
	}
}

// settleIn is send for a Memory, from the i-th charge on: one by one, so that nothing is
// allocated.
func (l *ledger) settleIn(m *memory.Memory, q *request, i int, source limits.Source) {
	var endings [1]limits.Ending
	var out [1]limits.Settlement
	for ; i < len(q.taken); i++ {
		t := &q.taken[i]
		if !t.endsWith(source) {
			continue
		}
		t.ending(&endings[0])
		_ = m.Settle(context.Background(), endings[:], out[:]) // it fails for no ending of its own
		if l.observe != nil {
			l.reportAndSettleIn(m, q, i, source, out[0])
			return
		}
	}
}

// reportAndSettleIn reports the i-th charge and settles the others, though the observer may
// end the goroutine.
func (l *ledger) reportAndSettleIn(m *memory.Memory, q *request, i int, source limits.Source, s limits.Settlement) {
	defer l.settleIn(m, q, i+1, source)
	l.report(&q.taken[i], s)
}

// ending sets e to what t has to end.
func (t *taken) ending(e *limits.Ending) {
	e.Scope, e.Key, e.Limit = t.rule.scope, t.key, t.limit.Value()
	e.Taken, e.Final, e.Ticket, e.Lasts = t.cost, t.final, t.ticket, t.rule.lasts
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
