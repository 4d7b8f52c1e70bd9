package redisbackend

// list is a linked list of values in the order in which they were added. A value is
// removed in constant time, by its node, which is a field of the value.
type list[T any] struct {
	first, last *node[T]
	size        int
}

// node links a value into a list. of is the value.
type node[T any] struct {
	of         T
	prev, next *node[T]
}

func (l *list[T]) add(k *node[T]) {
	k.prev, k.next = l.last, nil
	if l.last == nil {
		l.first = k
	} else {
		l.last.next = k
	}
	l.last = k
	l.size++
}

func (l *list[T]) addFirst(k *node[T]) {
	k.prev, k.next = nil, l.first
	if l.first == nil {
		l.last = k
	} else {
		l.first.prev = k
	}
	l.first = k
	l.size++
}

func (l *list[T]) remove(k *node[T]) {
	if k.prev == nil {
		l.first = k.next
	} else {
		k.prev.next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		k.next.prev = k.prev
	}
	k.prev, k.next = nil, nil
	l.size--
}
