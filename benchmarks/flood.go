package main

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/workload"
)

// floodReading is what became of a store in a flood of new keys.
type floodReading struct {
	Held    []int64       // resident bytes more than before the store was made, after each of floodMillions
	Longest time.Duration // for lot consecutive decisions
	Denied  int           // keys of the flood whose one request was denied
	Kept    bool          // the key that had spent its units is still denied
	Took    time.Duration // all decisions
}

const (
	floodKeys = 10 * million
	lot       = 1024
)

// floodMillions is after how many million keys memory is looked at.
var floodMillions = []int{1, 2, 5, 10}

// childFlood sends one request for each of ten million keys through a store:
// weir with room for one million keys, peers as they are by default.
func childFlood(name string) {
	c := contestant(name)
	room := 0
	if c.Kind == store.Backend {
		room = million
	}
	keys := make([]string, lot)
	debug.FreeOSMemory()
	before := measure.Resident()

	s := c.Open(store.Ordinary, room)
	d := s.Decider()
	const spender = "2001:db8::7" // no key of the flood
	for i := range store.Ordinary.Burst {
		if !d.Allow(spender) {
			fail("%s: request %d of the spender is denied", name, i+1)
		}
	}
	if d.Allow(spender) {
		fail("%s: the spender is not denied", name)
	}

	var r floodReading
	for sent := 0; sent < floodKeys; {
		// Keys are made between the lots and are not part of their time.
		keys = keys[:min(lot, floodKeys-sent, million-sent%million)]
		for i := range keys {
			keys[i] = workload.NewKey(sent + i)
		}
		watch := measure.Start()
		for _, key := range keys {
			if !d.Allow(key) {
				r.Denied++
			}
		}
		took := watch.Elapsed()
		r.Took += took
		r.Longest = max(r.Longest, took)
		sent += len(keys)
		keys = keys[:cap(keys)]
		if sent%million == 0 && slices.Contains(floodMillions, sent/million) {
			clear(keys)
			debug.FreeOSMemory() // or the garbage of the keys would count
			r.Held = append(r.Held, measure.Resident()-before)
		}
	}
	r.Kept = !d.Allow(spender)
	printReading(r)
}
