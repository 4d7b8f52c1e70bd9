package redisbackend

import (
	"time"

	"github.com/weir-go/weir/limits"
)

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

// denyWaitingLocked takes waiting requests out of the queues if a denial in this call answers
// them, and denies them. The denial must come from a busy key. The requests must have waited
// before the call began: units may have been returned since.
func (l *line) denyWaitingLocked(jobs []*job, begun time.Time) (denied []*takeJob) {
	var denials map[denialKey]limits.Decision
	for _, j := range jobs {
		if t, ok := j.owner.(*takeJob); ok {
			denials = l.addDenialsLocked(denials, t)
		}
	}
	for i := range l.queues {
		if len(denials) == 0 {
			break
		}
		for node := l.queues[i].First; node != nil; {
			next := node.Next
			t, ok := node.Of.owner.(*takeJob)
			if ok && t.queuedAt.Before(begun) && t.denyBy(denials) {
				l.unlinkLocked(&t.job)
				t.err = nil
				denied = append(denied, t)
			}
			node = next
		}
	}
	return denied
}

// addDenialsLocked adds the denials of t by busy keys. A peek, or a request with an instant of its
// own, adds none.
func (l *line) addDenialsLocked(
	denials map[denialKey]limits.Decision, t *takeJob,
) map[denialKey]limits.Decision {
	if t.err != nil || t.mode != (mode{}) {
		return denials
	}
	for i := range t.accounts {
		account, d := &t.accounts[i], t.results[i].enforced
		if account.Enforced > 0 && !d.Allowed && l.waiting[account.name] >= busyKey {
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
		t.now, t.allowed, t.results = d.At, false, t.results[:0]
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
