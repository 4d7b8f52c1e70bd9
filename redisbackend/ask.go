package redisbackend

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/list"
	"github.com/weir-go/weir/limits"
)

// ask is a question: what one caller wants one server to decide in one step. The call
// that sends it reads keys, args and ctx, and no other memory of the caller.
type ask struct {
	ctx      context.Context
	keys     []string
	args     []any
	mode     mode
	instant  int64
	accounts []account // a copy, once it waits
	width    int       // numbers in a reply, without the instant
	weight   int       // how many keys it counts as in a call

	done    chan struct{} // receives once the fields below are set
	now     int64         // the instant at which it was decided
	numbers []any
	err     error

	// Of asks that charge concurrency limits:
	holds *holds // nil: it charges none
	spans []span // one for each
	fate  atomic.Int32

	deniedBy int // 1 + the index of the account that denyWaiting denied it by; 0: none

	// Guarded by the mutex of the lane.
	bundle     *bundle // that it waits in; nil: it does not wait
	node       list.Node[*ask]
	sent, left bool
}

// prepare sets the question: these accounts, in this mode.
func (a *ask) prepare(ctx context.Context, b *Backend, accounts []account, mode mode, instant int64) {
	a.ctx, a.mode, a.instant = ctx, mode, instant
	a.keys, a.args = b.arguments(accounts, mode, instant, a.keys[:0], a.args[:0])
	a.width, a.weight = 0, 0
	for i := range accounts {
		a.width += accounts[i].width(mode)
		a.weight += accounts[i].weight()
		if mode != modePeek && accounts[i].isConcurrent() {
			a.holds = b.holds
			a.spans = append(a.spans, span{accounts[i].name, accounts[i].ticket, accounts[i].held()})
		}
	}
	if a.done == nil {
		a.done = make(chan struct{}, 1)
	}
}

// reset empties a for reuse. No call may use it any more.
func (a *ask) reset() {
	clear(a.keys)
	clear(a.args)
	clear(a.accounts)
	*a = ask{keys: a.keys[:0], args: a.args[:0], accounts: a.accounts[:0], spans: a.spans[:0], done: a.done}
}

// batchKey is equal for equal requests: they charge the same accounts, by the same limits,
// the same units. A call decides them together.
type batchKey struct {
	name             string
	limit            limits.Limit
	enforced, shadow int64
	enforces         bool
	shadows          bool
	settles          bool
	lasts            int64
	instant          int64
	rest             string // the other accounts
}

func batchKeyOf(accounts []account, instant int64) batchKey {
	first := &accounts[0]
	s := batchKey{
		name: first.name, limit: first.limit.limit,
		enforced: first.Enforced, shadow: first.Shadow, enforces: first.enforces, shadows: first.HasShadow,
		settles: first.settles, lasts: first.lasts,
		instant: instant,
	}
	if len(accounts) > 1 {
		s.rest = string(appendCharges(nil, accounts[1:]))
	}
	return s
}

// The wait for a reply ends with ctx, unless this process runs late: if it has more
// goroutines to run than time, it does not read its replies. While it runs late and
// other replies come in, the wait goes on, for as long as a call may take.
const (
	lateEnough = 5 * time.Millisecond // for a goroutine that is ready to run
	slice      = 50 * time.Millisecond
)

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

// behind reports whether ctx ended because this process runs late, not because the server
// is slow.
func (l *lane) behind(ctx context.Context, since time.Time) bool {
	return l.late.excuses(ctx, since, func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answeredAt
	})
}

// errBusy is part of the error of a request that waited for too long while the server
// answered others in time. That is load, not a failure of the server.
var errBusy = errors.New("too many requests wait for the server, which answers others in time: raise the time budget or the PoolSize of the client, or wait until its connections are made")
