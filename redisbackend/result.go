package redisbackend

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// result is the result of take.lua for one account.
type result struct {
	enforced, shadow limits.Decision
}

// read appends the result of each account, from a reply of take.lua.
func read(now int64, rest []any, accounts []account, all []result) []result {
	for i := range accounts {
		a, s := &accounts[i], result{}
		s.enforced, rest = a.decision(now, rest[:a.numbers()]), rest[a.numbers():]
		if a.HasShadow {
			s.shadow, rest = a.decision(now, rest[:a.numbers()]), rest[a.numbers():]
		}
		all = append(all, s)
	}
	return all
}

// number returns a number of a reply that checkNumbers has checked.
func number(v any) int64 { return v.(int64) }

// numbers returns how many numbers of a reply make a decision on a.
func (a *account) numbers() int {
	n := 3
	if a.limit.limit.Algorithm() == limits.AlgorithmLeakyQueue {
		n++
	}
	if a.settles {
		n += 2
	}
	return n
}

// decision reads the numbers of a decision on a.
func (a *account) decision(now int64, reply []any) limits.Decision {
	if !a.settles {
		return a.decisionWithoutTicket(now, reply)
	}
	last := len(reply) - 2
	d := a.decisionWithoutTicket(now, reply[:last])
	d.Ticket = ticketOf(number(reply[last]), number(reply[last+1]))
	return d
}

// never stands for [limits.Never] in replies of take.lua.
const never = 1<<53 - 1

// decisionWithoutTicket reads remaining, reset after, and effective window or minus retry
// after; and the delay of a queue.
func (a *account) decisionWithoutTicket(now int64, reply []any) limits.Decision {
	var all [4]int64
	numbers := all[:len(reply)]
	for i, v := range reply {
		numbers[i] = number(v)
	}
	d := limits.Decision{Allowed: numbers[2] >= 0, Remaining: numbers[0], ResetAfter: wait(numbers[1]), At: now}
	switch {
	case d.Allowed:
		d.EffectiveWindow = wait(numbers[2])
	case numbers[2] == -never:
		d.RetryAfter, d.EffectiveWindow = limits.Never, limits.Never
	default:
		d.RetryAfter = wait(-numbers[2])
		d.EffectiveWindow = d.RetryAfter
	}
	if len(numbers) > 3 {
		d.Delay = wait(numbers[3])
	}
	if a.isConcurrent() {
		d.EffectiveWindow = limits.Never
	}
	return d
}

// wait converts microseconds; a negative number is [limits.Never].
func wait(us int64) time.Duration {
	if us < 0 {
		return limits.Never
	}
	return time.Duration(min(us, limits.Never.Microseconds())) * time.Microsecond
}
