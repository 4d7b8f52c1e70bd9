package breaker

import (
	"errors"
	"slices"

	"github.com/weir-go/weir/limits"
)

// Errors that [Breaker.Take] and [Breaker.Peek] return, besides those of the backend
// and of the caller's context. Their texts contain no key.
var (
	// ErrOpen means that the backend was not called because it keeps failing. The
	// report that the backend is degraded has the failure that opened the breaker.
	ErrOpen = errors.New("breaker: open: the backend keeps failing")

	// ErrBudget means that the backend did not answer within the time budget. A client
	// that dials a dead server again and again fails with it too. Check that the
	// backend can be reached; look for slow commands on it and for packet loss on the
	// way to it; or raise [Options].Budget.
	ErrBudget = errors.New("breaker: no answer within the time budget")

	// ErrBusy means that the backend was not called because there are too many calls
	// under way. The backend is slow, or [Options].MaxCalls is too low for the load.
	ErrBusy = errors.New("breaker: too many calls under way")
)

var (
	errLengths = errors.New("breaker: the numbers of charges and decisions differ")
	errExited  = errors.New("breaker: the backend called runtime.Goexit instead of answering")

	// errUncounted tells the circuit to count a call neither as a failure nor as a
	// success.
	errUncounted = errors.New("breaker: not counted")
)

// areInvalid reports whether charges are wrong for any backend, by the rules of
// [limits.Backend].
func areInvalid(charges []limits.Charge) bool {
	accounts, _, err := limits.Accounts(charges, nil, nil)
	return err != nil || slices.ContainsFunc(accounts, func(a limits.Account) bool { return a.Limit.Validate() != nil })
}
