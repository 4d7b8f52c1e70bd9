package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// takeJob is the job that decides what one caller charges on one server. A call may still use it
// after its caller has left. Then its memory is not reused.
type takeJob struct {
	job
	backend   *Bare
	accounts  []account
	hasLogs   bool
	statesEnd int // index in its reply behind the states: the waits of logs follow
	waitsEnd  int // index behind the waits: the serials follow
	mode      mode
	answered  chan struct{} // receives once t is answered, if its caller still waits

	// Set before t is answered, unless there is an error.
	allowed bool
	results []result // one for each account

	ids []idRange // one for each concurrency limit
}

// prepare makes t the job that decides accounts in a mode.
func (t *takeJob) prepare(ctx context.Context, b *Bare, accounts []account, mode mode) {
	t.backend, t.accounts, t.mode = b, accounts, mode
	t.ctx, t.script, t.priority, t.owner = ctx, &takeScript, taking, t
	t.form, t.instant, t.width = formOf(accounts, mode), mode.instant, 1
	waits, serials := 0, 0
	for i := range accounts {
		account := &accounts[i]
		t.hasLogs = t.hasLogs || account.limit.Lists
		t.width += account.limit.width
		waits += account.waits()
		if account.settles {
			serials++
		}
		t.weight += account.weight()
		t.keys = append(t.keys, account.name)
		if !mode.peeks && account.limit.Held {
			t.hasOwnArgs, t.once = true, true
			t.ids = append(t.ids, idRange{account.name, account.ticket, account.held()})
		}
	}
	t.statesEnd = t.width
	t.waitsEnd = t.statesEnd + waits
	t.width = t.waitsEnd + serials
	t.setArguments()
	if t.answered == nil {
		t.answered = make(chan struct{}, 1)
	}
}

func (t *takeJob) setArguments() {
	t.args = t.args[:0]
	for i := range t.accounts {
		account := &t.accounts[i]
		t.args = append(t.args, account.limit.text, account.units(t))
	}
}

// reset empties t for reuse. No call may use t any more.
func (t *takeJob) reset() {
	clear(t.keys)
	clear(t.args)
	*t = takeJob{
		job:     job{keys: t.keys[:0], args: t.args[:0], numbers: t.numbers[:0]},
		results: t.results[:0], ids: t.ids[:0], answered: t.answered,
	}
}

// read implements [owner]: it describes the decisions from the states in the reply.
func (t *takeJob) read(numbers []int64) bool {
	t.allowed, t.results = numbers[0] == 1, t.results[:0]
	for _, n := range numbers {
		if n < 0 || n > maxNumber {
			return false
		}
	}
	states, waits := numbers[1:t.statesEnd], numbers[t.statesEnd:t.waitsEnd]
	serials, allFit := numbers[t.waitsEnd:], true
	for i := range t.accounts {
		account := &t.accounts[i]
		f, ok := account.readState(t, &states, &waits, &serials)
		if !ok {
			return false
		}
		r, fits, ok := account.decisions(&f)
		if !ok {
			return false
		}
		allFit = allFit && (fits || !account.enforces)
		t.results = append(t.results, r)
	}
	return allFit == t.allowed && (t.allowed || numbers[0] == 0)
}

// answer implements [owner].
func (t *takeJob) answer() {
	if t.err != nil {
		t.releaseIfTaken()
	}
	if t.isAwaited() {
		t.answered <- struct{}{}
	} else {
		t.backend.giveBackUnawaited(t)
	}
}

// decide sends t and waits for the answer until ctx ends. owned is false if a call may still use
// t.
func (l *line) decide(ctx context.Context, t *takeJob) (owned bool, err error) {
	since := time.Now()
	inline, err := l.submitInline(ctx, &t.job, since)
	if err != nil {
		return true, err
	}
	if inline == nil {
		return l.await(ctx, t, since)
	}
	inline.callInline(t.answered)
	if t.err == nil || !l.shouldWaitOn(ctx, since) {
		return true, t.err
	}
	// This process ran late, so t is sent again. Units that the first call took stay taken, except
	// for those of concurrency limits: they are being released.
	t.fate.Store(underWay)
	t.reissue()
	if err := l.submit(time.Now(), &t.job); err != nil {
		return true, err
	}
	return l.await(ctx, t, since)
}

// await waits until ctx ends for the answer to t, which was submitted at since.
func (l *line) await(ctx context.Context, t *takeJob, since time.Time) (owned bool, err error) {
	select {
	case <-t.answered:
		return true, t.err
	case <-ctx.Done():
	}
	for l.shouldWaitOn(ctx, since) {
		timer := time.NewTimer(slice)
		select {
		case <-t.answered:
			timer.Stop()
			return true, t.err
		case <-timer.C:
		}
	}
	if l.withdraw(&t.job) {
		return true, l.unanswered(ctx, since, true)
	}
	if !t.abandon() {
		<-t.answered // answered at the same moment
		return true, t.err
	}
	return false, l.unanswered(ctx, since, false)
}

// unanswered returns the error of a job, submitted at since, whose context has ended. waited is
// true if the job was never sent.
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

// errBusy is part of the error of a request that waited too long while the server answered others
// in time. That is load, and no failure of the server.
var errBusy = errors.New(
	"too many requests wait for the server, which answers others in time: raise the time budget")
