// Package inflight sets up every contestant to do one and the same thing: start
// a request of one key and end it, in memory. What a contestant does besides the
// calls that its users would make is what the benchmark measures wrongly.
package inflight

import "github.com/weir-go/weir/benchmarks/store"

// Contestant is one way to limit how many requests of a key run at once, or what
// that is compared with.
type Contestant struct {
	Name string
	Kind Kind

	// What it limits, and of whom.
	AtOnce, Rate, Keyed bool

	// Open makes a store that lets atOnce requests of a key run at once and holds
	// every key to q, as far as it limits either.
	Open func(q store.Quota, atOnce int) Store
}

// Kind says what a contestant is compared as.
type Kind uint8

const (
	Floor Kind = iota // one counter for everybody: shows what keys cost
	Peer              // what users would pick instead
	Rates             // weir, rules without an end
	Ends              // weir, rules with an end
)

// AtOnce is the limit that is measured, the highest of weir, and Many is how many
// requests run meanwhile where there are many: as many as leave some room.
const (
	AtOnce = 100_000
	Many   = 99_000
)

// Store is a contestant set up. What its Decider allows is a request from its
// start to its end, which follows at once.
type Store interface {
	store.Store

	// Hold starts a request of key that does not end, and reports whether it may
	// start.
	Hold(key string) bool
}

// Contestants returns all of them, peers first.
func Contestants() []Contestant {
	return append(peers(), weir()...)
}
