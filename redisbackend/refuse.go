package redisbackend

import (
	"slices"

	"github.com/weir-go/weir/core"
)

// Where many requests wait that charge one key, and that key denies one of them,
// the others that charge it as much are denied by the same answer: they would be,
// and to ask for each would have everybody else wait.

// denial is what a reply says of a key that denied.
type denial struct {
	account account
	now     int64
	numbers []any
}

// denials returns what a reply says of the keys that denied, if the crowd waited.
func (c *crowd) denials(reply []any) (all []denial) {
	if c.accounts == nil {
		return nil
	}
	width := 0
	for i := range c.accounts {
		width += c.accounts[i].width(modeTake)
	}
	now, rounds, _, err := parse(reply, width, c.size)
	if err != nil {
		return nil
	}
	numbers := reply[1+(rounds-1)*width:][:width]
	for _, a := range c.accounts {
		if number(numbers[2]) < 0 {
			all = append(all, denial{a, now, numbers[:a.numbers()]})
		}
		numbers = numbers[a.width(modeTake):]
	}
	return all
}

// refuse denies those that wait for a crowded key that denied, by as much as they
// charge it.
func (l *lane) refuse(d denial) {
	l.mu.Lock()
	var refused []*crowd
	if l.waiting[d.account.name] >= crowdedKey {
		for i := range l.queues {
			for c := l.queues[i].first; c != nil; {
				next := c.next
				if c.charges(&d.account) {
					l.unlinkLocked(c)
					for a := c.first; a != nil; a = a.next {
						a.sent = true
					}
					refused = append(refused, c)
				}
				c = next
			}
		}
	}
	l.mu.Unlock()
	for _, c := range refused {
		c.refuse(d)
	}
}

// charges reports whether c charges the key of a as a does.
func (c *crowd) charges(a *account) bool { return c.indexOf(a) >= 0 }

func (c *crowd) indexOf(a *account) int {
	return slices.IndexFunc(c.accounts, func(b account) bool {
		return b.name == a.name && b.limit.limit == a.limit.limit && b.enforced == a.enforced && a.enforced > 0
	})
}

// refuse answers every request of c with d.
func (c *crowd) refuse(d denial) {
	by := c.indexOf(&d.account)
	for a := c.first; a != nil; {
		next := a.next
		a.prev, a.next = nil, nil
		a.now, a.numbers, a.refusedBy = d.now, d.numbers, by+1
		a.done <- struct{}{} // from here on a is the caller's
		a = next
	}
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
