package redisbackend

// list is values in the order in which they came. Any of them can be removed at
// once, by its link, which is part of the value.
type list[T any] struct {
	first, last *link[T]
	size        int
}

// link is the place of a value in a list. The value belongs in of.
type link[T any] struct {
	of         T
	prev, next *link[T]
}

func (l *list[T]) add(k *link[T]) {
	k.prev, k.next = l.last, nil
	if l.last == nil {
		l.first = k
	} else {
		l.last.next = k
	}
	l.last = k
	l.size++
}

func (l *list[T]) addFirst(k *link[T]) {
	k.prev, k.next = nil, l.first
	if l.first == nil {
		l.last = k
	} else {
		l.first.prev = k
	}
	l.first = k
	l.size++
}

func (l *list[T]) remove(k *link[T]) {
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
