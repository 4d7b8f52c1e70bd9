package redisbackend

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// If 32 or more requests wait for one key and the key denies one of them, the same answer denies the others
// that charge it as much. The server would deny them, too, and asking it for each would delay the requests
// of other keys.

// share is what requests have in common that one denial answers: they charge a key by a limit for
// as many units.
type denialKey struct {
	name  string
	limit limits.Limit
	units int64
}

func (a *account) denialKey() denialKey { return denialKey{a.name, a.Limit, a.Enforced} }

// denyWaitingLocked takes requests out of the queues that the denials of a call answer, and denies them.
// They wait for a busy key that denied a job of the call, and charge it as much. They have waited since
// before the call began: a later request may find units that were returned after it.
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
			if t, ok := node.Of.owner.(*takeJob); ok && t.queuedAt.Before(begun) && t.denyBy(denials) {
				l.unlinkLocked(&t.job)
				t.err = nil
				denied = append(denied, t)
			}
			node = next
		}
	}
	return denied
}

// addDenialsLocked adds the denials of a by busy keys, unless it peeks or has an instant of its own.
func (l *line) addDenialsLocked(denials map[denialKey]limits.Decision, t *takeJob) map[denialKey]limits.Decision {
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

// denyBy denies a by the first denial of one of its accounts, if there is any. The server is not asked
// about the others.
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
