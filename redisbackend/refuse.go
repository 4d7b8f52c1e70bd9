package redisbackend

import (
	"slices"

	"github.com/weir-go/weir/core"
)

// Where many requests wait that charge one key, and that key denies one of them,
// the others that charge it as much are denied by the same answer: they would be,
// and to ask for each would have everybody else wait.

// refuse denies those that wait for a key that many wait for, by as much as c charges
// it, if a call has denied that. c is one that waited.
func (l *lane) refuse(c *crowd, d decided) {
	a := c.one()
	if len(a.accounts) == 0 || a.instant != 0 {
		return
	}
	numbers := d.numbers[(d.rounds-1)*a.width:]
	for i := range a.accounts {
		of := &a.accounts[i]
		if number(numbers[2]) < 0 {
			l.refuseBy(of, d.now, numbers[:of.numbers()])
		}
		numbers = numbers[of.width(modeTake):]
	}
}

func (l *lane) refuseBy(by *account, now int64, numbers []any) {
	l.mu.Lock()
	var refused []*crowd
	if l.waiting[by.name] >= crowdedKey {
		for i := range l.queues {
			for k := l.queues[i].first; k != nil; {
				c, next := k.of, k.next
				if c.one().indexOf(by) >= 0 {
					l.unlinkLocked(c)
					c.send()
					refused = append(refused, c)
				}
				k = next
			}
		}
	}
	l.mu.Unlock()
	for _, c := range refused {
		at := c.one().indexOf(by) + 1
		for k := c.asks.first; k != nil; {
			a, next := k.of, k.next
			a.place = link[*ask]{}
			a.now, a.numbers, a.refusedBy = now, numbers, at
			a.done <- struct{}{} // from here on a is the caller's
			k = next
		}
	}
}

// indexOf returns the index of the account that charges a key as another does, or -1.
func (a *ask) indexOf(other *account) int {
	return slices.IndexFunc(a.accounts, func(b account) bool {
		return b.name == other.name && b.limit.limit == other.limit.limit && b.Enforced == other.Enforced && other.Enforced > 0
	})
}

// refusal returns the decisions of a request that was denied by one of its
// accounts, as another request was. The other accounts were not asked.
func refusal(a *ask, accounts []account, all []settled) []settled {
	for i := range accounts {
		s := settled{enforced: notAsked, shadow: notAsked}
		if i == a.refusedBy-1 {
			s.enforced = decision(a.now, a.numbers)
			s.enforced.Delay = 0
		}
		all = append(all, s)
	}
	return all
}

var notAsked = core.Decision{Allowed: true, Source: core.SourceNotAsked}
