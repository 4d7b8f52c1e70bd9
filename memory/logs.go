package memory

import "github.com/weir-go/weir/internal/ground/family"

// logs stores the lists of the keys of one shard. What is in a list, its family knows.
type logs struct {
	nodes
	hand   uint32 // index into table.buckets, where sweep stopped
	limits *scopedLimits

	failedAt int64 // when findNode last found nothing for a short log: see searchPause
	bound    *list // that store hands to families, made once
}

// forget frees the nodes of s, if s has a list and is about to be overwritten.
func (l *logs) forget(s *state) {
	if s.limitID == 0 || !s.mayList() || l.limits.get(s.limitID).lister == nil {
		return
	}
	for i := s.log().Head(); i != 0; {
		next := l.at(i).next
		l.Free(i)
		i = next
	}
}

// store gives the units of s their place in the list of a key, as of now, and stores s in e, the
// entry of hash. found is as in [states.store].
func (l *logs) store(e *entry, hash uint64, limit *scopedLimit, s family.Used, now int64,
	value uint64, t *table, found bool) {
	switch log := family.Log(s); {
	case !found:
		s = family.Used(log.Unlisted()) // its nodes are free, or in other lists
	case log.Head() != 0:
		s = family.Used(log.On(e.log())) // other keys may have taken nodes from it since
	default:
		l.forget(&e.state)
	}
	if l.bound == nil {
		l.bound = &list{logs: l, table: t}
	}
	l.bound.own, l.bound.limit, l.bound.now = e, limit, now
	s = limit.lister.Store(s, now, value, l.bound)
	e.hash, e.limitID = hash, limit.id
	e.set(s)
}

// list implements [family.List] for the list that is being stored.
type list struct {
	*logs
	table *table
	own   *entry // of the list
	limit *scopedLimit
	now   int64
}

const (
	sweepBuckets = 256 // buckets after which sweep stops
	sweepLogs    = 12  // logs after which it stops
	longLog      = 256 // nodes of a log at which it stops: so many are enough to shrink

	// Suppose that a log of a few nodes, fewer than it needs to shrink, finds none for its next
	// taking, and that its share number has more than half of all nodes. Then such logs do not
	// search for Period/searchPause.
	searchPause = 256
)

// length returns how many nodes a list has, counting up to longLog.
func (l *logs) length(head uint32) (n int) {
	for i := head; i != 0 && n < longLog; i = l.at(i).next {
		n++
	}
	return n
}

// Append implements [family.List].
func (l *list) Append(head, tail uint32, e family.Entry) uint32 {
	share := l.limit.share
	i := l.get(share)
	if i == 0 {
		if i = l.findNode(head); i == 0 {
			return 0
		}
	}
	*l.at(i) = logNode{word: e.Word, units: e.Units, mark: e.Mark, share: share}
	if tail != 0 {
		l.at(tail).next = i
	}
	return i
}

// findNode returns a node for the list of l, which begins with head, when none is unused. It tries
// in turn:
//
//  1. A sweep frees expired nodes.
//  2. The log that the sweep returns shrinks. If it is under the share number of l, it must have at
//     least two nodes more than the list from head on.
//
// Otherwise it returns 0, and the family shrinks the list itself if it is long enough.
func (l *list) findNode(head uint32) uint32 {
	share := l.limit.share
	own := l.length(head)
	pauses := 0 < own && own < family.FewEntries && l.inUse[share] > l.made/2 // see searchPause
	if pauses && l.now-l.failedAt < l.limit.Period/searchPause {
		return 0
	}
	longest := l.sweep()
	if l.free != 0 {
		return l.get(share)
	}
	if longest.share != share || longest.nodes >= own+2 { // it has a node in either case
		s := longest.state
		s.set(longest.limit.lister.Shrink(s.used(), &l.nodes))
		return l.get(share)
	}
	if pauses {
		l.failedAt = l.now
	}
	return 0
}

// seenLog is a log that a sweep saw.
type seenLog struct {
	state *state
	limit *scopedLimit
	nodes int // at most longLog
	share uint8
}

// sweep frees expired nodes of other logs, from the bucket where it stopped last time, until a node
// is unused. Of the share numbers of l and of the logs that it sees, one has the most nodes; in a
// tie, that of l. sweep returns the longest log that it saw under this number. nodes is 0 if it saw
// none.
func (l *list) sweep() seenLog {
	t, longest, logs := l.table, seenLog{share: l.limit.share}, 0
	for range min(sweepBuckets, len(t.buckets)) {
		if l.hand++; l.hand >= uint32(len(t.buckets)) {
			l.hand = 0
		}
		slots := &t.buckets[l.hand]
		for i := range slots {
			e := &slots[i]
			if e.empty() || !e.mayList() || e == l.own {
				continue
			}
			limit := l.limits.get(e.limitID)
			if limit.lister == nil {
				continue
			}
			e.set(limit.lister.Expire(e.used(), l.now, &l.nodes))
			if !e.mayList() {
				continue
			}
			logs++
			seen := seenLog{&e.state, limit, l.length(e.log().Head()), limit.share}
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
