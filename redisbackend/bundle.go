package redisbackend

import "github.com/weir-go/weir/internal/list"

// bundle is equal requests that wait to be sent, in the order in which they came. One
// entry of a call decides all of them. A request that may not be merged with others has
// a bundle of its own.
type bundle struct {
	same   batchKey
	merges bool // equal requests may join
	asks   list.List[*ask]
	rounds int                 // how many a call is to decide if it denies none
	queue  *list.List[*bundle] // the queue that it waits in
	node   list.Node[*bundle]
}

func newBundle() *bundle {
	c := new(bundle)
	c.node.Of = c
	return c
}

func (c *bundle) add(a *ask) {
	a.bundle, a.node.Of = c, a
	c.asks.Add(&a.node)
}

func (c *bundle) remove(a *ask) {
	a.bundle = nil
	c.asks.Remove(&a.node)
}

// clear empties c for reuse.
func (c *bundle) clear() { *c = bundle{node: list.Node[*bundle]{Of: c}} }

// one returns the first request of c. All others are equal to it.
func (c *bundle) one() *ask { return c.asks.First.Of }

// send marks the requests of c as sent. The caller has locked the lane.
func (c *bundle) send() {
	for k := c.asks.First; k != nil; k = k.Next {
		k.Of.sent = true
	}
}

// answer gives every request its decision, or the error. It returns the requests that the
// call did not reach, nil if it reached all.
func (c *bundle) answer(d decided, err error) (rest *list.Node[*ask]) {
	k, round := c.asks.First, 0
	for k != nil {
		if err == nil && round == d.rounds {
			if !d.denied {
				return k
			}
			round-- // the others get the same denial
		}
		a, next := k.Of, k.Next
		a.node = list.Node[*ask]{}
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
