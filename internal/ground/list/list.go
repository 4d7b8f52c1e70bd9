// Package list has a linked list whose nodes are fields of what is in it: adding allocates nothing,
// and removing takes constant time.
package list

// List is a list of values in the order in which they were added. The zero List is empty.
type List[T any] struct {
	First, Last *Node[T]
	Size        int
}

// Node links the value Of into a list. It is in one list at a time.
type Node[T any] struct {
	Of         T
	Prev, Next *Node[T]
}

// Add adds n, which is in no list, at the end.
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

// AddFirst adds n, which is in no list, at the beginning.
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

// Remove removes n, which is in l.
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
