package memory

import (
	"math"
	"math/bits"
)

// logNode is one taking, or several that are merged.
type logNode struct {
	at   int64
	cost uint32
	next uint32 // in the log or in the list of free nodes; 0: none
}

// shares is how many share numbers there are. Scopes are numbered, so that each has
// its share of nodes and slots. Where there are more scopes, several have one number.
const shares = 256

const pieceNodes = 256 // 4 KiB

// logNodes are the nodes of one shard, numbered from 1. They are allocated in pieces, as
// needed, and are never returned. They contain no pointers.
type logNodes struct {
	pieces []*[pieceNodes]logNode
	made   uint32          // how many nodes there are
	most   uint32          // how many there may be
	free   uint32          // list of those that no log uses
	inUse  *[shares]uint32 // by share number
	hand   uint32          // the bucket at which sweepLocked looked last

	failedAt int64 // when a log with few nodes, of a scope that has most of them, last found none
}

func (l *logNodes) at(i uint32) *logNode {
	i--
	return &l.pieces[i/pieceNodes][i%pieceNodes]
}

// get returns a free node, or 0.
func (l *logNodes) get(share uint8) uint32 {
	i := l.free
	switch {
	case i != 0:
		l.free = l.at(i).next
	case l.made < l.most:
		i = l.make()
	default:
		return 0
	}
	l.inUse[share]++
	return i
}

// make returns a node that was never used.
func (l *logNodes) make() uint32 {
	if l.made == 0 {
		l.inUse = new([shares]uint32)
	}
	if l.made%pieceNodes == 0 {
		l.pieces = append(l.pieces, new([pieceNodes]logNode))
	}
	l.made++
	return l.made
}

// put makes the node i free.
func (l *logNodes) put(i uint32, share uint8) {
	l.at(i).next = l.free
	l.free = i
	l.inUse[share]--
}

// release frees the list of s.
func (l *logNodes) release(s *state, share uint8) {
	for i := s.used().Head(); i != 0; {
		next := l.at(i).next
		l.put(i, share)
		i = next
	}
}

// expire frees the nodes of s, a log under limit, that have expired at the instant asOf.
func (l *logNodes) expire(s *state, limit *scopedLimit, asOf int64) {
	before := s.used()
	after := limit.DropExpired(before, asOf, l)
	for i := before.Head(); i != after.Head(); {
		next := l.at(i).next
		l.put(i, limit.share)
		i = next
	}
	s.set(after)
}

// length returns how many nodes the list of s has, counting up to most.
func (l *logNodes) length(s *state, most int) (n int) {
	for i := s.used().Head(); i != 0 && n < most; i = l.at(i).next {
		n++
	}
	return n
}

const (
	// How far sweepLocked looks at most.
	sweepBuckets = 256
	sweepLogs    = 12

	// longLog is how many nodes make a log long enough to yield.
	longLog = 256

	// fewNodes is how many nodes a log needs before its own takings are merged for its
	// next one. A log with fewer does better to wait until one of its nodes expires.
	fewNodes = 4

	// searchPause is the part of the period for which such a log is not searched for
	// again after a search that failed.
	searchPause = 256
)

// findNodeLocked returns a node for the log in e, a state under limit or an empty one,
// when none is free; 0 if it finds none. It looks for nodes that have expired. If it finds
// none, the scope with most nodes in the shard yields, of those that it has seen and
// limit's own: takings in the longest log that it has seen of that scope are merged.
// Within limit's scope, only a log with at least two nodes more than the one in e yields.
func (sh *shard) findNodeLocked(e *entry, limit *scopedLimit) uint32 {
	l := &sh.nodes
	own := l.length(&e.state, longLog)
	waits := 0 < own && own < fewNodes && l.inUse[limit.share] > l.made/2
	if waits && sh.latest-l.failedAt < limit.Period/searchPause {
		return 0
	}
	longest, most, share := sh.sweepLocked(limit.share)
	switch {
	case l.free != 0:
		return l.get(limit.share)
	case share != limit.share || most >= own+2:
	case own >= fewNodes:
		longest = e
	default:
		if waits {
			l.failedAt = sh.latest
		}
		return 0
	}
	l.merge(&longest.state, share)
	return l.get(limit.share)
}

// sweepLocked frees expired nodes in some buckets, from where it stopped last time, until
// a node is free. It also returns the longest log that it has seen of the scope with most
// nodes, or of the one with the given share if none has more, and how many nodes that has.
func (sh *shard) sweepLocked(share uint8) (longest *entry, most int, of uint8) {
	l := &sh.nodes
	logs := 0
	for range min(sweepBuckets, len(sh.buckets)) {
		if l.hand++; l.hand >= uint32(len(sh.buckets)) {
			l.hand = 0
		}
		slots := &sh.buckets[l.hand]
		for i := range slots {
			e := &slots[i]
			if e.empty() || e.a == 0 {
				continue
			}
			limit := sh.limits.get(e.limitID)
			if !limit.Lists {
				continue
			}
			if l.expire(&e.state, limit, sh.latest); e.a == 0 {
				continue
			}
			logs++
			if n := l.length(&e.state, longLog); limit.share == share && n > most || l.inUse[limit.share] > l.inUse[share] {
				longest, most, share = e, n, limit.share
			}
		}
		if l.free != 0 || logs >= sweepLogs || most >= longLog {
			break
		}
	}
	return longest, most, share
}

// merge frees a quarter of the nodes of s or more, at least one. Takings in one
// interval of time become one, at the instant of the last of them: they count for longer,
// by less than the interval. The interval is a power of two of microseconds, so that
// intervals nest: no taking counts for longer than by the longest one, however often a log
// is merged.
func (l *logNodes) merge(s *state, share uint8) {
	n := l.length(s, math.MaxInt)
	log := s.used()
	shift := 63 // everything becomes one with the latest taking
	if keep := int64(n - max(1, n/4)); keep > 0 {
		shift = bits.Len64(uint64((s.at - l.at(log.Head()).at) / keep)) // at most keep intervals, and that of the latest
	}
	latest := log.Latest()
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
