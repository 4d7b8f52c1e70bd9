package main

import (
	"runtime"
	"time"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/workload"
)

// memoryReading is what a store holds and what that costs the garbage collector.
type memoryReading struct {
	BytesPerKey float64
	Empty, Full time.Duration // a forced garbage collection
}

// childMemory measures one contestant. Everything that it allocates from its
// making on is counted as its own, the keys included if it keeps them: they are
// made one by one and nothing else holds on to them.
func childMemory(name string) {
	c := contestant(name)
	before := measure.Heap()

	s := c.Open(store.Scarce, million)
	var r memoryReading
	r.Empty = measure.Collection()
	d := s.Decider()
	for i := range million {
		if !d.Allow(workload.NewKey(i)) {
			fail("%s: the first request of key %d is denied", name, i)
		}
	}
	r.BytesPerKey = float64(measure.Heap()-before) / million
	r.Full = measure.Collection()

	// Every key has spent what it had, so a key that may still spend was lost.
	for i := range million {
		if d.Allow(workload.NewKey(i)) {
			fail("%s: key %d is not live", name, i)
		}
	}
	runtime.KeepAlive(s)
	printReading(r)
}
