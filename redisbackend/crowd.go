package redisbackend

// crowd is equal requests that wait to be sent, in the order in which they came.
// Takings are decided together, as one part of a call.
type crowd struct {
	same   sameness
	known  bool // by what is the same: others may join
	asks   list[*ask]
	rounds int           // how many a call is to decide, if it denies none
	queue  *list[*crowd] // that it waits in
	place  link[*crowd]
}

func newCrowd() *crowd {
	c := new(crowd)
	c.place.of = c
	return c
}

func (c *crowd) add(a *ask) {
	a.crowd, a.place.of = c, a
	c.asks.add(&a.place)
}

func (c *crowd) remove(a *ask) {
	a.crowd = nil
	c.asks.remove(&a.place)
}

// clear leaves nothing of c but its memory.
func (c *crowd) clear() { *c = crowd{place: link[*crowd]{of: c}} }

// one is a request of c, which has one.
func (c *crowd) one() *ask { return c.asks.first.of }

// send marks the requests of c as sent. The lane's lock is held.
func (c *crowd) send() {
	for k := c.asks.first; k != nil; k = k.next {
		k.of.sent = true
	}
}

// answer hands every request its part of what a call decided, or the error. It
// returns those that have none yet, nil if there are none.
func (c *crowd) answer(d decided, err error) (rest *link[*ask]) {
	k, round := c.asks.first, 0
	for k != nil {
		if err == nil && round == d.rounds {
			if !d.denied {
				return k
			}
			round-- // all others get the same denial
		}
		a, next := k.of, k.next
		a.place = link[*ask]{}
		a.err = err
		if err == nil {
			a.now, a.numbers = d.now, d.numbers[round*a.width:][:a.width]
			round++
		}
		a.done <- struct{}{} // from here on a is the caller's
		k = next
	}
	return nil
}
