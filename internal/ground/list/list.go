// Package list is an intrusive linked list: nodes are fields of the elements. Add allocates
// nothing, and Remove takes constant time.
package list

// List is a doubly linked list. The zero List is empty.
type List[T any] struct {
	First, Last *Node[T]
	Size        int
}

// Node is a node of a list whose value is Of. It may be in one list at a time.
type Node[T any] struct {
	Of         T
	Prev, Next *Node[T]
}

// Add adds n at the end. n must be in no list.
func (l *List[T]) Add(n *Node[T]) {
	n.Prev, n.Next = l.Last, nil
	if l.Last == nil {
		l.First = n
	} else {
		l.Last.Next = n
	}
	l.Last = n
	l.Size++
}

// AddFirst adds n at the beginning. n must be in no list.
func (l *List[T]) AddFirst(n *Node[T]) {
	n.Prev, n.Next = nil, l.First
	if l.First == nil {
		l.Last = n
	} else {
		l.First.Prev = n
	}
	l.First = n
	l.Size++
}

// Remove removes n, which must be in l.
func (l *List[T]) Remove(n *Node[T]) {
	if n.Prev == nil {
		l.First = n.Next
	} else {
		n.Prev.Next = n.Next
	}
	if n.Next == nil {
		l.Last = n.Prev
	} else {
		n.Next.Prev = n.Prev
	}
	n.Prev, n.Next = nil, nil
	l.Size--
}
