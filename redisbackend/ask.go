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
	ctx     context.Context
	keys    []string
	args    []any
	mode    mode
	instant int64
	width   int // numbers in a reply, without the instant

	done    chan struct{} // holds one, once what follows is there
	now     int64         // the instant at which it was decided
	numbers []any
	err     error

	// Guarded by the lane's lock.
	crowd      *crowd // it waits in; nil: it does not wait
	prev, next *ask   // in the crowd
	sent, left bool
}

// prepare makes a the question about accounts.
func (a *ask) prepare(ctx context.Context, b *Backend, accounts []account, mode mode, instant int64) {
	a.ctx, a.mode, a.instant = ctx, mode, instant
	a.keys, a.args = b.arguments(accounts, mode, instant, a.keys[:0], a.args[:0])
	a.width = 0
	for i := range accounts {
		a.width += accounts[i].width(mode)
	}
	if a.done == nil {
		a.done = make(chan struct{}, 1)
	}
}

// reset leaves nothing of a but its memory. Nobody else may know it any more.
func (a *ask) reset() {
	clear(a.keys)
	clear(a.args)
	*a = ask{keys: a.keys[:0], args: a.args[:0], done: a.done}
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
		enforced: first.enforced, shadow: first.shadow, shadows: first.shadows,
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

// Waiting for a reply ends with ctx. Where that is noticed late, the process did
// not run, and a reply may be there that it had no time to read: so the wait goes
// on for a multiple of the delay, within limits.
const (
	lateEnough = time.Millisecond // what timers are late on a machine that is not loaded
	lateFactor = 20
)

// wait waits for the answer to a, which l has been given at the instant since. It
// reports whether a has come back: otherwise l still has it. Once ctx has ended it
// waits for as long again as it is told to.
func (a *ask) wait(ctx context.Context, l *lane, since time.Time, again time.Duration) (back bool, err error) {
	select {
	case <-a.done:
		return true, a.err
	case <-ctx.Done():
	}
	if more := max(again, l.overtime(ctx, since)); more > 0 {
		timer := time.NewTimer(more)
		defer timer.Stop()
		select {
		case <-a.done:
			return true, a.err
		case <-timer.C:
		}
	}
	return l.withdraw(a, ctx, since)
}

// overtime returns for how much longer to wait since ctx ended.
func (l *lane) overtime(ctx context.Context, since time.Time) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok || ctx.Err() != context.DeadlineExceeded {
		return 0 // the caller has left
	}
	if now := time.Now(); now.Sub(deadline) >= lateEnough {
		l.late.note(now, now.Sub(deadline))
	}
	now := l.late.measure()
	more := l.late.recent(now)
	if more == 0 {
		return 0
	}
	most := max(0, callTimeout-now.Sub(since)) // no answer comes later
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answeredAt.After(since) {
		return most + callTimeout // its own call comes after theirs
	}
	return min(more, most)
}

// errBusy is part of the error of a request that had to wait for too long while the
// server answered others in time: that is load, and no fault.
var errBusy = errors.New("the server answers others: too much waits for it at once, or its connections are still being made")
