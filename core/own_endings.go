package core

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/call"
	"github.com/weir-go/weir/internal/endings"
	"github.com/weir-go/weir/limits"
)

// ownEndingsWait is how long a denied request waits for endings of its key that this process has
// not had answered.
const ownEndingsWait = 50 * time.Millisecond

// ownEndings returns the endings of this process, of the keys of charges, that the backend has
// not answered. They are noted before the charges are taken: an ending that is answered while
// the denial is on its way would be missed afterwards.
func (l *ruleSet[R]) ownEndings(charges []limits.Charge) []endings.Awaited {
	if l.endings == nil {
		return nil
	}
	return l.endings.primary.Pending(charges)
}

// takeAfter asks once more where a key is denied that has had endings of this process: a client
// that sends one request after the other must not be denied by its own last one. It waits for
// their answers, for ownEndingsWait at most.
func (l *ruleSet[R]) takeAfter(
	ctx context.Context, own []endings.Awaited, charges []limits.Charge, decisions []limits.Decision,
) error {
	own = slices.DeleteFunc(own, func(a endings.Awaited) bool { return decisions[a.Charge].Allowed })
	if len(own) == 0 {
		return nil
	}
	timer := time.NewTimer(ownEndingsWait)
	defer timer.Stop()
	l.endings.primary.Await(ctx, timer.C, own)
	return call.Take(ctx, l.backend, charges, decisions)
}
