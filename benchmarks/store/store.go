// Package store sets up every contestant for the same task: decide one request of one key, in
// memory. Each file is one contestant. A contestant must only make the call that its users would
// make; anything else would distort the benchmark.
package store

import "time"

// Contestant is one way to decide by key in memory.
type Contestant struct {
	Name string
	Kind Kind
	// Open makes a store that limits every key to q. If keys is 0, the contestant uses its
	// defaults. Otherwise it has room for that many keys, and does not sweep them for an hour, if
	// these are configurable.
	Open func(q Quota, keys int) Store
}

// Kind is the category of a contestant.
type Kind uint8

const (
	Peer    Kind = iota // an alternative to weir
	Backend             // weir's memory, through backends.Backend
	Limiter             // weir's core.Limiter in front of it
	Bound               // weir's memory, bound to one limit, without rules
	Harness             // no limiter: shows the cost of measuring, and the floor
)

// Store is a contestant that is set up.
type Store interface {
	// Decider returns the decider for one goroutine. Contestants without state per goroutine always
	// return the same one.
	Decider() Decider
}

// Decider decides requests on one goroutine.
type Decider interface {
	// Allow takes one unit of key and reports whether there was one. An error of the contestant
	// counts as a denial.
	Allow(key string) bool
}

// Settler is a store that has to wait for its steady state after its keys are in: a sliding window
// with an empty previous window has less to do.
type Settler interface{ Settle() }

// Counter is a store that counts its live keys.
type Counter interface{ Live() int }

// Quota is the limit of a key. Buckets and windows differ; these numbers make them decide equally
// in a benchmark.
type Quota struct {
	Burst  int64         // units at once and per window
	Refill time.Duration // for buckets: time in which one unit returns
	Window time.Duration // for windows: their length
	Turns  bool          // a sliding window turns after its keys are in, see [Settler]
}

var (
	// Ample is not used up by one key in a run.
	Ample = Quota{Burst: 1_000_000_000, Refill: 3 * time.Second, Window: time.Hour, Turns: true}

	// Lasting is not used up by many keys in a run. A key that has taken one unit stays live for
	// longer than a run.
	Lasting = Quota{Burst: 10_000_000, Refill: 5 * time.Minute, Window: time.Hour, Turns: true}

	// Scarce is used up by one request.
	Scarce = Quota{Burst: 1, Refill: time.Hour, Window: time.Hour}

	// Ordinary is a typical limit of a login page.
	Ordinary = Quota{Burst: 10, Refill: 6 * time.Minute, Window: time.Hour}
)

// Contestants returns all of them, peers first.
func Contestants() []Contestant {
	return append(peers(), weir()...)
}

func peers() []Contestant {
	return []Contestant{
		{"(empty harness)", Harness, openHarness},
		{"(floor: clock, hash, lock, place)", Harness, openFloor},
		{"go-limiter", Peer, openGoLimiter},
		{"x/time, mutex map", Peer, openMutexMap},
		{"x/time, sync.Map", Peer, openSyncMap},
		{"echo store", Peer, openEcho},
		{"throttled map", Peer, openThrottledMap},
		{"throttled LRU", Peer, openThrottledLRU},
		{"httprate", Peer, openHTTPRate},
		{"ulule", Peer, openUlule},
		{"tollbooth", Peer, openTollbooth},
		{"gin-rate-limit", Peer, openGinRateLimit},
	}
}

// harness allows or denies everything without any state.
type harness bool

func openHarness(q Quota, _ int) Store        { return harness(q.Burst > 1) }
func (h harness) Decider() Decider            { return h }
func (h harness) Allow(string) (allowed bool) { return bool(h) }
