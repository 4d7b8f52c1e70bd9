package core

import (
	"context"
	"errors"
	"unique"
)

// survive decides the charges of s after the backend failed with err, as the
// rules' OnFailure say: if any fails closed the request is, and nothing is
// taken; otherwise the fallback decides those that fall back, together, and the
// others are open.
func (l *Limiter[R]) survive(ctx context.Context, err error, s *scratch, o *Outcome) {
	o.err = errors.Join(o.err, err)
	local := 0
	for _, at := range s.charged[:s.used] {
		switch l.policy(o, at) {
		case FailClosed:
			l.close(FailClosed, s, o)
			return
		case FallBack:
			local++
		}
	}
	o.settle(SourceOpen, s)
	if local == 0 {
		return
	}
	if err := l.fallBack(ctx, s, o); err != nil {
		if o.abandonIfEnded(ctx) {
			return
		}
		o.err = errors.Join(o.err, err)
		l.close(FallBack, s, o)
	}
}

// policy returns the OnFailure of the at-th rule of o.
func (l *Limiter[R]) policy(o *Outcome, at int) Failure {
	return l.rules[o.at(at).rule.index].OnFailure
}

// close makes o unavailable because of the rules whose OnFailure is why. The
// other rules that have no answer yet get none.
func (l *Limiter[R]) close(why Failure, s *scratch, o *Outcome) {
	o.verdict = Unavailable
	for _, at := range s.charged[:s.used] {
		if l.policy(o, at) == why {
			o.at(at).Decision = uncounted(SourceClosed)
		} else {
			o.at(at).Decision = uncounted(SourceNotAsked)
		}
	}
}

// fallBack takes the charges of the rules that fall back from the fallback.
func (l *Limiter[R]) fallBack(ctx context.Context, s *scratch, o *Outcome) error {
	n := 0
	for i, at := range s.charged[:s.used] {
		if l.policy(o, at) != FallBack {
			continue
		}
		ch := s.charges[i]
		ch.Limit = ch.Limit.Share(l.instances)
		s.charges[n], s.charged[n] = ch, at
		n++
	}
	clear(s.charges[n:s.used])
	s.used = n
	if err := take(ctx, l.fallback(), s.charges[:n], s.decisions[:n]); err != nil {
		return err
	}
	for i, at := range s.charged[:n] {
		d := &s.decisions[i]
		d.Source = SourceFallback
		o.at(at).limit = unique.Make(s.charges[i].Limit)
		o.answer(at, d)
	}
	return nil
}
