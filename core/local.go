package core

import (
	"context"
	"errors"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// takeWithLocal decides Local rules first, by the memory of this process. If they allow, the
// backend decides the other rules. If these do not allow the request, the local units are returned.
func (l *ruleSet[R]) takeWithLocal(ctx context.Context, s *scratch, o *Outcome) {
	local := s.local
	charges, decisions := local.charges[:local.used], local.decisions[:local.used]
	clear(decisions)
	if err := l.local.Take(ctx, charges, decisions); err != nil {
		l.unavailable(err, s, o)
		return
	}
	for i, at := range local.charged[:local.used] {
		decisions[i].Source = limits.SourceLocal
		o.record(at, &decisions[i])
	}
	if o.verdict != Allowed {
		o.markAll(limits.SourceNotAsked, s)
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

// unavailable makes o unavailable because the memory of this process refused the charges with err.
func (l *ruleSet[R]) unavailable(err error, s *scratch, o *Outcome) {
	o.verdict, o.err = Unavailable, errors.Join(o.err, &failure.Error{Part: failure.Backend, Err: err})
	o.markAll(limits.SourceClosed, s.local)
	o.markAll(limits.SourceNotAsked, s)
}

// returnLocal returns the units that the memory of this process took for a request that was not
// allowed.
func (l *ruleSet[R]) returnLocal(charges []backends.Charge, decisions []limits.Decision) {
	endings := make([]backends.Ending, 0, len(charges))
	for i := range charges {
		ch := &charges[i]
		if ch.Cost > 0 && decisions[i].Allowed {
			endings = append(endings, call.ReturnOf(ch, &decisions[i]))
		}
	}
	_ = l.local.Settle(context.Background(), endings, make([]limits.Settlement, len(endings)))
}
