package main

import (
	"runtime"

	"github.com/weir-go/weir/benchmarks/inflight"
	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/benchmarks/workload"
)

const (
	lifecycleFew  = 1_000 // requests that run meanwhile
	lifecycleKeys = 100_000
)

// lifecycleLoads are the pairs of columns of the group lifecycle: what runs while
// requests start and end.
var lifecycleLoads = []struct {
	head string
	held int // on one key
	keys int // with one request each; 0: the one key
}{
	{"one key", 0, 0},
	{table.Number(lifecycleFew) + " held", lifecycleFew, 0},
	{table.Number(inflight.Many) + " held", inflight.Many, 0},
	{table.Number(lifecycleKeys) + " keys, 1 held each", 0, lifecycleKeys},
}

// lifecycleHeads are the columns: each load from one goroutine, and from as many
// as there are processors.
func lifecycleHeads() []string {
	var heads []string
	for _, load := range lifecycleLoads {
		heads = append(heads, load.head, "parallel")
	}
	return heads
}

// lifecycleContestant returns the contestant of the given name.
func lifecycleContestant(name string) inflight.Contestant {
	for _, c := range inflight.Contestants() {
		if c.Name == name {
			return c
		}
	}
	panic("no contestant " + name)
}

// workLifecycle is a worker that measures one contestant.
func workLifecycle(name string) {
	c := lifecycleContestant(name)
	var meters []*measure.Meter
	for _, load := range lifecycleLoads {
		s := c.Open(store.Ample, inflight.AtOnce)
		sequence := workload.One()
		for range load.held {
			hold(c, s, sequence.Key(0))
		}
		if load.keys > 0 {
			sequence = workload.Uniform(load.keys)
			for i := range load.keys {
				if c.Kind == inflight.Floor && i == inflight.Many {
					break // it has one counter for all keys
				}
				hold(c, s, workload.NewKey(i))
			}
		}
		meters = append(meters, serial(s, sequence, true), parallel(s, sequence, true))
	}
	runtime.GC()
	work(nil, meters)
}

// hold starts a request that lasts as long as this process.
func hold(c inflight.Contestant, s inflight.Store, key string) {
	if !s.Hold(key) {
		fail("%s: a request that should run meanwhile is denied", c.Name)
	}
}
