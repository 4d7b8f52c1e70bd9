package main

import (
	"runtime"
	"time"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/workload"
)

// memoryReading is the memory of a store, and its cost for the garbage collector.
type memoryReading struct {
	BytesPerKey float64
	Empty, Full time.Duration // times of a forced garbage collection
}

// childMemory measures one contestant. It counts everything that the contestant allocates,
// including keys if it keeps them: keys are made one by one and not kept elsewhere.
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

	// Every key has spent its units, so a key that is still allowed was lost.
	for i := range million {
		if d.Allow(workload.NewKey(i)) {
			fail("%s: key %d is not live", name, i)
		}
	}
	runtime.KeepAlive(s)
	printReading(r)
}
