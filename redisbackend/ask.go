package redisbackend

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/list"
	"github.com/weir-go/weir/limits"
)

// ask is a question: what one caller wants one server to decide in one step. A call may still read
// and answer it after its caller has left; then it is not used again.
type ask struct {
	ctx      context.Context
	accounts []account
	mode     mode
	form     string // the same for requests that are alike but for their keys
	hasLogs  bool
	width    int // numbers in its reply
	weight   int // how many keys it counts as in a call

	done    chan struct{} // receives once the fields below are set
	now     int64         // the instant at which it was decided
	numbers []int64
	err     error
	// See denyWaiting: one plus the index of the account that denied it, and the denial.
	deniedBy int
	denial   limits.Decision

	// Of asks that charge concurrency limits:
	holds *holds // nil: it charges none
	spans []span // one for each
	fate  atomic.Int32

	// Guarded by the mutex of the lane.
	queue    *list.List[*ask] // that it waits in; nil: it does not wait
	queuedAt time.Time
	node     list.Node[*ask]
}

// prepare sets the question: these accounts, in this mode.
func (a *ask) prepare(ctx context.Context, b *Backend, accounts []account, mode mode) {
	a.ctx, a.accounts, a.mode, a.form = ctx, accounts, mode, formOf(accounts, mode)
	a.width, a.weight, a.hasLogs = 0, 0, false
	for i := range accounts {
		of := &accounts[i]
		a.hasLogs = a.hasLogs || of.Limit.Algorithm() == limits.AlgorithmSlidingLog
		a.width += of.width()
		a.weight += of.weight()
		if !mode.peeks && of.isConcurrent() {
			a.holds = b.holds
			a.spans = append(a.spans, span{of.name, of.ticket, of.held()})
		}
	}
	if a.done == nil {
		a.done = make(chan struct{}, 1)
	}
	a.node.Of = a
}

// reset empties a for reuse. No call may use it any more.
func (a *ask) reset() {
	*a = ask{numbers: a.numbers[:0], spans: a.spans[:0], done: a.done}
}

// answer gives a its decision, or the error. The caller owns a again.
func (a *ask) answer(err error) {
	if a.holds != nil {
		a.keepOrRelease(err == nil && a.deniedBy == 0 && !isDenied(a.accounts, a.numbers), err)
	}
	a.err = err
	a.done <- struct{}{}
}

// wait waits for the answer to a, which was submitted to l at the instant since. It reports
// whether the caller owns a again: otherwise a call still uses it.
func (a *ask) wait(ctx context.Context, l *lane, since time.Time) (back bool, err error) {
	select {
	case <-a.done:
		return true, a.err
	case <-ctx.Done():
	}
	for l.behind(ctx, since) {
		timer := time.NewTimer(slice)
		select {
		case <-a.done:
			timer.Stop()
			return true, a.err
		case <-timer.C:
		}
	}
	return l.withdraw(a, ctx, since)
}

// errBusy is part of the error of a request that waited for too long while the server
// answered others in time. That is load, not a failure of the server.
var errBusy = errors.New("too many requests wait for the server, which answers others in time: raise the time budget or the PoolSize of the client, or wait until its connections are made")
