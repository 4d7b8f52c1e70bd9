package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ask is the job that decides what one caller charges on one server. A call may still read and answer
// it after its caller has left; then its memory is not used again.
type ask struct {
	job
	backend  *Bare
	accounts []account
	hasLogs  bool
	states   int // the numbers of its reply up to the end of states
	waits    int // and up to the end of waits; serials follow
	mode     mode
	done     chan struct{} // receives once it is answered, if its caller waits

	// Set before it is answered, unless there is an error.
	allowed bool
	results []result // of the accounts

	spans []span // of the units that it may come to hold, one for each concurrency limit
}

// prepare sets what to ask: these accounts, in this mode.
func (a *ask) prepare(ctx context.Context, b *Bare, accounts []account, mode mode) {
	a.backend, a.accounts, a.mode = b, accounts, mode
	a.ctx, a.script, a.priority, a.owner = ctx, &takeScript, taking, a
	a.form, a.instant, a.width = formOf(accounts, mode), mode.instant, 1
	waits, serials := 0, 0
	for i := range accounts {
		of := &accounts[i]
		a.hasLogs = a.hasLogs || of.limit.Lists
		a.width += of.limit.width
		waits += of.waits()
		if of.settles {
			serials++
		}
		a.weight += of.weight()
		a.keys = append(a.keys, of.name)
		if !mode.peeks && of.limit.Held {
			a.apart, a.once = true, true
			a.spans = append(a.spans, span{of.name, of.ticket, of.held()})
		}
	}
	a.states = a.width
	a.waits = a.states + waits
	a.width = a.waits + serials
	a.setArguments()
	if a.done == nil {
		a.done = make(chan struct{}, 1)
	}
}

func (a *ask) setArguments() {
	a.args = a.args[:0]
	for i := range a.accounts {
		of := &a.accounts[i]
		a.args = append(a.args, of.limit.text, of.units(a))
	}
}

// reset empties a for reuse. No call may use it any more.
func (a *ask) reset() {
	clear(a.keys)
	clear(a.args)
	*a = ask{
		job:     job{keys: a.keys[:0], args: a.args[:0], numbers: a.numbers[:0]},
		results: a.results[:0], spans: a.spans[:0], done: a.done,
	}
}

// read implements [owner].
func (a *ask) read(numbers []int64) bool {
	a.allowed, a.results = numbers[0] == 1, a.results[:0]
	for _, n := range numbers {
		if n < 0 || n > never {
			return false
		}
	}
	states, waits, serials, allFit := numbers[1:a.states], numbers[a.states:a.waits], numbers[a.waits:], true
	for i := range a.accounts {
		of := &a.accounts[i]
		f, ok := of.found(a, &states, &waits, &serials)
		if !ok {
			return false
		}
		r, fits, ok := of.result(&f)
		if !ok {
			return false
		}
		allFit = allFit && (fits || !of.enforces)
		a.results = append(a.results, r)
	}
	return allFit == a.allowed && (a.allowed || numbers[0] == 0)
}

// answer implements [owner].
func (a *ask) answer() {
	if a.err != nil {
		a.releaseIfTaken()
	}
	if a.isAwaited() {
		a.done <- struct{}{}
	} else {
		a.backend.giveBackUnawaited(a)
	}
}

// decide asks the server of l and waits for the answer until ctx ends. It reports whether the caller
// owns a again: otherwise a call still uses it.
func (l *line) decide(ctx context.Context, a *ask) (back bool, err error) {
	since := time.Now()
	inline, err := l.submitInline(ctx, &a.job, since)
	if err != nil {
		return true, err
	}
	if inline == nil {
		return l.await(ctx, a, since)
	}
	inline.callInline(a.done)
	if a.err == nil || !l.behind(ctx, since) {
		return true, a.err
	}
	// The process did not run in time. What the call took, if it did, stays taken, except for
	// units that it holds: they have been released.
	a.fate.Store(underWay)
	a.reissue()
	if err := l.submit(time.Now(), &a.job); err != nil {
		return true, err
	}
	return l.await(ctx, a, since)
}

// await waits for the answer to a, which was submitted at an instant, until ctx ends.
func (l *line) await(ctx context.Context, a *ask, since time.Time) (back bool, err error) {
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
	if l.withdraw(&a.job) {
		return true, l.unanswered(ctx, since, true)
	}
	if !a.abandon() {
		<-a.done // it comes just now
		return true, a.err
	}
	return false, l.unanswered(ctx, since, false)
}

// unanswered returns the error of a taking, submitted at an instant, whose context has ended.
func (l *line) unanswered(ctx context.Context, since time.Time, waited bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := ctx.Err()
	if l.answeredAt.After(since) && (waited || l.timelyLocked(ctx, since)) {
		return spared{fmt.Errorf("%w: %w", errBusy, err)}
	}
	if l.latest != nil {
		err = fmt.Errorf("%w; the latest failure was: %w", err, l.latest)
	}
	return err
}

// errBusy is part of the error of a request that waited for too long while the server
// answered others in time. That is load, not a failure of the server.
var errBusy = errors.New("too many requests wait for the server, which answers others in time: raise the time budget or the PoolSize of the client, or wait until its connections are made")
