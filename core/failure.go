package core

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/internal/ground/perbackend"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// decideWithoutBackend decides the charges of s by each rule's OnFailure, after the backend failed
// with err. If a rule fails closed, the request is unavailable and takes nothing. Otherwise the
// fallback decides the rules that fall back, in one step, and the other rules allow.
func (l *ruleSet[R]) decideWithoutBackend(ctx context.Context, err error, s *scratch, o *Outcome) {
	o.err = errors.Join(o.err, &failure.Error{Part: failure.Backend, Err: err})
	local := 0
	for _, at := range s.charged[:s.used] {
		switch policy(o, at) {
		case FailClosed:
			if o.At(at).rule.mode == Enforce {
				l.makeUnavailable(FailClosed, s, o)
				return
			}
		case FallBack:
			local++
		}
	}
	l.markWithoutBackend(s, o)
	if local == 0 {
		return
	}
	if err := l.fallBack(ctx, s, o); err != nil {
		if o.abandonIfEnded(ctx) {
			return
		}
		o.err = errors.Join(o.err, &failure.Error{Part: failure.Fallback, Err: err})
		l.makeUnavailable(FallBack, s, o)
	}
}

// policy returns the OnFailure of rule at of o.
func policy(o *Outcome, at int) FailurePolicy { return o.At(at).rule.onFailure }

// markWithoutBackend records the decisions of the rules that do not fall back. The rules that fail
// closed here are shadows.
func (l *ruleSet[R]) markWithoutBackend(s *scratch, o *Outcome) {
	for _, at := range s.charged[:s.used] {
		source := limits.SourceOpen
		if policy(o, at) == FailClosed {
			source = limits.SourceClosed
		}
		o.At(at).Decision = uncounted(source)
	}
}

// makeUnavailable makes o unavailable because of the rules of s whose OnFailure is why, and marks
// the other rules of s SourceNotAsked. If all rules whose OnFailure is why are shadows, it marks
// only these.
//
// After a failure of the fallback, s has only the rules that fall back. So rules that fail open
// stay SourceOpen: they would have allowed the request.
func (l *ruleSet[R]) makeUnavailable(why FailurePolicy, s *scratch, o *Outcome) {
	charged := s.charged[:s.used]
	for _, at := range charged {
		if answered := o.At(at); policy(o, at) == why {
			answered.Decision = uncounted(limits.SourceClosed)
			if answered.rule.mode == Enforce {
				o.verdict = Unavailable
			}
		}
	}
	if o.verdict != Unavailable {
		return
	}
	for _, at := range charged {
		if policy(o, at) != why {
			o.At(at).Decision = uncounted(limits.SourceNotAsked)
		}
	}
}

// fallBack asks the fallback to decide the charges of the rules that fall back.
func (l *ruleSet[R]) fallBack(ctx context.Context, s *scratch, o *Outcome) error {
	counted, err := call.Instances(l.backend)
	if err != nil {
		return err
	}
	instances, n := max(l.instances, counted), 0
	for i, at := range s.charged[:s.used] {
		if policy(o, at) != FallBack {
			continue
		}
		ch := s.charges[i]
		ch.Limit = ch.Limit.Share(instances)
		s.charges[n], s.charged[n] = ch, at
		n++
	}
	clear(s.charges[n:s.used])
	s.used = n
	if err := call.Take(ctx, l.fallback(), s.charges[:n], s.decisions[:n]); err != nil {
		return err
	}
	for i, at := range s.charged[:n] {
		d := &s.decisions[i]
		d.Source = limits.SourceFallback
		o.At(at).limit = intern(&s.charges[i].Limit)
		o.record(at, d)
	}
	return nil
}

// fallbacks has the default fallback of each backend. All limiters on the backend share it, so
// rules of one scope count together also while the backend fails.
var fallbacks = perbackend.Shared[*fallback]{New: func() *fallback { return new(fallback) }}

// fallback makes its Memory when it is first used.
type fallback struct {
	once   sync.Once
	memory *memory.Memory
}

func (f *fallback) backend() backends.Backend {
	f.once.Do(func() { f.memory = memory.MustNew(memory.Options{}) })
	return f.memory
}
