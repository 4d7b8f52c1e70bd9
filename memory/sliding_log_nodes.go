package memory

import "sync/atomic"

// logNode is one taking, or several that are merged. The node with index 0 is never
// used.
type logNode struct {
	at   int64
	cost uint32
	next uint32
}

const segmentNodes = 256 // 4 KiB

// logSegment is 256 nodes. The first segment of a shard has none: it is the head of
// two lists, a ring of the segments with room and a list of the returned segments.
type logSegment struct {
	nodes      *[segmentNodes]logNode // nil: returned
	next, prev uint32                 // in the list
	used       uint16
	free       uint16 // the first free node, if used < segmentNodes
}

// shares is how many share numbers there are. Scopes are numbered, so that each has
// its share of nodes and slots. Where there are more scopes, several have one number.
const shares = 256

// logNodes are the nodes of one shard, in segments. A shard has some segments of its
// own. It borrows more from those common to all shards, and returns a borrowed one
// when it is empty. Nodes contain no pointers.
type logNodes struct {
	segments []logSegment
	returned uint32 // list of segments without nodes
	empty    uint32 // a segment without nodes in use that is kept
	drawn    uint32 // how many segments have nodes
	own      uint32
	common   *commonSegments

	inUse  *[shares]uint32 // nodes in use, by share number
	merges uint32          // counts coarsenLocked
	hand   uint32          // the bucket at which to look for nodes next

	vainAt    int64 // when a log of vainShare last found no node
	vainShare uint8
}

// commonSegments are the segments that any shard may borrow.
type commonSegments struct {
	left   atomic.Int64
	shards []shard
	hand   atomic.Uint32 // the shard in which to look for expired nodes next
}

func (l *logNodes) at(i uint32) *logNode {
	return &l.segments[i/segmentNodes].nodes[i%segmentNodes]
}

// get returns a free node of a segment with room, or of a new segment of the shard's
// own, or 0.
func (l *logNodes) get(share uint8) uint32 {
	if len(l.segments) == 0 || l.segments[0].next == 0 {
		if l.drawn >= l.own {
			return 0
		}
		l.draw()
	}
	at := l.segments[0].next
	s := &l.segments[at]
	i := uint32(s.free)
	s.free = uint16(s.nodes[i].next)
	if s.used++; s.used == segmentNodes {
		l.unlink(at)
	}
	if l.empty == at {
		l.empty = 0
	}
	l.inUse[share]++
	return at*segmentNodes + i
}

// put makes the node i free.
func (l *logNodes) put(i uint32, share uint8) {
	at := i / segmentNodes
	s := &l.segments[at]
	s.nodes[i%segmentNodes].next = uint32(s.free)
	s.free = uint16(i % segmentNodes)
	if s.used == segmentNodes {
		l.link(at)
	}
	s.used--
	l.inUse[share]--
	switch {
	case s.used > 0:
	case l.empty == 0:
		l.empty = at
	case l.drawn > l.own:
		l.unlink(at)
		*s = logSegment{next: l.returned}
		l.returned = at
		l.drawn--
		l.common.left.Add(1)
	}
}

// borrow adds a segment of the common ones, and reports whether one was left.
func (l *logNodes) borrow() bool {
	if l.common.left.Add(-1) < 0 {
		l.common.left.Add(1)
		return false
	}
	l.draw()
	return true
}

// draw adds a segment of free nodes.
func (l *logNodes) draw() {
	if len(l.segments) == 0 {
		l.segments = make([]logSegment, 1, 2)
		l.inUse = new([shares]uint32)
	}
	at := l.returned
	if at == 0 {
		at = uint32(len(l.segments))
		l.segments = append(l.segments, logSegment{})
	}
	s := &l.segments[at]
	l.returned = s.next
	s.nodes = new([segmentNodes]logNode)
	for i := range s.nodes {
		s.nodes[i].next = uint32(i) + 1
	}
	l.drawn++
	l.link(at)
}

// link appends a segment to the ring of those with room. Nodes are taken from its
// first segment, so that the others become empty meanwhile.
func (l *logNodes) link(at uint32) {
	s, ring := &l.segments[at], &l.segments[0]
	s.next, s.prev = 0, ring.prev
	l.segments[ring.prev].next = at
	ring.prev = at
}

func (l *logNodes) unlink(at uint32) {
	s := &l.segments[at]
	l.segments[s.prev].next = s.next
	l.segments[s.next].prev = s.prev
	s.next, s.prev = 0, 0
}

// release frees the list of s up to the node end; 0 frees all of it.
func (l *logNodes) release(s *state, end uint32, share uint8) {
	for i := s.logHead(); i != 0 && i != end; {
		next := l.at(i).next
		l.put(i, share)
		i = next
	}
}

// largestShare returns the share number with most nodes in use.
func (l *logNodes) largestShare() (share uint8) {
	for i, n := range l.inUse {
		if n > l.inUse[share] {
			share = uint8(i)
		}
	}
	return share
}
