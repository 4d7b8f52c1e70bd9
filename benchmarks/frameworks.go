package main

import (
	"github.com/weir-go/weir/benchmarks/framework"
	"github.com/weir-go/weir/benchmarks/store"
)

// workFrameworks is a worker that measures one framework with one limiter. Its columns and answers
// are those of the group http.
func workFrameworks(name string) {
	var c framework.Contestant
	for _, each := range framework.Contestants() {
		if each.Name == name {
			c = each
		}
	}
	workHandlers(c.Serve(store.Ample), c.Serve(store.Scarce))
}
