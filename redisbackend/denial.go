package redisbackend

import (
	"slices"

	"github.com/weir-go/weir/internal/list"
	"github.com/weir-go/weir/limits"
)

// If many requests wait for one key and the key denies one of them, the same answer denies
// the others that charge it as much. The server would deny them too, and to ask it for
// each would delay everybody else.

// denyWaiting denies the requests that wait for a busy key if a call has just denied it
// for c, and they charge it as much as c does.
func (l *lane) denyWaiting(c *bundle, d decided) {
	a := c.one()
	if len(a.accounts) == 0 || a.instant != 0 {
		return
	}
	numbers := d.numbers[(d.rounds-1)*a.width:]
	for i := range a.accounts {
		of := &a.accounts[i]
		if number(numbers[2]) < 0 {
			l.denyWaitingFor(of, d.now, numbers[:3])
		}
		numbers = numbers[of.width():]
	}
}

func (l *lane) denyWaitingFor(by *account, now int64, numbers []any) {
	l.mu.Lock()
	var denied []*bundle
	if l.waiting[by.name] >= busyKey {
		for i := range l.queues {
			for k := l.queues[i].First; k != nil; {
				c, next := k.Of, k.Next
				if c.one().indexOf(by) >= 0 {
					l.unlinkLocked(c)
					c.send()
					denied = append(denied, c)
				}
				k = next
			}
		}
	}
	l.mu.Unlock()
	for _, c := range denied {
		at := c.one().indexOf(by) + 1
		for k := c.asks.First; k != nil; {
			a, next := k.Of, k.Next
			a.node = list.Node[*ask]{}
			if a.holds != nil {
				a.keepOrRelease(false, nil)
			}
			a.now, a.numbers, a.deniedBy = now, numbers, at
			a.done <- struct{}{} // the caller owns a again
			k = next
		}
	}
}

// indexOf returns the index of the account that charges the same key, by the same limit
// for as many units, as other does; -1 if a has none.
func (a *ask) indexOf(other *account) int {
	return slices.IndexFunc(a.accounts, func(b account) bool {
		return b.name == other.name && b.limit.limit == other.limit.limit && b.Enforced == other.Enforced && other.Enforced > 0
	})
}

// denialOf returns the decisions of a request that denyWaiting denied. One account denies
// it; the server was not asked about the others.
func denialOf(a *ask, accounts []account, all []result) []result {
	for i := range accounts {
		s := resultNotAsked
		if i == a.deniedBy-1 {
			s.enforced = accounts[i].decisionWithoutTicket(a.now, a.numbers)
		}
		all = append(all, s)
	}
	return all
}

var (
	notAsked       = limits.Decision{Allowed: true, Source: limits.SourceNotAsked}
	resultNotAsked = result{enforced: notAsked, shadow: notAsked}
)
