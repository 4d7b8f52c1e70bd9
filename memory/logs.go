package memory

import (
	"math"
	"math/bits"

	"github.com/weir-go/weir/internal/ground/family"
)

// logs are the sliding logs of one shard, lists of nodes. A log of values has two nodes for each
// value: one with the instant, and behind it one with a digest in place of an instant. A unit whose
// value is not known has one node, like those of other logs.
type logs struct {
	nodes
	hand   uint32 // index into table.buckets, where sweep stopped
	limits *scopedLimits

	// value is the value that is charged or refunded. Callers set it before decisions,
	// refunds and storeValue, in place of a parameter that most algorithms would ignore.
	value uint64

	failedAt int64 // when findNode last found nothing for a short log: see searchPause
}

// release frees the nodes of s, a log.
func (l *logs) release(s *state, share uint8) {
	for i := s.log().Head(); i != 0; {
		next := l.at(i).next
		l.put(i, share)
		i = next
	}
}

// forget frees the nodes of s, if s is a log that is about to be overwritten.
func (l *logs) forget(s *state) {
	if s.limitID == 0 || s.a == 0 {
		return
	}
	if limit := l.limits.get(s.limitID); limit.Lists {
		l.release(s, limit.share)
	}
}

// expire frees the nodes of s, a log under limit, that have expired at asOf.
func (l *logs) expire(s *state, limit *scopedLimit, asOf int64) {
	before := s.log()
	after := before.Drop(asOf-limit.Period, l)
	for i := before.Head(); i != after.Head(); {
		next := l.at(i).next
		l.put(i, limit.share)
		i = next
	}
	s.set(family.Used(after))
}

// length returns how many nodes s has, counting up to most.
func (l *logs) length(s *state, most int) (n int) {
	for i := s.log().Head(); i != 0 && n < most; i = l.at(i).next {
		n++
	}
	return n
}

// Entry implements [family.Entries].
func (l *logs) Entry(i uint32) (at, units int64, next uint32) {
	node := l.at(i)
	if next = node.next; node.cost&isNamed != 0 {
		next = l.at(next).next
	}
	return node.at, int64(node.cost & unitsMask), next
}

// SetUnits implements [family.Entries].
func (l *logs) SetUnits(i uint32, units int64) {
	node := l.at(i)
	node.cost = node.cost&^unitsMask | uint32(units)
}

// OfValue and IsSeenAgain implement [family.Entries].
func (l *logs) OfValue(head uint32) uint32 {
	for i := head; i != 0; {
		node := l.at(i)
		if node.cost&isNamed != 0 {
			digest := l.at(node.next)
			if digest.at == int64(l.value) && node.cost&unitsMask > 0 {
				return i
			}
			node = digest
		}
		i = node.next
	}
	return 0
}

func (l *logs) IsSeenAgain(i uint32) bool { return l.at(i).cost&isRepeat != 0 }

