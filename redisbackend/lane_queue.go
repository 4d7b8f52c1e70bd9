package redisbackend

import "github.com/weir-go/weir/internal/list"

func (l *lane) enqueueLocked(a *ask, accounts []account) {
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
	var c *bundle
	if n := len(l.spare); n > 0 {
		c, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		c = newBundle()
	}
	if merges {
		c.same, c.merges = same, true
		l.bundles[same] = c
	}
	c.add(a)
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

// keepLocked keeps the memory of a bundle for reuse.
func (l *lane) keepLocked(c *bundle) {
	c.clear()
	if len(l.spare) < maxSpare {
		l.spare = append(l.spare, c)
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
	again := newBundle()
	for k := rest; k != nil; {
		a, next := k.Of, k.Next
		a.node = list.Node[*ask]{}
		if a.sent = false; !a.left {
			again.add(a)
		}
		k = next
	}
	if again.asks.Size == 0 {
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
