package core

import (
	"context"
	"errors"
	"time"
)

// takeWithLocal has the charges of s decided: those of Local rules first, by the memory
// of this process, and if it allows them the others by the backend. If these do not let
// the request go on, the local units are returned.
func (l *ruleSet[R]) takeWithLocal(ctx context.Context, s *scratch, o *Outcome) {
	local := s.local
	charges, decisions := local.charges[:local.used], local.decisions[:local.used]
	if err := take(ctx, l.local, charges, decisions); err != nil {
		l.unavailable(err, s, o)
		return
	}
	for i, at := range local.charged[:local.used] {
		decisions[i].Source = SourceLocal
		o.answer(at, &decisions[i])
	}
	if o.verdict != Allowed {
		o.markAll(SourceNotAsked, s)
		return
	}
	if s.used == 0 {
		return
	}
	returned := false
	defer func() { // a panic must not keep the units
		if !returned || o.verdict != Allowed {
			l.returnLocal(charges, decisions)
		}
	}()
	l.take(ctx, s, o)
	returned = true
}

// unavailable makes o unavailable because the memory of this process failed with err: its
// charges are wrong.
func (l *ruleSet[R]) unavailable(err error, s *scratch, o *Outcome) {
	o.verdict, o.err = Unavailable, errors.Join(o.err, err)
	o.markAll(SourceClosed, s.local)
	o.markAll(SourceNotAsked, s)
}

// returnLocal returns what the memory of this process has taken for a request that does
// not go on.
func (l *ruleSet[R]) returnLocal(charges []Charge, decisions []Decision) {
	endings := make([]Ending, 0, len(charges))
	for i := range charges {
		ch := &charges[i]
		if ch.Cost > 0 && decisions[i].Allowed {
			endings = append(endings, Ending{
				Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Taken: ch.Cost,
				Ticket: decisions[i].Ticket, Lasts: ch.Lasts,
			})
		}
	}
	_ = l.local.Settle(context.Background(), endings, make([]Settlement, len(endings)))
}

// askNobody records that no charge of s was asked for.
func (l *ruleSet[R]) askNobody(s *scratch, o *Outcome) {
	o.markAll(SourceNotAsked, s)
	if s.local != nil {
		o.markAll(SourceNotAsked, s.local)
	}
}

// takeAfterOwnEndings asks again where charges are denied whose keys have endings of this
// process that the backend has not answered: a client that sends one request after the
// other must not be denied by its own last one. It goes on for ownEndingsWait at most.
func (l *ruleSet[R]) takeAfterOwnEndings(ctx context.Context, charges []Charge, decisions []Decision) error {
	l.endings.adopt()
	sender := l.endings.primary.sender
	if sender == nil {
		return nil
	}
	pending := sender.pending(charges, decisions)
	if pending == nil {
		return nil
	}
	timer := time.NewTimer(ownEndingsWait)
	defer timer.Stop()
	for pending != nil {
		answered := sender.await(ctx, timer.C, pending)
		if err := take(ctx, l.backend, charges, decisions); err != nil || !answered {
			return err
		}
		pending = sender.pending(charges, decisions)
	}
	return nil
}
