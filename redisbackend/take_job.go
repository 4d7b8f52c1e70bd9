package redisbackend

import (
	"context"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend/internal/line"
)

// takeJob is the job that decides what one caller charges on one server. A call may still use it
// after its caller has left. Then its memory is not reused.
type takeJob struct {
	line.Job
	backend   *Bare
	accounts  []account
	hasLogs   bool
	statesEnd int // index in its reply behind the states: the waits of logs follow
	waitsEnd  int // index behind the waits: the serials follow
	mode      mode

	// Set before t is answered, unless there is an error.
	allowed bool
	results []result // one for each account

	ids []idRange // one for each concurrency limit
}

// prepare makes t the job that decides accounts in a mode.
func (t *takeJob) prepare(ctx context.Context, b *Bare, accounts []account, m mode) {
	t.backend, t.accounts, t.mode = b, accounts, m
	t.Ctx, t.Script, t.Priority, t.Owner = ctx, &takeScript, line.Taking, t
	t.Form, t.Instant, t.Width = formOf(accounts, m), m.instant, 1
	waits, serials := 0, 0
	for i := range accounts {
		account := &accounts[i]
		t.hasLogs = t.hasLogs || account.limit.Lists
		t.Width += account.limit.width
		waits += account.waits()
		if account.settles {
			serials++
		}
		t.Weight += account.weight()
		t.Keys = append(t.Keys, account.name)
		if !m.peeks && account.limit.Held {
			t.HasOwnArgs, t.Once = true, true
			t.ids = append(t.ids, idRange{account.name, account.ticket, account.held()})
		}
	}
	t.statesEnd = t.Width
	t.waitsEnd = t.statesEnd + waits
	t.Verb, t.IsPlain = m.name(), m == (mode{}) && !t.hasLogs
	t.Width = t.waitsEnd + serials
	t.setArguments()
	if t.Replied == nil {
		t.Replied = make(chan struct{}, 1)
	}
}

func (t *takeJob) setArguments() {
	t.Args = t.Args[:0]
	for i := range t.accounts {
		account := &t.accounts[i]
		t.Args = append(t.Args, account.limit.text, account.units(t))
	}
}

// reset empties t for reuse. No call may use t any more.
func (t *takeJob) reset() {
	clear(t.Keys)
	clear(t.Args)
	*t = takeJob{
		Job: line.Job{
			Keys: t.Keys[:0], Args: t.Args[:0], Numbers: t.Numbers[:0], Replied: t.Replied,
		},
		results: t.results[:0], ids: t.ids[:0],
	}
}

// Read implements [line.Owner]: it describes the decisions from the states in the reply.
func (t *takeJob) Read(numbers []int64) bool {
	t.allowed, t.results = numbers[0] == 1, t.results[:0]
	for _, n := range numbers {
		if n < 0 || n > line.MaxNumber {
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

// Answer implements [line.Owner].
func (t *takeJob) Answer() {
	if t.Err != nil {
		t.releaseIfTaken()
	}
	if t.IsAwaited() {
		t.Replied <- struct{}{}
	} else {
		t.backend.giveBackUnawaited(t)
	}
}

// If 32 or more requests wait for one key and the key denies one, the same answer denies the
// others that charge it as much. The server would deny them, too, and asking it would delay the
// requests of other keys.

// denialKey identifies charges that one denial answers: equal keys, limits and units.
type denialKey struct {
	name  string
	limit limits.Limit
	units int64
	value string // its digest
}

func (a *account) denialKey() denialKey {
	return denialKey{a.name, a.Limit, a.Enforced, a.digest}
}

// denyWaiting takes waiting requests out of q if a denial in the call of jobs answers them, and
// denies them. The denial must come from a busy key. The requests must have waited before the call
// began: units may have been returned since.
func denyWaiting(q *line.Queue, jobs []*line.Job, begun time.Time) (denied []*line.Job) {
	var denials map[denialKey]limits.Decision
	for _, j := range jobs {
		if t, ok := j.Owner.(*takeJob); ok {
			denials = t.addDenials(denials, q)
		}
	}
	if len(denials) == 0 {
		return nil
	}
	return q.RemoveIf(begun, func(j *line.Job) bool {
		t, ok := j.Owner.(*takeJob)
		return ok && t.denyBy(denials)
	})
}

// addDenials adds the denials of t by busy keys. A peek, or a request with an instant of its
// own, adds none.
func (t *takeJob) addDenials(
	denials map[denialKey]limits.Decision, q *line.Queue,
) map[denialKey]limits.Decision {
	if t.Err != nil || t.mode != (mode{}) {
		return denials
	}
	for i := range t.accounts {
		account, d := &t.accounts[i], t.results[i].enforced
		if account.Enforced > 0 && !d.Allowed && q.IsBusy(account.name) {
			if denials == nil {
				denials = make(map[denialKey]limits.Decision)
			}
			denials[account.denialKey()] = d
		}
	}
	return denials
}

// denyBy denies t by the first of its accounts that a denial answers. Its other accounts are
// marked as not asked. It returns false if no denial answers.
func (t *takeJob) denyBy(denials map[denialKey]limits.Decision) bool {
	for i := range t.accounts {
		d, ok := denials[t.accounts[i].denialKey()]
		if !ok || t.mode != (mode{}) {
			continue
		}
		t.Now, t.allowed, t.results, t.Err = d.At, false, t.results[:0], nil
		for range t.accounts {
			t.results = append(t.results, resultNotAsked)
		}
		t.results[i].enforced = d
		return true
	}
	return false
}

var (
	notAsked       = limits.Decision{Allowed: true, Source: limits.SourceNotAsked}
	resultNotAsked = result{enforced: notAsked, shadow: notAsked}
)
