package main

import (
	"net/http"

	"github.com/weir-go/weir/benchmarks/framework"
	"github.com/weir-go/weir/benchmarks/measure"
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
	allowing, denying := c.Serve(store.Ample), c.Serve(store.Scarce)

	var a httpAnswers
	w := newDiscard()
	serve(allowing, w, 1, http.StatusNoContent)
	a.Fields = len(w.header)
	serve(denying, w, 2, http.StatusTooManyRequests)
	if w.status == http.StatusTooManyRequests {
		a.DeniedType, a.DeniedBytes = w.header.Get("Content-Type"), w.written
	}
	work(a, []*measure.Meter{
		httpAllowed: measure.NewMeter(func(_, n int) int {
			return serve(allowing, w, n, http.StatusNoContent)
		}),
		httpDenied: measure.NewMeter(func(_, n int) int {
			return serve(denying, w, n, http.StatusTooManyRequests)
		}),
	})
}
