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
type share struct {
	name  string
	limit limits.Limit
	units int64
}

func (a *account) share() share { return share{a.name, a.Limit, a.Enforced} }

// denyWaitingLocked takes requests out of the queues that the denials of a call answer, and denies them.
// They wait for a busy key that denied a job of the call, and charge it as much. They have waited since
// before the call began: a later request may find units that were returned after it.
func (l *line) denyWaitingLocked(jobs []*job, begun time.Time) (denied []*ask) {
	var denials map[share]limits.Decision
	for _, j := range jobs {
		if a, ok := j.owner.(*ask); ok {
			denials = l.addDenialsLocked(denials, a)
		}
	}
	for i := range l.queues {
		if len(denials) == 0 {
			break
		}
		for k := l.queues[i].First; k != nil; {
			next := k.Next
			if a, ok := k.Of.owner.(*ask); ok && a.queuedAt.Before(begun) && a.denyBy(denials) {
				l.unlinkLocked(&a.job)
				a.err = nil
				denied = append(denied, a)
			}
			k = next
		}
	}
	return denied
}

// addDenialsLocked adds the denials of a by busy keys, unless it peeks or has an instant of its own.
func (l *line) addDenialsLocked(denials map[share]limits.Decision, a *ask) map[share]limits.Decision {
	if a.err != nil || a.mode != (mode{}) {
		return denials
	}
	for i := range a.accounts {
		of, d := &a.accounts[i], a.results[i].enforced
		if of.Enforced > 0 && !d.Allowed && l.waiting[of.name] >= busyKey {
			if denials == nil {
				denials = make(map[share]limits.Decision)
			}
			denials[of.share()] = d
		}
	}
	return denials
}

// denyBy denies a by the first denial of one of its accounts, if there is any. The server is not asked
// about the others.
func (a *ask) denyBy(denials map[share]limits.Decision) bool {
	for i := range a.accounts {
		d, ok := denials[a.accounts[i].share()]
		if !ok || a.mode != (mode{}) {
			continue
		}
		a.now, a.allowed, a.results = d.At, false, a.results[:0]
		for range a.accounts {
			a.results = append(a.results, resultNotAsked)
		}
		a.results[i].enforced = d
		return true
	}
	return false
}

var (
	notAsked       = limits.Decision{Allowed: true, Source: limits.SourceNotAsked}
	resultNotAsked = result{enforced: notAsked, shadow: notAsked}
)
