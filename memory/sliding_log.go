package memory

import "github.com/weir-go/weir/internal/ground/family"

// Entry implements [family.Entries].
func (l *logNodes) Entry(i uint32) (at, units int64, next uint32) {
	node := l.at(i)
	if next = node.next; node.cost&isNamed != 0 {
		next = l.at(next).next
	}
	return node.at, int64(node.cost & unitsMask), next
}

// SetUnits implements [family.Entries].
func (l *logNodes) SetUnits(i uint32, units int64) {
	node := l.at(i)
	node.cost = node.cost&^unitsMask | uint32(units)
}

// setLog sets the numbers and the list of nodes of s, a log.
func (s *state) setLog(sum, latest int64, head, tail uint32) {
	s.set(s.used().WithLog(sum, latest, head, tail))
}

// storeLogLocked is storeLocked for a log. found is false if the key lost its nodes after s was
// read. All its takings then count as one, as of the latest: longer than they should.
func (sh *shard) storeLogLocked(e *entry, hash uint64, limit *scopedLimit, s family.Used, now int64,
	found bool) {
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
	if latest > 0 && s.At != now { // the latest taking so far moves to a node
		if node = l.get(limit.share); node == 0 {
			node = sh.findNodeLocked(e, limit)
		}
	}
	tail, cost := uint32(0), s.Pending()
	if listed { // findNodeLocked may have merged takings
		stored := e.used()
		head, tail, sum, latest = stored.Head(), stored.Tail(), stored.Sum(), stored.Latest()
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
		// Both takings have the same instant, or there is no node. Without a node the earlier
		// taking counts as taken now: longer than it should.
		cost += latest
	}
	e.hash, e.limitID = hash, limit.id
	e.set(family.Used{At: now, Serial: s.Serial}.WithLog(sum+s.Pending(), cost, head, tail))
}

// cut frees the nodes of s, a log, behind the last node of after.
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
