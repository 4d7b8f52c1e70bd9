package list_test

import (
	"fmt"

	"github.com/weir-go/weir/internal/ground/list"
)

// What is in a list has its node as a field, so that it can be removed without a search.
func ExampleList() {
	type waiter struct {
		name string
		node list.Node[*waiter]
	}
	var queue list.List[*waiter]
	join := func(name string) *waiter {
		w := &waiter{name: name}
		w.node.Of = w
		queue.Add(&w.node)
		return w
	}
	join("ann")
	bob := join("bob")
	join("eve")
	queue.Remove(&bob.node) // has left
	for n := queue.First; n != nil; n = n.Next {
		fmt.Println(n.Of.name)
	}
	// Output:
	// ann
	// eve
}
