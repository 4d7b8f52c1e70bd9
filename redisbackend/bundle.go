package redisbackend

// bundle is equal requests that wait to be sent, in the order in which they came. One
// entry of a call decides all of them. A request that may not be merged with others has
// a bundle of its own.
type bundle struct {
	same   batchKey
	merges bool // equal requests may join
	asks   list[*ask]
	rounds int            // how many a call is to decide if it denies none
	queue  *list[*bundle] // the queue that it waits in
	node   node[*bundle]
}

func newBundle() *bundle {
	c := new(bundle)
	c.node.of = c
	return c
}

func (c *bundle) add(a *ask) {
	a.bundle, a.node.of = c, a
	c.asks.add(&a.node)
}

func (c *bundle) remove(a *ask) {
	a.bundle = nil
	c.asks.remove(&a.node)
}

// clear empties c for reuse.
func (c *bundle) clear() { *c = bundle{node: node[*bundle]{of: c}} }

// one returns the first request of c. All others are equal to it.
func (c *bundle) one() *ask { return c.asks.first.of }

// send marks the requests of c as sent. The caller has locked the lane.
func (c *bundle) send() {
	for k := c.asks.first; k != nil; k = k.next {
		k.of.sent = true
	}
}

// answer gives every request its decision, or the error. It returns the requests that the
// call did not reach, nil if it reached all.
func (c *bundle) answer(d decided, err error) (rest *node[*ask]) {
	k, round := c.asks.first, 0
	for k != nil {
		if err == nil && round == d.rounds {
			if !d.denied {
				return k
			}
			round-- // the others get the same denial
		}
		a, next := k.of, k.next
		a.node = node[*ask]{}
		if a.holds != nil {
			a.keepOrRelease(err == nil && (!d.denied || round < d.rounds-1), err)
		}
		a.err = err
		if err == nil {
			a.now, a.numbers = d.now, d.numbers[round*a.width:][:a.width]
			round++
		}
		a.done <- struct{}{} // the caller owns a again
		k = next
	}
	return nil
}
