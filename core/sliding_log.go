package core

// A sliding log is a list of earlier takings, oldest first, in the nodes of its
// shard, and its latest taking in the state itself: a key that has been charged
// once needs no node.

// logView is a log as of some instant.
type logView struct {
	head     uint32 // oldest node that still counts; 0: none
	sum      int64  // units that still count, the latest taking included
	latest   int64  // units of the latest taking if it still counts
	latestAt int64
	taken    int64  // units added since, at settled.held
	merges   uint32 // logNodes.merges when head and latest were true
}

// forgetNodes makes v a log without nodes. A key that was found, but has been
// displaced by another of its group since, has lost them: its earlier takings
// are remembered as of the latest, for longer than they should be.
func (v *logView) forgetNodes() {
	if v.head != 0 {
		v.head, v.latest = 0, v.sum
	}
}

const logListShift = 32

func (s *state) logHead() uint32     { return uint32(s.a >> logListShift) }
func (s *state) logTail() uint32     { return uint32(s.a) }
func (s *state) logSum() int64       { return int64(s.b >> 16) }
func (s *state) logLatest() int64    { return int64(s.b & 0xffff) }
func packLog(sum, cost int64) uint32 { return uint32(sum)<<16 | uint32(cost) }
func packList(head, tail uint32) int64 {
	return int64(head)<<logListShift | int64(tail)
}

// settleLog leaves in s.log what still counts at s.held.
func (t *terms) settleLog(s *settled, nodes *logNodes) {
	if s.b == 0 || s.held >= s.at+t.period {
		*s = settled{state: state{at: s.held}, held: s.held}
		return
	}
	view := logView{head: s.logHead(), sum: s.logSum(), latest: s.logLatest(), latestAt: s.at}
	if view.head != 0 {
		view.merges = nodes.merges
		t.dropExpired(&view, s.held, nodes)
	}
	s.log = view
}

// dropExpired removes from v the nodes that no longer count at the instant held.
func (t *terms) dropExpired(v *logView, held int64, nodes *logNodes) {
	for v.head != 0 {
		node := nodes.at(v.head)
		if held < node.at+t.period {
			return
		}
		v.sum -= int64(node.cost)
		v.head = node.next
	}
}

// logUntilFits finds the instant at which enough of the oldest have left. It
// looks at one entry for each that has to leave.
func (t *terms) logUntilFits(s *settled, n int64, nodes *logNodes) int64 {
	excess := t.inUse(s) + n - t.max
	for i := s.log.head; i != 0; {
		node := nodes.at(i)
		excess -= int64(node.cost)
		if excess <= 0 {
			return node.at + t.period - s.held
		}
		i = node.next
	}
	if excess -= s.log.latest; excess <= 0 {
		return s.log.latestAt + t.period - s.held
	}
	return t.period
}

// storeLogLocked is storeLocked for a log and its entry: that of hash, or an
// empty one.
func (sh *shard) storeLogLocked(e *entry, hash uint64, k *class, s *settled, now int64) {
	l, v := &sh.nodes, &s.log
	found := e.hash == hash
	apart := v.latest > 0 && v.latestAt != s.held // the taking before needs a node
	node := uint32(0)
	if found {
		k.refresh(v, e, s.held, l)
		if old := e.logHead(); apart && old != v.head {
			node = old // of a taking that has expired
			e.a = packList(l.at(old).next, e.logTail())
		}
		sh.releaseLocked(&e.state, v.head)
	}
	if apart && node == 0 {
		node = l.get(k.share)
	}
	if apart && node == 0 {
		if found { // a log like any other, while nodes are looked for
			e.a, e.b = packList(v.head, e.logTail()), packLog(v.sum, v.latest)
			if v.head == 0 {
				e.a = 0
			}
		}
		node = sh.findNodeLocked(e, k, now)
		if found {
			k.refresh(v, e, s.held, l)
		}
	}
	tail := uint32(0)
	if v.head != 0 {
		tail = e.logTail()
	}
	head, cost := v.head, v.taken
	if node != 0 {
		*l.at(node) = logNode{at: v.latestAt, cost: uint32(v.latest)}
		if tail == 0 {
			head = node
		} else {
			l.at(tail).next = node
		}
		tail = node
	} else {
		// Either taken at the same instant, or there is no node: then the taking
		// before counts as taken now, for longer than it should.
		cost += v.latest
	}
	e.hash = hash
	e.state = state{at: s.held, class: k.id, a: packList(head, tail), b: packLog(v.sum+v.taken, cost)}
}

// refresh makes v true again if logs were merged since. e is its entry.
func (t *terms) refresh(v *logView, e *entry, held int64, nodes *logNodes) {
	if v.head != 0 && v.merges != nodes.merges {
		v.head, v.sum, v.latest, v.merges = e.logHead(), e.logSum(), e.logLatest(), nodes.merges
		t.dropExpired(v, held, nodes)
	}
}
