package redisbackend

import (
	"context"
	"errors"
	"fmt"
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
	form     string // the same for requests that are alike but for their keys
	charges  []any  // the arguments of take.lua for each key
	hasLogs  bool
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
	a.keys, a.charges, a.form = a.keys[:0], a.charges[:0], formOf(accounts, mode)
	a.width, a.weight, a.hasLogs = 0, 0, false
	for i := range accounts {
		a.keys = append(a.keys, accounts[i].name)
		a.charges = append(a.charges, accounts[i].limit.text, accounts[i].units())
		a.hasLogs = a.hasLogs || accounts[i].Limit.Algorithm() == limits.AlgorithmSlidingLog
		a.width += accounts[i].width()
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
	clear(a.charges)
	clear(a.accounts)
	*a = ask{keys: a.keys[:0], charges: a.charges[:0], accounts: a.accounts[:0], spans: a.spans[:0], done: a.done}
}

// batchKey is equal for equal requests: they charge the same accounts, by the same limits,
// the same units. A call decides them together.
type batchKey struct {
	form, name string
	rest       string // the other names
	instant    int64
}

func (a *ask) batchKey() batchKey {
	s := batchKey{form: a.form, name: a.keys[0], instant: a.instant}
	if len(a.keys) > 1 {
		s.rest = fmt.Sprintf("%q", a.keys[1:])
	}
	return s
}

// isOrdinary reports whether a call for a alone need not say more than what it charges.
func (a *ask) isOrdinary() bool { return a.mode == modeTake && a.instant == 0 && !a.hasLogs }

// clockArgument returns the first argument of take.lua.
func clockArgument(instant int64, hasLogs bool) any {
	if instant != 0 {
		return instant
	} else if hasLogs {
		return "apart"
	}
	return "server"
}

// appendCharges appends the arguments for the keys of a, and of others that are alike. Their units of
// concurrency limits are named.
func (a *ask) appendCharges(to []any, alike []*ask) []any {
	to = append(to, a.charges...)
	if a.holds == nil {
		return to
	}
	span := 0
	for i := range a.keys {
		if !a.isHeld(i) {
			continue
		}
		units := &to[len(to)-len(a.charges)+2*i+1]
		text := fmt.Append(nil, *units, "#")
		for _, other := range alike {
			text = other.holds.appendID(text, other.spans[span].first)
		}
		*units = text
		span++
	}
	return to
}

// isHeld reports whether the units of the i-th key are of a concurrency limit.
func (a *ask) isHeld(i int) bool {
	return a.charges[2*i].(string)[1] == algorithms[limits.AlgorithmConcurrent]
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
