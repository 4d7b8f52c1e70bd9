package main

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/workload"
)

// floodReading is the result of a store in a flood of new keys.
type floodReading struct {
	Held    []int64       // growth of resident memory in bytes, after each of floodMillions
	Longest time.Duration // longest time for lot consecutive decisions
	Denied  int           // keys of the flood whose only request was denied
	Kept    bool          // the key that had spent its units is still denied
	Took    time.Duration // time of all decisions
}

const (
	floodKeys = 10 * million
	lot       = 1024
)

// floodMillions are the numbers of keys, in millions, after which memory is measured.
var floodMillions = []int{1, 2, 5, 10}

// childFlood sends one request for each of ten million keys through a store: weir with room for one
// million keys, peers with their defaults.
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
	const spender = "2001:db8::7" // not a key of the flood
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
		// Keys are made between the lots and are not part of the time.
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
			debug.FreeOSMemory() // so that the garbage of the keys does not count
			r.Held = append(r.Held, measure.Resident()-before)
		}
	}
	r.Kept = !d.Allow(spender)
	printReading(r)
}
