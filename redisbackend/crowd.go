package redisbackend

import (
	"fmt"
	"strconv"
)

// crowd is equal requests that wait to be sent, in the order in which they came.
// Takings are decided together, by one call of the script.
type crowd struct {
	same        sameness
	known       bool // by what is the same: others may join
	first, last *ask
	size        int
	names       []string  // of the keys that it charges, while it waits
	accounts    []account // what it charges, of those that have waited
	queue       *queue    // that it waits in
	prev, next  *crowd
}

// queue is crowds that wait, in the order in which they came.
type queue struct{ first, last *crowd }

func (q *queue) add(c *crowd) {
	c.queue, c.prev, c.next = q, q.last, nil
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
}

func (q *queue) addFirst(c *crowd) {
	c.queue, c.prev, c.next = q, nil, q.first
	if q.first == nil {
		q.last = c
	} else {
		q.first.prev = c
	}
	q.first = c
}

func (q *queue) remove(c *crowd) {
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.queue, c.prev, c.next = nil, nil, nil
}

// maxRounds is how many requests of a crowd one call decides, if it denies none:
// a script must not hold the server up.
const maxRounds = 256

func (c *crowd) add(a *ask) {
	a.crowd, a.prev, a.next = c, c.last, nil
	if c.last == nil {
		c.first = a
	} else {
		c.last.next = a
	}
	c.last = a
	c.size++
}

func (c *crowd) remove(a *ask) {
	if a.prev == nil {
		c.first = a.next
	} else {
		a.prev.next = a.next
	}
	if a.next == nil {
		c.last = a.prev
	} else {
		a.next.prev = a.prev
	}
	a.crowd, a.prev, a.next = nil, nil, nil
	c.size--
}

// arguments returns KEYS and ARGV of take.lua.
func (c *crowd) arguments() ([]string, []any) {
	a := c.first
	if c.size == 1 {
		return a.keys, a.args
	}
	args := append(a.args[:2*len(a.keys):2*len(a.keys)], "take "+strconv.Itoa(min(c.size, maxRounds)))
	if a.instant != 0 {
		args = append(args, a.instant)
	}
	return a.keys, args
}

// answer hands every request its part of a reply, or the error. It returns those
// that have none yet, nil if there are none.
func (c *crowd) answer(reply []any, err error) (rest *ask) {
	var now int64
	var rounds int
	var denied bool
	if err == nil {
		now, rounds, denied, err = parse(reply, c.first.width, c.size)
	}
	a, round := c.first, 0
	for a != nil {
		if err == nil && round == rounds {
			if !denied {
				return a
			}
			round-- // all others get the same denial
		}
		next := a.next
		a.prev, a.next = nil, nil
		a.err = err
		if err == nil {
			a.now, a.numbers = now, reply[1+round*a.width:][:a.width]
			round++
		}
		a.done <- struct{}{} // from here on a is the caller's
		a = next
	}
	return nil
}

// parse checks a reply to a number of equal requests. It returns the instant, how
// many it decides, and whether it denies the last of several.
func parse(reply []any, width, size int) (now int64, rounds int, denied bool, err error) {
	rounds, want := 1, len(reply)
	if size > 1 {
		want--
		rounds = (want - 1) / max(1, width)
	}
	if rounds < 1 || rounds > size || want != 1+rounds*width {
		return 0, 0, false, fmt.Errorf("the script replied with %d numbers instead of %d for each of %d requests", len(reply), width, size)
	}
	for _, number := range reply {
		if _, ok := number.(int64); !ok {
			return 0, 0, false, fmt.Errorf("the script replied with a %T instead of a number", number)
		}
	}
	return reply[0].(int64), rounds, size > 1 && reply[want].(int64) == 0, nil
}
