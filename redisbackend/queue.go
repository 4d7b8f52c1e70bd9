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

// newBundle returns a bundle of a.
func newBundle(a *ask) *bundle {
	c := new(bundle)
	c.node.Of = c
	c.add(a)
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

// enqueueLocked has a wait to be sent.
func (l *lane) enqueueLocked(a *ask, accounts []account) {
	a.sent = false
	merges := a.mode == modeTake
	var same batchKey
	if merges {
		a.accounts = append(a.accounts[:0], accounts...)
		same = a.batchKey()
		if c := l.bundles[same]; c != nil {
			c.add(a)
			return
		}
	}
	c := newBundle(a)
	if merges {
		c.same, c.merges = same, true
		l.bundles[same] = c
	}
	c.queue = l.queueOf(a.keys)
	c.queue.Add(&c.node)
	l.countLocked(c, 1)
}

// countLocked adds to the number of bundles that wait for each key of c.
func (l *lane) countLocked(c *bundle, by int) {
	l.weight += by * c.one().weight
	for _, name := range c.one().keys {
		if l.waiting[name] += by; l.waiting[name] == 0 {
			delete(l.waiting, name)
		}
	}
}

// queueOf returns the queue for a request that charges some keys. Each busy key moves it
// one queue back, so that nobody waits behind a client that sends more than Redis can
// decide.
func (l *lane) queueOf(names []string) *list.List[*bundle] {
	busy := 0
	for _, name := range names {
		if l.waiting[name] >= busyKey {
			busy++
		}
	}
	return &l.queues[min(busy, len(l.queues)-1)]
}

// unlinkLocked removes a bundle from its queue.
func (l *lane) unlinkLocked(c *bundle) {
	c.queue.Remove(&c.node)
	c.queue = nil
	l.countLocked(c, -1)
	if c.merges {
		delete(l.bundles, c.same)
	}
}

// collectLocked moves waiting bundles to w, as many as one call may decide.
func (l *lane) collectLocked(w *worker) {
	weight := 0
	for i := range l.queues {
		most := maxWeight - (maxWeight-weight)/8 // the rest is left for the queues behind, so that they advance too
		if i == len(l.queues)-1 {
			most = maxWeight
		}
		for q := &l.queues[i]; q.First != nil && weight < most; {
			c := q.First.Of
			weight += c.one().weight
			l.unlinkLocked(c)
			c.send()
			w.bundles = append(w.bundles, c)
		}
	}
}

// waits reports whether any request waits.
func (l *lane) waits() bool {
	return l.queues[0].First != nil || l.queues[1].First != nil || l.queues[2].First != nil
}

// putBackLocked puts the requests that a call did not reach back to the front.
func (l *lane) putBackLocked(c *bundle, rest *list.Node[*ask]) {
	var again *bundle
	for k := rest; k != nil; {
		a, next := k.Of, k.Next
		a.node = list.Node[*ask]{}
		switch a.sent = false; {
		case a.left:
		case again == nil:
			again = newBundle(a)
		default:
			again.add(a)
		}
		k = next
	}
	if again == nil {
		return
	}
	again.same = c.same
	if l.bundles[c.same] == nil {
		again.merges = true
		l.bundles[c.same] = again
	}
	again.queue = &l.queues[0]
	again.queue.AddFirst(&again.node)
	l.countLocked(again, 1)
}
