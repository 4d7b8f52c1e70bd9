package breaker

import (
	"errors"

	"github.com/weir-go/weir/core"
)

// What [Breaker.Take] and [Breaker.Peek] return besides errors of the backend and
// of the caller's context. No key is in their text.
var (
	// ErrOpen: the backend was not asked, since it has kept failing.
	ErrOpen = errors.New("breaker: open: the backend has kept failing and is given time to recover: the report that it is degraded says why")

	// ErrBudget: there was no answer within the time budget. A client that dials
	// a dead server again and again ends like this too.
	ErrBudget = errors.New("breaker: no answer within the time budget: see whether the backend can be reached at all, look for slow commands on it and for losses on the way to it, or raise Options.Budget")

	// ErrBusy: the backend was not asked, since as many calls as may be are
	// under way.
	ErrBusy = errors.New("breaker: too many calls are under way: the backend is slow, or Options.MaxCalls is too low for this load")
)

var (
	errLengths = errors.New("breaker: charges and decisions differ in length")
	errExited  = errors.New("breaker: the backend ended its goroutine by runtime.Goexit instead of answering")

	// errUncounted tells the circuit that a call was neither a failure nor a
	// success.
	errUncounted = errors.New("breaker: not counted")
)

// mistaken reports whether charges are wrong for any backend, see
// [core.Backend].
func mistaken(charges []core.Charge) bool {
	for i := range charges {
		ch := &charges[i]
		if ch.Cost < 0 || ch.Limit.Validate() != nil {
			return true
		}
		for j := range charges[:i] {
			other := &charges[j]
			if other.Scope == ch.Scope && other.Key == ch.Key && other.Limit != ch.Limit {
				return true
			}
		}
	}
	return false
}
