package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
)

// ask is what one caller wants one server to decide in one step. Whoever sends it
// reads keys, args and ctx, and nothing else of the caller's.
type ask struct {
	ctx      context.Context
	keys     []string
	args     []any
	mode     mode
	instant  int64
	accounts []account // of one that waits
	width    int       // numbers in a reply, without the instant
	weight   int       // what it counts for in a call

	done    chan struct{} // holds one, once what follows is there
	now     int64         // the instant at which it was decided
	numbers []any
	err     error

	refusedBy int // the account that denied it as it denied another, from 1; 0: none

	// Guarded by the lane's lock.
	crowd      *crowd // it waits in; nil: it does not wait
	place      link[*ask]
	sent, left bool
}

// prepare makes a the question about accounts.
func (a *ask) prepare(ctx context.Context, b *Backend, accounts []account, mode mode, instant int64) {
	a.ctx, a.mode, a.instant = ctx, mode, instant
	a.keys, a.args = b.arguments(accounts, mode, instant, a.keys[:0], a.args[:0])
	a.width, a.weight = 0, 0
	for i := range accounts {
		a.width += accounts[i].width(mode)
		a.weight += accounts[i].weight()
	}
	if a.done == nil {
		a.done = make(chan struct{}, 1)
	}
}

// reset leaves nothing of a but its memory. Nobody else may know it any more.
func (a *ask) reset() {
	clear(a.keys)
	clear(a.args)
	clear(a.accounts)
	*a = ask{keys: a.keys[:0], args: a.args[:0], accounts: a.accounts[:0], done: a.done}
}

// sameness is what requests have in common that can be decided together: each
// taking all of the other's accounts by the same limits for as many units.
type sameness struct {
	name             string
	limit            core.Limit
	enforced, shadow int64
	shadows          bool
	instant          int64
	rest             string // the other accounts
}

func samenessOf(accounts []account, instant int64) sameness {
	first := &accounts[0]
	s := sameness{
		name: first.name, limit: first.limit.limit,
		enforced: first.Enforced, shadow: first.Shadow, shadows: first.HasShadow,
		instant: instant,
	}
	if len(accounts) > 1 {
		var rest []byte
		for i := range accounts[1:] {
			a := &accounts[1+i]
			rest = fmt.Appendf(rest, "%d %s %v %v;", len(a.name), a.name, a.limit.text, a.units())
		}
		s.rest = string(rest)
	}
	return s
}

// Waiting for a reply ends with ctx, unless it is this process that is late: one with
// more goroutines to run than it has time for does not read its replies. So while
// it is, and replies do come in, the wait goes on, for no longer than a call lasts.
const (
	lateEnough = 5 * time.Millisecond // for a goroutine that is ready to run
	slice      = 50 * time.Millisecond
)

// wait waits for the answer to a, which l has been given at the instant since. It
// reports whether a has come back: otherwise l still has it.
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

// behind reports whether ctx ended because this process runs late, and not because
// of the server.
func (l *lane) behind(ctx context.Context, since time.Time) bool {
	return l.late.excuses(ctx, since, func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answeredAt
	})
}

// errBusy is part of the error of a request that had to wait for too long while the
// server answered others in time: that is load, and no fault.
var errBusy = errors.New("the server answers others: too much waits for it at once, or its connections are still being made")
