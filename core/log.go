package core

import "sync/atomic"

// A sliding log is a list of earlier takings, oldest first, in the nodes of its
// shard, and its latest taking in the state itself: a key that has been charged
// once needs no node.

// logView is a log as of some instant.
type logView struct {
	head     uint32 // oldest node that still counts; 0: none
	sum      int64  // units that still count, the latest taking included
	latest   int64  // units of the latest taking if it still counts
	latestAt int64
	taken    int64 // units added since, at settled.held
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

// settleLog leaves in s.log what still counts at s.held.
func (t *terms) settleLog(s *settled, nodes *logNodes) {
	if s.b == 0 || s.held >= s.at+t.period {
		*s = settled{state: state{at: s.held}, held: s.held}
		return
	}
	view := logView{head: s.logHead(), sum: s.logSum(), latest: s.logLatest(), latestAt: s.at}
	for view.head != 0 {
		node := nodes.at(view.head)
		if s.held < node.at+t.period {
			break
		}
		view.sum -= int64(node.cost)
		view.head = node.next
	}
	s.log = view
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

// logNode is one taking. The node with index 0 is never used.
type logNode struct {
	at   int64
	cost uint32
	next uint32
}

const logSegment = 256 // nodes, 4 KiB

// logNodes holds the nodes of one shard, in segments that it draws from a
// budget shared by all shards and keeps. They contain no pointers.
type logNodes struct {
	segments [][]logNode
	free     uint32 // list of free nodes
	budget   *atomic.Int64
}

func (l *logNodes) at(i uint32) *logNode {
	return &l.segments[i/logSegment][i%logSegment]
}

// get returns an unused node, or 0 if the budget is spent.
func (l *logNodes) get() uint32 {
	if l.free == 0 && !l.extend() {
		return 0
	}
	i := l.free
	l.free = l.at(i).next
	return i
}

func (l *logNodes) extend() bool {
	if l.budget.Add(-logSegment) < 0 {
		l.budget.Add(logSegment)
		return false
	}
	base := uint32(len(l.segments)) * logSegment
	l.segments = append(l.segments, make([]logNode, logSegment))
	for i := uint32(logSegment - 1); i > 0 || base > 0; i-- {
		l.put(base + i)
		if i == 0 {
			break
		}
	}
	return true
}

func (l *logNodes) put(i uint32) {
	l.at(i).next = l.free
	l.free = i
}

// release frees the list of s up to the node end, 0 for all of it.
func (l *logNodes) release(s *state, end uint32) {
	for i := s.logHead(); i != 0 && i != end; {
		next := l.at(i).next
		l.put(i)
		i = next
	}
}

// commit returns the state to store for a log that s.log.taken units were added
// to; old is what is stored now, its list already released up to s.log.head.
//
// When the budget is spent the taking before is remembered together with this
// one, as of now: for longer than it should be, never shorter.
func (l *logNodes) commit(s *settled, old *state) state {
	v := &s.log
	next := state{at: s.held, class: s.class}
	var tail uint32
	if v.head != 0 {
		tail = old.logTail()
	}
	cost, head := v.taken, v.head
	if v.latest > 0 {
		node := uint32(0)
		if v.latestAt != s.held {
			node = l.get()
		}
		if node == 0 {
			cost += v.latest
		} else {
			*l.at(node) = logNode{at: v.latestAt, cost: uint32(v.latest)}
			if tail == 0 {
				head = node
			} else {
				l.at(tail).next = node
			}
			tail = node
		}
	}
	next.a = int64(head)<<logListShift | int64(tail)
	next.b = packLog(v.sum+v.taken, cost)
	return next
}
