package redisbackend

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// If many requests wait for one key and the key denies one of them, the same answer denies
// the others that charge it as much. The server would deny them too, and to ask it for
// each would delay everybody else.

// share is what requests have in common that one denial answers: they charge a key by a limit for
// as many units.
type share struct {
	name  string
	limit limits.Limit
	units int64
}

func (a *account) share() share { return share{a.name, a.Limit, a.Enforced} }

// denyWaiting denies the requests that wait for busy keys which a call, begun at an instant, has denied
// for some of its jobs, and charge them as much as these do. A request that came later may find units
// that were returned after the call.
func (l *line) denyWaiting(jobs []*job, begun time.Time) {
	var denials map[share]limits.Decision
	var denied []*ask
	l.mu.Lock()
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
				denied = append(denied, a)
			}
			k = next
		}
	}
	l.mu.Unlock()
	for _, a := range denied {
		a.err = nil
		a.answer()
	}
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
