package memory

import "github.com/weir-go/weir/internal/ground/family"

// A log of values has two nodes for each value: one with the instant, and behind it one with a
// digest in place of an instant. A unit whose value is not known has one node, like those of other
// logs.
//
// The cost of a node says what it is, besides its units.
const (
	isNamed   = 1 << 31 // the next node has the digest of the value
	isRepeat  = 1 << 30 // a request had the value that was not the first
	unitsMask = isRepeat - 1
)

// OfValue and IsSeenAgain implement [family.Entries].
func (l *logs) OfValue(head uint32) uint32 {
	for i := head; i != 0; {
		node := l.at(i)
		if node.cost&isNamed != 0 {
			digest := l.at(node.next)
			if digest.at == l.value && node.cost&unitsMask > 0 {
				return i
			}
			node = digest
		}
		i = node.next
	}
	return 0
}

func (l *logs) IsSeenAgain(i uint32) bool { return l.at(i).cost&isRepeat != 0 }

// storeValue is states.store for a log of values, of which l.value was taken. found is
// false if the key lost its nodes since s was read: the values are then no longer known.
func (l *logs) storeValue(e *entry, hash uint64, limit *scopedLimit, s family.Log, t *table,
	now int64, found bool) {
	sum, latest, pending := s.Sum(), s.Latest(), s.Pending()
	switch {
	case e.hash == hash && s.Head() != 0:
		l.expire(&e.state, limit, now)
	case !found && s.Head() != 0:
		latest = sum
		fallthrough
	default:
		if e.hash == hash {
			l.forget(&e.state)
		}
		e.hash, e.limitID, e.state.a = hash, limit.id, 0
		e.set(family.Used(family.Log{At: s.At}.With(sum, latest, 0, 0)))
	}
	e.limitID, e.serial = limit.id, s.Serial
	repeat := l.drop(&e.state, limit.share)
	if log := e.log(); log.Latest() > 0 && log.At != now { // what has no node needs one
		if node := l.node(e, limit, t, now); node != 0 {
			log = e.log() // the log may have been merged
			*l.at(node) = logNode{at: log.At, cost: uint32(log.Latest())}
			l.append(&e.state, node, node, log.Sum(), 0)
		}
	}
	log := e.log()
	log.At = now
	e.set(family.Used(log))
	if pending == 0 {
		return
	}
	first, second := l.node(e, limit, t, now), uint32(0)
	if first != 0 {
		second = l.node(e, limit, t, now)
	}
	log = e.log()
	if second == 0 { // it counts, and is not known
		if first != 0 {
			l.put(first, limit.share)
		}
		e.state.setLog(log.Sum()+1, log.Latest()+1, log.Head(), log.Tail())
		return
	}
	*l.at(first) = logNode{at: now, cost: 1 | isNamed, next: second}
	if repeat {
		l.at(first).cost |= isRepeat
	}
	*l.at(second) = logNode{at: l.value}
	l.append(&e.state, first, second, log.Sum()+1, log.Latest())
}

// node returns a free node for the log in e, or 0.
func (l *logs) node(e *entry, limit *scopedLimit, t *table, now int64) uint32 {
	if node := l.get(limit.share); node != 0 {
		return node
	}
	return l.findNode(e, limit, t, now)
}

// append puts the nodes from first to last at the end of s.
func (l *logs) append(s *state, first, last uint32, sum, latest int64) {
	head, tail := s.log().Head(), s.log().Tail()
	if head == 0 {
		head = first
	} else {
		l.at(tail).next = first
	}
	s.setLog(sum, latest, head, last)
}

// drop frees the nodes of the value that was taken, and reports whether s had it.
func (l *logs) drop(s *state, share uint8) bool {
	log := s.log()
	gone := l.OfValue(log.Head())
	if gone == 0 {
		return false
	}
	_, units, _ := l.Entry(gone)
	log = l.without(gone, log, share)
	s.setLog(log.Sum()-units, log.Latest(), log.Head(), log.Tail())
	return true
}

// without frees the nodes of a value from log, and returns log with the list that is left.
func (l *logs) without(value uint32, log family.Log, share uint8) family.Log {
	before, head, tail := uint32(0), log.Head(), log.Tail()
	for i := head; i != value; i = l.at(i).next {
		before = i
	}
	digest := l.at(value).next
	next := l.at(digest).next
	if before == 0 {
		head = next
	} else {
		l.at(before).next = next
	}
	if next == 0 {
		tail = before
	}
	l.put(digest, share)
	l.put(value, share)
	return log.With(log.Sum(), log.Latest(), head, tail)
}

// forgetValues frees the digests of the oldest values of s, of most at most, and returns how many.
// Their units count on, and are then of values that are not known.
func (l *logs) forgetValues(s *state, most int, share uint8) (n int) {
	log := s.log()
	tail := log.Tail()
	for i := log.Head(); i != 0 && n < most; {
		node := l.at(i)
		if node.cost&isNamed != 0 {
			digest := node.next
			node.cost &= unitsMask
			node.next = l.at(digest).next
			if tail == digest {
				tail = i
			}
			l.put(digest, share)
			n++
		}
		i = node.next
	}
	s.setLog(log.Sum(), log.Latest(), log.Head(), tail)
	return n
}
