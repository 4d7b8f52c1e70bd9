package memory

import "github.com/weir-go/weir/internal/ground/family"

// logNode is a [family.Entry] in 16 bytes.
type logNode struct {
	word  int64
	units uint16
	mark  uint8
	share uint8  // the share number under which it is counted
	next  uint32 // next node of the list, or of the free list; 0: none
}

// shares is how many share numbers there are. The nodes and slots of a scope are counted under its
// number. With more scopes than that, some share a number.
const shares = 256

const pieceNodes = 256 // 4 KiB

// nodes are the nodes of one shard, numbered from 1. Pieces are allocated as needed, and never
// freed to the system. Nodes contain no pointers.
type nodes struct {
	pieces []*[pieceNodes]logNode
	made   uint32          // nodes that were ever used
	most   uint32          // bound of made
	free   uint32          // head of the list of unused nodes
	inUse  *[shares]uint32 // nodes in lists, by share number
}

func (n *nodes) at(i uint32) *logNode {
	i--
	return &n.pieces[i/pieceNodes][i%pieceNodes]
}

// get returns an unused node, or 0. It counts it under share; the caller writes it.
func (n *nodes) get(share uint8) uint32 {
	i := n.free
	switch {
	case i != 0:
		n.free = n.at(i).next
	case n.made < n.most:
		i = n.make()
	default:
		return 0
	}
	n.inUse[share]++
	return i
}

// make returns a node that was never used.
func (n *nodes) make() uint32 {
	if n.made == 0 {
		n.inUse = new([shares]uint32)
	}
	if n.made%pieceNodes == 0 {
		n.pieces = append(n.pieces, new([pieceNodes]logNode))
	}
	n.made++
	return n.made
}

// Free adds the node i to the free list.
func (n *nodes) Free(i uint32) {
	node := n.at(i)
	node.next = n.free
	n.free = i
	n.inUse[node.share]--
}

// Get implements [family.Entries].
func (n *nodes) Get(i uint32) family.Entry {
	node := n.at(i)
	return family.Entry{Word: node.word, Units: node.units, Mark: node.mark, Next: node.next}
}

// Set implements [family.Entries].
func (n *nodes) Set(i uint32, e family.Entry) {
	node := n.at(i)
	node.word, node.units, node.mark, node.next = e.Word, e.Units, e.Mark, e.Next
}

// Link implements [family.Entries].
func (n *nodes) Link(i, next uint32) { n.at(i).next = next }

// Find implements [family.Entries].
func (n *nodes) Find(head uint32, word int64, mark uint8) (i, before uint32) {
	for i = head; i != 0; {
		node := n.at(i)
		if node.word == word && node.mark == mark {
			return i, before
		}
		i, before = node.next, i
	}
	return 0, 0
}
