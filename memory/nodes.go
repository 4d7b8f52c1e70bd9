package memory

// logNode is one taking, or several that were merged. In logs of values it may also be a digest:
// see isNamed.
type logNode struct {
	at   int64
	cost uint32
	next uint32 // next node of the log, or of the free list; 0: none
}

// The cost of a node says what it is, besides its units.
const (
	isNamed   = 1 << 31 // the next node has the digest of the value
	isRepeat  = 1 << 30 // a request had the value that was not the first
	unitsMask = isRepeat - 1
)

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
	inUse  *[shares]uint32 // nodes in logs, by share number
}

func (n *nodes) at(i uint32) *logNode {
	i--
	return &n.pieces[i/pieceNodes][i%pieceNodes]
}

// get returns an unused node, or 0.
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

// put adds the node i to the free list.
func (n *nodes) put(i uint32, share uint8) {
	n.at(i).next = n.free
	n.free = i
	n.inUse[share]--
}
