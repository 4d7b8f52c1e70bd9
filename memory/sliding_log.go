package memory

import "github.com/weir-go/weir/internal/ground/family"

// Entry and SetUnits implement [family.Entries].
func (l *logNodes) Entry(i uint32) (at, units int64, next uint32) {
	node := l.at(i)
	return node.at, int64(node.cost), node.next
}

func (l *logNodes) SetUnits(i uint32, units int64) { l.at(i).cost = uint32(units) }

// setLog makes s a log with these numbers and nodes.
func (s *state) setLog(sum, latest int64, head, tail uint32) {
	s.set(s.used().WithLog(sum, latest, head, tail))
}

// storeLogLocked is storeLocked for a log. found is false if the key lost its nodes since s was read:
// its earlier takings then count as the latest, for longer than they should.
func (sh *shard) storeLogLocked(e *entry, hash uint64, limit *scopedLimit, s family.Used, now int64, found bool) {
	l := &sh.nodes
	head, sum, latest := s.Head(), s.Sum(), s.Latest()
	if !found && head != 0 {
		head, latest = 0, sum
	}
	listed := e.hash == hash && head != 0
	switch {
	case listed:
		l.expire(&e.state, limit, now)
	case e.hash == hash:
		sh.releaseLocked(&e.state)
		e.a = 0
	}
	node := uint32(0)
	if latest > 0 && s.At != now { // the taking before needs a node
		if node = l.get(limit.share); node == 0 {
			node = sh.findNodeLocked(e, limit)
		}
	}
	tail, cost := uint32(0), s.Pending()
	if listed { // takings may have been merged since s was read
		found := e.used()
		head, tail, sum, latest = found.Head(), found.Tail(), found.Sum(), found.Latest()
	}
	if node != 0 {
		*l.at(node) = logNode{at: s.At, cost: uint32(latest)}
		if tail == 0 {
			head = node
		} else {
			l.at(tail).next = node
		}
		tail = node
	} else {
		// Either both were taken at the same instant, or there is no node. Then the
		// taking before counts as taken now, for longer than it should.
		cost += latest
	}
	e.hash, e.limitID = hash, limit.id
	e.set(family.Used{At: now, Serial: s.Serial}.WithLog(sum+s.Pending(), cost, head, tail))
}

// cut frees the nodes of s, a log, that after does not have: those behind its last one.
func (l *logNodes) cut(s *state, after family.Used, share uint8) {
	before := s.used()
	if before.Tail() == after.Tail() {
		return
	}
	i := before.Head()
	if tail := after.Tail(); tail != 0 {
		i, l.at(tail).next = l.at(tail).next, 0
	}
	for i != 0 {
		next := l.at(i).next
		l.put(i, share)
		i = next
	}
}
