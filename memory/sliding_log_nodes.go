package memory

import (
	"math"
	"math/bits"
)

// logNode is one taking, or several that were merged.
type logNode struct {
	at   int64
	cost uint32
	next uint32 // next node of the log, or of the free list; 0: none
}

// shares is how many share numbers there are. The nodes and slots of a scope are counted under its
// number. With more scopes, several have one number.
const shares = 256

const pieceNodes = 256 // 4 KiB

// logNodes holds the nodes of one shard, numbered from 1. They are allocated in pieces, as needed,
// and never freed to the system. They contain no pointers.
type logNodes struct {
	pieces []*[pieceNodes]logNode
	made   uint32          // nodes allocated
	most   uint32          // nodes that may be allocated
	free   uint32          // head of the list of unused nodes
	inUse  *[shares]uint32 // nodes in logs, by share number
	hand   uint32          // the bucket at which sweepLocked stopped

	// value is an argument of decisions, refunds and storeValueLocked: the digest of the
	// value that is charged or refunded. Only limits that count values read it.
	value int64

	failedAt int64 // when findNodeLocked last found nothing for a short log: see searchPause
}

func (l *logNodes) at(i uint32) *logNode {
	i--
	return &l.pieces[i/pieceNodes][i%pieceNodes]
}

// get returns an unused node, or 0.
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

// make allocates a node.
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

// put adds the node i to the free list.
func (l *logNodes) put(i uint32, share uint8) {
	l.at(i).next = l.free
	l.free = i
	l.inUse[share]--
}

// release frees the nodes of s, a log.
func (l *logNodes) release(s *state, share uint8) {
	for i := s.used().Head(); i != 0; {
		next := l.at(i).next
		l.put(i, share)
		i = next
	}
}

// expire frees the nodes of s, a log under limit, that have expired at asOf.
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

// length returns how many nodes s has, counting up to most.
func (l *logNodes) length(s *state, most int) (n int) {
	for i := s.used().Head(); i != 0 && n < most; i = l.at(i).next {
		n++
	}
	return n
}

const (
	// sweepLocked stops after so many buckets, or after so many logs.
	sweepBuckets = 256
	sweepLogs    = 12

	// sweepLocked also stops at a log of so many nodes: it is long enough to be merged.
	longLog = 256

	// A log merges its own takings only if it has fewNodes nodes or more. A shorter one gets no
	// node if no other log yields one.
	fewNodes = 4

	// findNodeLocked may fail for a shorter log of a scope with most nodes. For 1/searchPause of the
	// period it then fails for all such logs at once, without a sweep.
	searchPause = 256
)

// findNodeLocked returns a node for the log in e when no node is unused. e is under limit, or
// empty. It tries in turn:
//
//  1. A sweep frees expired nodes.
//  2. Another log merges its takings: of the scope with the most nodes, the longest log that the
//     sweep saw. If that is limit's own scope, the log must have at least two nodes more than e.
//  3. The log in e merges its own takings, if it has fewNodes nodes or more.
//
// Otherwise it returns 0.
func (sh *shard) findNodeLocked(e *entry, limit *scopedLimit) uint32 {
	l := &sh.nodes
	own := l.length(&e.state, longLog)
	pauses := 0 < own && own < fewNodes && l.inUse[limit.share] > l.made/2 // see searchPause
	if pauses && sh.latest-l.failedAt < limit.Period/searchPause {
		return 0
	}
	longest, most, share := sh.sweepLocked(limit.share)
	switch {
	case l.free != 0:
		return l.get(limit.share)
	case share != limit.share || most >= own+2: // longest yields
	case own >= fewNodes:
		longest = e
	default:
		if pauses {
			l.failedAt = sh.latest
		}
		return 0
	}
	l.merge(&longest.state, share)
	return l.get(limit.share)
}

// sweepLocked frees expired nodes, from the bucket where it stopped last time, until a node is
// unused. crowded is the share number with the most nodes: the given one, or of a log that it saw.
// In a tie it is the given one. longest is the longest log that it saw under that number, and most
// is how many nodes longest has.
func (sh *shard) sweepLocked(share uint8) (longest *entry, most int, crowded uint8) {
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
			// A longer log under this number, or a log under a number with more nodes.
			if n := l.length(&e.state, longLog); limit.share == share && n > most ||
				l.inUse[limit.share] > l.inUse[share] {
				longest, most, share = e, n, limit.share
			}
		}
		if l.free != 0 || logs >= sweepLogs || most >= longLog {
			break
		}
	}
	return longest, most, share
}

// merge frees at least a quarter of the nodes of s, and at least one. It merges the takings within
// one interval into the last of them, so they count longer, by less than the interval. The interval
// is a power of two microseconds. So intervals nest: however often a log is merged, no taking
// counts longer by more than the longest interval. A log of values instead frees digests of its
// oldest values, as many or all that it has, and merges only without any.
//
// An example. The nodes are at 1, 2, 5 and 11 µs, and the latest taking is at 13 µs:
//
//	keep 3 of 4 nodes   (13 − 1)/3 = 4, so shift is 3: intervals of 8 µs
//	0 to 7 µs           1, 2 and 5 become one node at 5 µs
//	8 to 15 µs          11 becomes part of the latest taking
//	                    one node is left, and three are free
func (l *logNodes) merge(s *state, share uint8) {
	n := l.length(s, math.MaxInt)
	if l.forgetValues(s, max(1, n/4), share) > 0 {
		return
	}
	log := s.used()
	shift := 63 // one interval: all become part of the latest taking
	if keep := int64(n - max(1, n/4)); keep > 0 {
		// The nodes lie in keep intervals at most, besides the one of the latest taking.
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
