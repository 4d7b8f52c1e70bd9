package redisbackend

import (
	"context"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// takeJob is the job that decides what one caller charges on one server. A call may still use it
// after its caller has left. Then its memory is not reused.
type takeJob struct {
	line.Job
	taking    wire.Taking
	ids       []idRange // one for each concurrency limit
	giveBacks *giveBacks
}

// prepare makes t the job that decides accounts in a mode.
func (t *takeJob) prepare(ctx context.Context, g *giveBacks, accounts []wire.Account, m wire.Mode) {
	t.giveBacks = g
	t.taking.Begin(accounts, m)
	t.Ctx, t.Script, t.Priority, t.Owner = ctx, &takeScript, line.Taking, t
	t.Verb, t.Form, t.IsPlain = m.Verb(), t.taking.Form(), m == (wire.Mode{}) && !t.taking.HasLogs
	t.Instant, t.Weight, t.Width = m.Instant, t.taking.Weight, t.taking.Width
	for i := range accounts {
		a := &accounts[i]
		t.Keys = append(t.Keys, a.Name)
		if !m.Peeks && a.Encoded.Held {
			t.HasOwnArgs, t.Once = true, true
			t.ids = append(t.ids, idsOf(a))
		}
	}
	t.Args = t.taking.AppendArguments(t.Args[:0], &g.servers.encoder.IDs)
	if t.Replied == nil {
		t.Replied = make(chan struct{}, 1)
	}
}

// idsOf returns the units that a may come to hold. If they have a holder, the script chooses the
// ids.
func idsOf(a *wire.Account) idRange {
	ids := idRange{a.Name, a.Ticket, a.Held(), a.Loan}
	if a.Loan.Holder != 0 {
		ids.first = 0
	}
	return ids
}

// reset empties t for reuse. No call may use t any more.
func (t *takeJob) reset() {
	clear(t.Keys)
	clear(t.Args)
	t.taking.Reset()
	*t = takeJob{
		Job: line.Job{
			Keys: t.Keys[:0], Args: t.Args[:0], Numbers: t.Numbers[:0], Replied: t.Replied,
		},
		taking: t.taking, ids: t.ids[:0],
	}
}

// Read implements [line.Owner]: it describes the decisions from the states in the reply.
func (t *takeJob) Read(numbers []int64) bool { return t.taking.Read(t.Now, numbers) }

// Answer implements [line.Owner].
func (t *takeJob) Answer() {
	if t.Err != nil {
		t.releaseIfTaken()
	}
	if t.IsAwaited() {
		t.Replied <- struct{}{}
		return
	}
	if t.Err == nil && !t.taking.Mode.Peeks && t.taking.Allowed { // its caller has left
		t.giveBacks.send(t.Ctx, &t.taking, maxUnawaited)
		t.giveBacks.holds.releaseLater(t.ids, false)
	}
}

// The client chooses the ids of the units that a request takes, so it can release them without
// knowing the result. It does so if the reply was lost, if the caller has left, and if another
// server denied the request.
//
// So go-redis must not repeat a script that takes units: the repetition would find the units of the
// first attempt held, and might be denied because of them. See Reissue.

// releaseIfTaken releases the units of a request that failed, if its script may have run.
func (t *takeJob) releaseIfTaken() {
	if len(t.ids) > 0 && t.giveBacks.servers.lines.MayHaveRun(t.Err) {
		t.giveBacks.holds.releaseLater(t.ids, true)
	}
}

// Reissue gives t new ids, to send it again while the units of the former ids are being released.
func (t *takeJob) Reissue() {
	former, ids := t.ids, &t.giveBacks.servers.encoder.IDs
	if len(former) == 0 {
		return
	}
	t.ids = make([]idRange, 0, len(former))
	for i := range t.taking.Accounts {
		a := &t.taking.Accounts[i]
		if a.Encoded.Held {
			a.Ticket = ids.Issue(a.Held())
			t.ids = append(t.ids, idsOf(a))
		}
	}
	t.Args = t.taking.AppendArguments(t.Args[:0], ids)
}

// If 32 or more requests wait for one key and the key denies one, the same answer denies the
// others that charge it as much. The server would deny them, too, and asking it would delay the
// requests of other keys.

// denialKey identifies charges that one denial answers: equal keys, limits and units.
type denialKey struct {
	name  string
	limit limits.Limit
	units int64
	value uint64
}

func denialKeyOf(a *wire.Account) denialKey {
	return denialKey{a.Name, a.Limit, a.Enforced, a.Value}
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
	if t.Err != nil || t.taking.Mode != (wire.Mode{}) {
		return denials
	}
	for i := range t.taking.Accounts {
		a, d := &t.taking.Accounts[i], t.taking.Results[i].Enforced
		if a.Enforced > 0 && !d.Allowed && q.IsBusy(a.Name) {
			if denials == nil {
				denials = make(map[denialKey]limits.Decision)
			}
			denials[denialKeyOf(a)] = d
		}
	}
	return denials
}

// denyBy denies t by the first of its accounts that a denial answers. Its other accounts are
// marked as not asked. It returns false if no denial answers.
func (t *takeJob) denyBy(denials map[denialKey]limits.Decision) bool {
	accounts := t.taking.Accounts
	for i := range accounts {
		d, ok := denials[denialKeyOf(&accounts[i])]
		if !ok || t.taking.Mode != (wire.Mode{}) {
			continue
		}
		t.Now, t.Err = d.At, nil
		t.taking.Deny(i, d)
		return true
	}
	return false
}