// store is states.store for a log. found is false if the key lost its nodes after s was
// read. All its takings then count as one, as of the latest: longer than they should.
func (l *logs) store(e *entry, hash uint64, limit *scopedLimit, s family.Log, t *table, now int64,
	found bool) {
	head, sum, latest := s.Head(), s.Sum(), s.Latest()
	if !found && head != 0 {
		head, latest = 0, sum
	}
	listed := e.hash == hash && head != 0
	switch {
	case listed:
		l.expire(&e.state, limit, now)
	case e.hash == hash:
		l.forget(&e.state)
		e.a = 0
	}
	node := uint32(0)
	if latest > 0 && s.At != now { // the latest taking so far moves to a node
		if node = l.get(limit.share); node == 0 {
			node = l.findNode(e, limit, t, now)
		}
	}
	tail, cost := uint32(0), s.Pending()
	if listed { // findNode may have merged takings
		stored := e.log()
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
	stored := family.Log{At: now, Serial: s.Serial}.With(sum+s.Pending(), cost, head, tail)
	e.set(family.Used(stored))
}

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
	*l.at(second) = logNode{at: int64(l.value)}
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

// cut frees the nodes of s, a log, behind the last node of after.
func (l *logs) cut(s *state, after family.Log, share uint8) {
	before := s.log()
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

const (
	sweepBuckets = 256 // buckets after which sweep stops
	sweepLogs    = 12  // logs after which it stops
	longLog      = 256 // nodes of a log at which it stops: so many are enough to merge

	// A log merges its own takings only if it has fewNodes nodes or more. A shorter one gets no
	// node if no other log yields one.
	fewNodes = 4

	// Suppose that a log of 1 to 3 nodes finds no node for its next taking, and that its share
	// number has more than half of all nodes. Then such logs do not search for Period/searchPause.
	searchPause = 256
)

// findNode returns a node for the log in e when no node is unused. e is under limit, or
// empty. It tries in turn:
//
//  1. A sweep frees expired nodes.
//  2. The log that the sweep returns merges its takings. If it is under limit's own share number,
//     it must have at least two nodes more than e.
//  3. The log in e merges its own takings, if it has fewNodes nodes or more.
//
// Otherwise it returns 0.
func (l *logs) findNode(e *entry, limit *scopedLimit, t *table, now int64) uint32 {
	own := l.length(&e.state, longLog)
	pauses := 0 < own && own < fewNodes && l.inUse[limit.share] > l.made/2 // see searchPause
	if pauses && now-l.failedAt < limit.Period/searchPause {
		return 0
	}
	longest := l.sweep(limit.share, t, now)
	if l.free != 0 {
		return l.get(limit.share)
	}
	isOthers := longest.share != limit.share
	if isOthers || longest.nodes >= own+2 { // it has a node in either case
		l.merge(longest.state, longest.share)
		return l.get(limit.share)
	}
	if own >= fewNodes {
		l.merge(&e.state, limit.share)
		return l.get(limit.share)
	}
	if pauses {
		l.failedAt = now
	}
	return 0
}

// seenLog is a log that a sweep saw.
type seenLog struct {
	state *state
	nodes int // at most longLog
	share uint8
}

// sweep frees expired nodes, from the bucket where it stopped last time, until a node is
// unused. It compares the given share number with those of the logs that it sees. It returns the
// longest log that it saw of the number with the most nodes. In a tie that is the given number. If
// it saw none of its logs, nodes is 0.
func (l *logs) sweep(share uint8, t *table, now int64) seenLog {
	longest := seenLog{share: share}
	logs := 0
	for range min(sweepBuckets, len(t.buckets)) {
		if l.hand++; l.hand >= uint32(len(t.buckets)) {
			l.hand = 0
		}
		slots := &t.buckets[l.hand]
		for i := range slots {
			e := &slots[i]
			if e.empty() || !e.listsNodes() {
				continue
			}
			limit := l.limits.get(e.limitID)
			if !limit.Lists {
				continue
			}
			if l.expire(&e.state, limit, now); !e.listsNodes() {
				continue
			}
			logs++
			seen := seenLog{&e.state, l.length(&e.state, longLog), limit.share}
			if l.inUse[seen.share] > l.inUse[longest.share] ||
				seen.share == longest.share && seen.nodes > longest.nodes {
				longest = seen
			}
		}
		if l.free != 0 || logs >= sweepLogs || longest.nodes >= longLog {
			break
		}
	}
	return longest
}

// merge frees nodes of s, at least one. If the log has digests, it frees only digests, those of the
// oldest values: as many as a quarter of the nodes, or all digests if there are fewer. Otherwise it
// merges takings, and frees at least a quarter of the nodes.
//
// It merges the takings within one interval into the last of them, so they count longer, by less
// than the interval. The interval is a power of two microseconds. So intervals nest: however often
// a log is merged, no taking counts longer by more than the longest interval.
//
// An example. The nodes are at 1, 2, 5 and 11 µs, and the latest taking is at 13 µs:
//
//	keep 3 of 4 nodes   (13 − 1)/3 = 4 < 2³, so shift is 3: intervals of 8 µs
//	0 to 7 µs           1, 2 and 5 become one node at 5 µs
//	8 to 15 µs          11 becomes part of the latest taking
//	                    one node is left, and three are free
func (l *logs) merge(s *state, share uint8) {
	n := l.length(s, math.MaxInt)
	if l.forgetValues(s, max(1, n/4), share) > 0 {
		return
	}
	log := s.log()
	shift := 63 // one interval: all become part of the latest taking
	if keep := int64(n - max(1, n/4)); keep > 0 {
		// An interval is longer than the time from the oldest to the latest, divided by keep. So the
		// nodes lie in the interval of the latest and in keep intervals at most.
		shift = bits.Len64(uint64((s.at - l.at(log.Head()).at) / keep))
	}
	latest := log.Latest() // units of the latest taking, which is in s and has no node
	head, tail := uint32(0), uint32(0)
	link := &head
	for i := log.Head(); i != 0; {
		node := *l.at(i)
		switch {
		case node.next != 0 && node.at>>shift == l.at(node.next).at>>shift:
			l.at(node.next).cost += node.cost
			l.put(i, share)
		case node.next == 0 && node.at>>shift == s.at>>shift:
			latest += int64(node.cost)
			l.put(i, share)
		default:
			*link, tail = i, i
			link = &l.at(i).next
		}
		i = node.next
	}
	*link = 0
	s.setLog(log.Sum(), latest, head, tail)
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
