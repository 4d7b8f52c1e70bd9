package core

import "sync/atomic"

// logNode is one taking, or several that are remembered together. The node with
// index 0 is never used.
type logNode struct {
	at   int64
	cost uint32
	next uint32
}

const segmentNodes = 256 // 4 KiB

// logSegment is a stretch of nodes. The first segment of a shard has none: it
// heads the list of those that have room, which is a ring, and the list of those
// that have been returned.
type logSegment struct {
	nodes      *[segmentNodes]logNode // nil: returned
	next, prev uint32                 // in the list
	used       uint16
	free       uint16 // the first free node, if used < segmentNodes
}

// shares is how many scopes have a share of the nodes of their own. Where there
// are more, some have one together.
const shares = 256

// logNodes holds the nodes of one shard, in segments. So many are its own; what
// it needs beyond them it draws from what all shards have in common, and returns
// when it is empty again. Nodes contain no pointers.
type logNodes struct {
	segments []logSegment
	returned uint32 // list of those without nodes
	empty    uint32 // one that is wholly free, kept
	drawn    uint32 // how many have nodes
	own      uint32
	common   *commonSegments

	held   *[shares]uint32 // nodes in use, by share
	merges uint32          // counts coarsenLocked
	hand   uint32          // the bucket at which to look for nodes next

	vainAt    int64 // when a log of vainShare last looked in vain
	vainShare uint8
}

// commonSegments is what any shard may draw on beyond its own.
type commonSegments struct {
	left   atomic.Int64
	shards []shard
	hand   atomic.Uint32 // the shard in which to look for dead nodes next
}

func (l *logNodes) at(i uint32) *logNode {
	return &l.segments[i/segmentNodes].nodes[i%segmentNodes]
}

// get returns an unused node of a segment with room, or of a segment of the
// shard's own; otherwise 0.
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
	l.held[share]++
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
	l.held[share]--
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

// borrow draws a segment from what all shards have in common, if there is one.
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
		l.held = new([shares]uint32)
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

// link adds a segment to the end of the list of those with room. Nodes are taken
// from the first, so that the others empty meanwhile.
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

// release frees the list of s up to the node end, 0 for all of it.
func (l *logNodes) release(s *state, end uint32, share uint8) {
	for i := s.logHead(); i != 0 && i != end; {
		next := l.at(i).next
		l.put(i, share)
		i = next
	}
}

// largestShare returns the share that has most nodes in use.
func (l *logNodes) largestShare() (share uint8) {
	for i, n := range l.held {
		if n > l.held[share] {
			share = uint8(i)
		}
	}
	return share
}
