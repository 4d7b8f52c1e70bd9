package overload

import (
	"slices"
	"time"
)

// shared has requests that share the slots: each gets a slot of its own, or an equal part of one.
//
// Its clock runs as fast as each request does. So a request that takes 50 ms ends when the clock
// has gone on by 50 ms.
type shared struct {
	slots   int
	clock   float64 // seconds
	at      time.Duration
	running []*request // the next to end first
}

func (p *shared) speed() float64 { return min(1, float64(p.slots)/float64(len(p.running))) }

func (p *shared) advance(now time.Duration) {
	if len(p.running) > 0 {
		p.clock += (now - p.at).Seconds() * p.speed()
	}
	p.at = now
}

func (p *shared) add(now time.Duration, q *request, slots int, takes time.Duration) {
	p.slots = slots
	p.advance(now)
	q.ends = p.clock + takes.Seconds()
	i, _ := slices.BinarySearchFunc(p.running, q.ends, func(r *request, ends float64) int {
		if r.ends <= ends {
			return -1
		}
		return 1
	})
	p.running = slices.Insert(p.running, i, q)
}

// next returns the request that ends first, if no other begins before, and when it does. nil: no
// request runs.
func (p *shared) next(now time.Duration) (at time.Duration, q *request) {
	p.advance(now)
	if len(p.running) == 0 {
		return 0, nil
	}
	q = p.running[0]
	return now + time.Duration(max(0, q.ends-p.clock)/p.speed()*float64(time.Second)), q
}

// take removes q and returns it, if it is the first and has ended. Otherwise it returns nil:
// another event was added for q.
func (p *shared) take(now time.Duration, q *request) *request {
	p.advance(now)
	if len(p.running) == 0 || p.running[0] != q || q.ends-p.clock > 1e-6 {
		return nil
	}
	p.running = p.running[1:]
	return q
}
