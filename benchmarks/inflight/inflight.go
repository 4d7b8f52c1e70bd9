// Package inflight sets up every contestant for the same task: start a request of one key and end
// it, in memory. A contestant must only make the calls that its users would make; anything else
// would distort the benchmark.
package inflight

import "github.com/weir-go/weir/benchmarks/store"

// Contestant is a way to limit how many requests of a key run at once, or a yardstick.
type Contestant struct {
	Name string
	Kind Kind

	// AtOnce and Rate tell what it limits; Keyed tells that it limits each key.
	AtOnce, Rate, Keyed bool

	// Open makes a store that lets atOnce requests of a key run at once and limits every key to q,
	// as far as it can.
	Open func(q store.Quota, atOnce int) Store
}

// Kind is the category of a contestant.
type Kind uint8

const (
	Floor Kind = iota // one counter for all requests: shows the cost of keys
	Peer              // an alternative to weir
	Rates             // weir with rules without an end
	Ends              // weir with rules with an end
)

// AtOnce is the measured limit, the highest that weir allows. Many is the number of requests that
// run in the background in the columns with many, and leaves some room.
const (
	AtOnce = 100_000
	Many   = 99_000
)

// Store is a contestant that is set up. Its Decider starts a request and ends it at once.
type Store interface {
	store.Store

	// Hold starts a request of key that never ends, and reports whether it may start.
	Hold(key string) bool
}

// Contestants returns all of them, peers first.
func Contestants() []Contestant {
	return append(peers(), weir()...)
}
